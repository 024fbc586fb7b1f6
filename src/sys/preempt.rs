//! The signal that stops a kernel thread anywhere, for preemption: its handler, and how it is sent.
//!
//! **The problem.** A library may not own a signal. The program, or another library, may have a handler for
//! the same one, installed before or after this crate's. It must get every signal that was meant for it, and
//! none that was meant for this crate.
//!
//! **Rejected.**
//!
//! - To take a signal for ours because a flag says that one was asked for. One from another sender may arrive
//!   in between and is then lost. A late one of ours goes to another handler. If there is only the default
//!   action, that ends the process.
//! - A real-time signal that this crate chooses. Any other library that chooses the same one has the same
//!   problem, and debuggers stop at it.
//!
//! **The way.** The signal is SIGURG, unless the program chooses another. Hardly any program uses it, it is
//! ignored by default, and debuggers pass it on. A handler for it must expect it at any time. (Those are Go's
//! reasons, too.) Our signals carry a value that no other sender has: the address of [`COOKIE`]. (The call is
//! `rt_tgsigqueueinfo`, which is `tgkill` with a value.) So the handler knows them without a question to any
//! other code. Two copies of this crate in one process tell theirs apart, too.
//!
//! A signal that is not ours goes to the earlier handler, as the kernel would have called it. That is a
//! function of one or of three arguments, with the mask that it asked for. `SIG_IGN` and `SIG_DFL` do what
//! they say. `SA_RESETHAND` gives one signal to the handler and the rest to the default. Three things are
//! different from before:
//!
//! - The handler runs on the alternate stack if the kernel thread has one.
//! - System calls that it interrupts are restarted.
//! - It is called only after a few instructions of ours.
//!
//! If a program installs its own handler later, that takes ours away, and preemption with it:
//! [`still_installed`] tells. If that handler passes on what it does not know, with all three arguments, both
//! work.
//!
//! **Lost signals.** One signal of a number can be pending on a kernel thread at a time. If another sender's
//! signal is pending when ours is sent, ours is lost, and the sender must ask again. In the opposite case
//! theirs is lost, as between any two senders of one signal. If the kernel has no memory for the value
//! (RLIMIT_SIGPENDING), the signal arrives without it. It then counts as ours if one of ours is on its way to
//! that kernel thread, and as another sender's otherwise.
//!
//! **The handler** runs on the alternate stack, with every signal blocked except those that faults raise. So
//! it decides in one piece, and no handler of the program can run on top of it and leave by `longjmp`. Nor
//! can the C library's own, by which it ends kernel threads. A fault in the handler is a bug, and should say
//! where it is, so those signals stay unblocked. The handler keeps `errno`.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::kthread::FAULTS;
use super::once::{Mutex, OnceLock};
use super::registers::Registers;
use super::{Tid, process, sigaction, system};

#[cfg_attr(target_arch = "x86_64", path = "preempt/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "preempt/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "preempt/riscv64.rs")]
mod frame;
mod interrupted;
mod text;

pub(crate) use interrupted::Interrupted;
pub(crate) use system::keep_errno;

/// This system has such a signal.
pub(crate) const SUPPORTED: bool = true;

/// The signal, unless the program chooses another.
pub(crate) const DEFAULT_SIGNAL: c_int = system::SIGURG;

/// A set of signals, as the kernel keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mask(u64);

impl Mask {
    /// Returns a bit for each signal, the lowest for signal 1.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the set with these [`bits`](Self::bits).
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// If the code that a signal stopped stands at `load`, lets it go on at `failed`, and returns `true`.
pub(crate) fn answer(context: &mut libc::ucontext_t, load: usize, failed: usize) -> bool {
    let stands_there = frame::pc(context) == load;
    if stands_there {
        let sp = frame::sp(context);
        frame::go_on_at(context, sp, failed);
    }
    stands_there
}

/// Returns `true` if a signal stopped code of this crate, where that is no part of the main program.
/// Async-signal-safe.
pub(crate) fn is_in_own_library(context: &libc::ucontext_t) -> bool {
    text::in_own_library(frame::pc(context))
}

/// All signals but those that faults raise.
const ASYNCHRONOUS: u64 = {
    let (mut set, mut at) = (u64::MAX, 0);
    while at < FAULTS.len() {
        set &= !(1 << (FAULTS[at] - 1));
        at += 1;
    }
    set
};

/// Returns the signals that the calling kernel thread blocks at the moment.
pub(crate) fn baseline_mask() -> Mask {
    Mask(exchange_mask(libc::SIG_BLOCK, None))
}

/// Blocks all signals on the calling kernel thread, except those that faults raise.
pub(crate) fn block_all() {
    exchange_mask(libc::SIG_BLOCK, Some(ASYNCHRONOUS));
}

/// Makes the calling kernel thread block these signals and no others.
pub(crate) fn set_mask(Mask(mask): Mask) {
    exchange_mask(libc::SIG_SETMASK, Some(mask));
}

/// Calls `rt_sigprocmask` itself, because the C library keeps its own signals out of what it shows.
fn exchange_mask(how: c_int, set: Option<u64>) -> u64 {
    let set = set.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mut old = 0_u64;
    // SAFETY: a set or null to read, a set to write.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, &raw mut old, size_of::<u64>()) };
    old
}

/// Called in the handler for each signal that [`send`] has sent, on the kernel thread that it was sent to. It
/// runs on the thread register of the code that the signal stopped, which can be any code. It must be
/// async-signal-safe: no allocation, no lock, no panic, and no thread-local with a destructor or outside the
/// static block ([`own_thread_locals_are_static`]).
pub(crate) type Decide = fn(&mut Interrupted<'_>);

/// What the handler needs, written before the handler is installed.
struct Handler {
    signal: c_int,
    decide: Decide,
    previous: libc::sigaction,
}

static HANDLER: OnceLock<Handler> = OnceLock::new();

/// Its address marks our signals.
static COOKIE: u8 = 0;

fn cookie() -> *mut c_void {
    (&raw const COOKIE).cast_mut().cast()
}

/// Signals that mean something to the kernel, the C library or a shell. To send one says more than "stop".
const UNFIT: [c_int; 14] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCHLD,
];

/// Checks that `signal` can be used, as far as that can be said without trying.
///
/// # Errors
/// `InvalidInput` if it has a meaning of its own, is the C library's, or does not exist.
pub(crate) fn check(signal: c_int) -> io::Result<()> {
    // The kernel's first real-time signals, from 32, are the C library's.
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    let why = match signal {
        _ if UNFIT.contains(&signal) => "it has a meaning of its own",
        32.. if signal < first => "it is the C library's own",
        1.. if signal <= last => return Ok(()),
        _ => "there is no such signal",
    };
    let unfit = UNFIT.map(|signal| signal.to_string()).join(", ");
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "signal {signal} cannot be used for preemption: {why}; expected 1 to 31, but none of {unfit}, \
             and {first} to {last} (the default is {DEFAULT_SIGNAL}, SIGURG)"
        ),
    ))
}

/// Installs the handler of `signal` in front of the one that exists. Once for the process: a later call does
/// nothing.
///
/// # Errors
/// `InvalidInput` if the signal is not fit for this, or if another one was chosen before.
pub(crate) fn install(signal: c_int, decide: Decide) -> io::Result<()> {
    check(signal)?;
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let mut forked = false;
    let _one = ONE_AT_A_TIME.lock(|()| forked = true);
    if HANDLER.get().is_none() {
        put_in_front(signal, decide).map_err(|error| {
            super::explain(&error, format_args!("cannot use signal {signal} for preemption"))
        })?;
    } else if forked && !still_installed() {
        // The parent was in the middle of this when it forked.
        take_signal(signal)?;
    }
    match HANDLER.get() {
        Some(handler) if handler.signal != signal => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("this process is preempted by signal {} already, not {signal}", handler.signal),
        )),
        _ => Ok(()),
    }
}

fn put_in_front(signal: c_int, decide: Decide) -> io::Result<()> {
    let previous = sigaction::of(signal)?;
    text::find_library();
    // Before the handler can run and look for it. What the system refuses, it has refused by now.
    let _ = HANDLER.set(Handler { signal, decide, previous });
    take_signal(signal)
}

/// Installs this crate's handler for `signal`.
fn take_signal(signal: c_int) -> io::Result<()> {
    let mut ours = sigaction::calling(on_signal, libc::SA_RESTART);
    // Also those of the C library, which it lets no program block: it may unwind in its handlers, and not
    // through this one.
    // SAFETY: a set has at least the kernel's eight bytes.
    unsafe { (&raw mut ours.sa_mask).cast::<u64>().write_unaligned(ASYNCHRONOUS) };
    // SAFETY: the handler is as async-signal-safe as `decide`.
    unsafe { sigaction::set(signal, &ours) }
}

/// Returns `true` if threads are, or by default would be, preempted by `signal`.
#[cfg(feature = "signal")]
pub(crate) fn is_used(signal: c_int) -> bool {
    signal == HANDLER.get().map_or(DEFAULT_SIGNAL, |handler| handler.signal)
}

/// Returns a set with the signal, once its handler is installed. Otherwise the set is empty.
pub(crate) fn signal_bit() -> u64 {
    HANDLER.get().map_or(0, |handler| 1 << (handler.signal - 1))
}

/// Returns `true` if signals still come to this crate's handler first. Returns `false` before [`install`],
/// too.
pub(crate) fn still_installed() -> bool {
    HANDLER.get().is_some_and(|handler| sigaction::comes_to(handler.signal, on_signal))
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(handler) = HANDLER.get() else { return };
    // No switch happens in here, so the code that was stopped is on the same thread register.
    keep_errno(|| {
        let is_marked = is_ours(info);
        if !((is_marked || is_anonymous(info)) && handler.ask(context, is_marked)) {
            handler.pass_on(signal, info, context);
        }
    });
}

fn is_ours(info: *const libc::siginfo_t) -> bool {
    // SAFETY: null if other code calls the handler directly, otherwise complete.
    let Some(info) = (unsafe { info.as_ref() }) else { return false };
    // SAFETY: the field is there in signals that were queued, which the code tells. Otherwise it is ignored.
    info.si_code == libc::SI_QUEUE && unsafe { info.si_value() }.sival_ptr == cookie()
}

/// Returns `true` if the kernel had no memory for the signal's value and sender (RLIMIT_SIGPENDING).
fn is_anonymous(info: *const libc::siginfo_t) -> bool {
    // SAFETY: null if other code calls the handler directly, otherwise complete.
    let Some(info) = (unsafe { info.as_ref() }) else { return false };
    // SAFETY: signals with that code have the field, and otherwise it is ignored.
    info.si_code == libc::SI_USER && unsafe { info.si_pid() } == 0
}

impl Handler {
    /// Calls `decide` with what was interrupted. Returns `false` if the signal is another sender's.
    fn ask(&self, context: *mut c_void, is_marked: bool) -> bool {
        // SAFETY: null if other code calls the handler directly. Otherwise it is the kernel's frame, which is
        // valid while the handler runs.
        let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_mut() }) else { return false };
        // A handler that was installed in front of this one may not have blocked them.
        block_all();
        let mut interrupted = Interrupted::new(context, is_marked);
        (self.decide)(&mut interrupted);
        interrupted.is_claimed()
    }

    /// Does with a signal what would have been done without this crate.
    fn pass_on(&self, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        /// A handler that asked for one signal has had it.
        static SPENT: AtomicBool = AtomicBool::new(false);
        let previous = &self.previous;
        let once = previous.sa_flags & libc::SA_RESETHAND != 0;
        match previous.sa_sigaction {
            libc::SIG_IGN => {}
            libc::SIG_DFL => self.default_action(),
            // Relaxed: only one thread must get `false`.
            _ if once && SPENT.swap(true, Ordering::Relaxed) => self.default_action(),
            _ => {
                self.mask_as_asked(context);
                // SAFETY: it is a handler, and came from the kernel.
                unsafe { sigaction::call(previous, signal, info, context) };
            }
        }
    }

    /// Blocks what would be blocked if the kernel had called the previous handler. The end of this handler
    /// restores the mask.
    fn mask_as_asked(&self, context: *mut c_void) {
        // SAFETY: null if other code calls the handler directly, otherwise the kernel's frame.
        let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_mut() }) else { return };
        let Mask(before) = Interrupted::new(context, false).mask();
        // SAFETY: a set has at least the kernel's eight bytes.
        let asked = unsafe { (&raw const self.previous.sa_mask).cast::<u64>().read() };
        let itself = if self.previous.sa_flags & libc::SA_NODEFER == 0 { 1 << (self.signal - 1) } else { 0 };
        exchange_mask(libc::SIG_SETMASK, Some(before | asked | itself));
    }

    /// Does what the kernel does with a signal without a handler.
    fn default_action(&self) {
        const IGNORED: [c_int; 2] = [libc::SIGURG, libc::SIGWINCH];
        if !IGNORED.contains(&self.signal) {
            // SAFETY: the default action.
            let _ = unsafe { sigaction::set(self.signal, &sigaction::default()) };
            // It is blocked in here, and ends the process when the handler returns.
            process::send_here(self.signal);
        }
    }
}

/// The kernel's `siginfo_t` of a queued signal, on every 64-bit Linux.
#[repr(C)]
struct Info {
    signal: c_int,
    errno: c_int,
    code: c_int,
    _pad: c_int,
    pid: libc::pid_t,
    uid: libc::uid_t,
    value: usize,
    _rest: [u8; 96],
}

impl Info {
    /// Makes that of a signal with a value, or of one that was sent to a thread without one.
    fn new(signal: c_int, value: Option<usize>, uid: libc::uid_t) -> Self {
        Self {
            signal,
            errno: 0,
            // The C library says so of one that the kernel marks as a thread's (`SI_TKILL`).
            code: if value.is_some() { libc::SI_QUEUE } else { libc::SI_USER },
            _pad: 0,
            // SAFETY: no arguments.
            pid: unsafe { libc::getpid() },
            uid,
            value: value.unwrap_or(0),
            _rest: [0; 96],
        }
    }
}

/// Lets `signal` through to the calling kernel thread, which may have been started with it blocked.
pub(crate) fn unblock(signal: c_int) {
    exchange_mask(libc::SIG_UNBLOCK, Some(1 << (signal - 1)));
}

/// Blocks `signal` on the calling kernel thread.
pub(crate) fn block(signal: c_int) {
    exchange_mask(libc::SIG_BLOCK, Some(1 << (signal - 1)));
}

/// Sends the signal to a kernel thread of this process. It does not allocate, and waits for nothing.
///
/// # Errors
/// `ESRCH` if there is no such thread; `NotFound` if no handler was installed; what a sandbox answers.
pub(crate) fn send(tid: Tid) -> io::Result<()> {
    let handler = HANDLER.get().ok_or(io::ErrorKind::NotFound)?;
    queue(tid, &Info::new(handler.signal, Some(cookie().expose_provenance()), 0))
}

/// Sends a signal to a kernel thread of this process.
fn queue(tid: Tid, info: &Info) -> io::Result<()> {
    // SAFETY: reads the information, which is as long as the kernel's type.
    let rc = unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, info.pid, tid, info.signal, ptr::from_ref(info))
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns `true` if a handler of a signal may be running that has interrupted code of the caller's stack.
/// That ends at `end`.
pub(crate) fn may_be_in_handler(end: usize) -> bool {
    // SAFETY: plain data.
    let mut here: libc::ucontext_t = unsafe { std::mem::zeroed() };
    let stack = &raw mut here.uc_stack;
    // SAFETY: a place for the answer. The C library's function may be this crate's.
    unsafe { libc::syscall(libc::SYS_sigaltstack, ptr::null::<libc::stack_t>(), stack) };
    let above = (&raw const here).addr() + size_of_val(&here);
    frame::go_on_at(&mut here, above, 0);
    above < end && Interrupted::new(&mut here, false).is_above_frame(end)
}

/// Returns `false` if the kernel has no memory at the moment for a signal that is queued (RLIMIT_SIGPENDING).
/// It is asked by a timer, which needs the same memory. Async-signal-safe.
pub(crate) fn may_queue() -> bool {
    // SAFETY: plain data.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_NONE;
    let (clock, mut timer) = (libc::CLOCK_MONOTONIC, 0_i32);
    keep_errno(|| {
        // SAFETY: an event, and a place for the kernel's number of the timer.
        let made = unsafe { libc::syscall(libc::SYS_timer_create, clock, &raw mut event, &raw mut timer) };
        if made == 0 {
            // SAFETY: made above.
            unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
        }
        made == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN)
    })
}

/// Sends a signal with a value to the calling kernel thread, as `sigqueue` does. Async-signal-safe.
///
/// # Errors
/// `EAGAIN` if the kernel has no memory for it.
pub(crate) fn queue_here(signal: c_int, value: usize) -> io::Result<()> {
    queue_to(system::gettid(), signal, value)
}

/// Does so to a kernel thread of this process.
///
/// # Errors
/// `ESRCH` if there is no such thread; as [`queue_here`].
pub(crate) fn queue_to(tid: Tid, signal: c_int, value: usize) -> io::Result<()> {
    // SAFETY: no arguments.
    queue(tid, &Info::new(signal, Some(value), unsafe { libc::getuid() }))
}

/// Returns what `sigwaitinfo` says of a signal that a thread of this process has sent, perhaps with a value.
pub(crate) fn info(signal: c_int, value: Option<usize>) -> libc::siginfo_t {
    // SAFETY: no arguments.
    let info = Info::new(signal, value, unsafe { libc::getuid() });
    // SAFETY: the same type, as the kernel has it.
    unsafe { std::mem::transmute(info) }
}

/// Returns `true` if this crate's own thread-locals may be read in the handler.
///
/// In the main program, linkers make every access one instruction, relative to the thread register. In a
/// shared object, an access is a call of the loader's `__tls_get_addr`, as a rule. That allocates at a
/// thread's first use. Wherever the thread-locals lie, it takes a lock and allocates after any `dlopen`. If
/// the allocator was interrupted, that waits for itself. So it is not enough if the thread-locals lie at the
/// same distance from every thread register.
pub(crate) fn own_thread_locals_are_static() -> bool {
    text::in_main_program(on_signal as sigaction::Handler as usize)
}

#[cfg(test)]
mod tests;
