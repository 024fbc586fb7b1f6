//! Stack overflow: alternate signal stacks, and a fault handler that says what happened.
//!
//! To overflow a stack faults in its red zone. The handler needs a stack of its own (per kernel thread), and
//! something to tell an overflow from a wild pointer. Green threads' red zones are looked up by a function
//! that `mxn` registers. Kernel threads that run inside [`watched`] note theirs in a thread-local. Any other
//! fault goes to the handler that was installed before. As a rule that is std's, which knows its own threads
//! and the main thread.
//!
//! Everything in the handler is async-signal-safe: no allocation, no lock, no thread-local with a destructor,
//! output by `write(2)`.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::mem;
use std::ops::Range;
use std::ptr;

use super::bytes::Bytes;
use super::mmap::{Guard, Mapping, page_size};
use super::once::OnceLock;
use super::{message, sigaction, system};

/// The size of an alternate stack. Only what signal frames touch is ever resident. Runtimes that bring their
/// own, such as wasmtime, leave one of this size alone.
const ALT_STACK: usize = 256 << 10;
/// Inaccessible bytes below it.
const ALT_GUARD: usize = 64 << 10;

/// What an alternate stack maps, as a rule.
pub(crate) const MAPPED: usize = ALT_STACK + ALT_GUARD;

/// Returns the least stack that the kernel needs to deliver a signal; 0 if it does not say.
pub(crate) fn minimum() -> usize {
    system::minimum_signal_stack()
}

/// The alternate signal stack of the kernel thread that made it, until it is dropped there. Not `Send`.
#[derive(Debug)]
pub(crate) struct AltStack {
    /// Kept mapped until the kernel has been told to forget it.
    mapping: Mapping,
    _of_this_thread: std::marker::PhantomData<*mut ()>,
}

impl AltStack {
    /// Gives the calling kernel thread an alternate stack.
    pub(crate) fn install() -> io::Result<Self> {
        let size = ALT_STACK.max(4 * minimum().next_multiple_of(page_size()));
        let guard = ALT_GUARD.max(page_size());
        let mapping = Mapping::reserve(guard + size)?;
        mapping.forbid_huge_pages();
        mapping.guard(0..guard, Guard::best())?;
        let stack =
            libc::stack_t { ss_sp: mapping.start().wrapping_add(guard).cast(), ss_flags: 0, ss_size: size };
        // SAFETY: the stack is mapped, unused, and stays so until `drop` has taken it from the kernel.
        if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } != 0 {
            return Err(super::last_error("cannot set an alternate signal stack"));
        }
        Ok(Self { mapping, _of_this_thread: std::marker::PhantomData })
    }

    /// Returns the addresses it occupies, guard included.
    fn range(&self) -> Range<usize> {
        let start = self.mapping.start().addr();
        start..start + self.mapping.len()
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        let mut installed = none();
        // SAFETY: a query.
        unsafe { libc::sigaltstack(ptr::null(), &raw mut installed) };
        // If a library has put its own in place, that one stays.
        if self.range().contains(&installed.ss_sp.addr()) {
            let none = none();
            // SAFETY: without an alternate stack, handlers run on the thread's own.
            unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
        }
    }
}

/// Returns what stands for no alternate stack.
fn none() -> libc::stack_t {
    libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 }
}

/// The thread that has overflowed its stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overflow {
    pub(crate) name: Option<&'static str>,
    pub(crate) id: Option<u64>,
    /// Usable bytes.
    pub(crate) size: usize,
}

/// Tells whether a faulting address is an overflow of the stack that the faulting thread stands on. Called in
/// the handler, so it must be async-signal-safe.
type Explain = fn(usize) -> Option<Overflow>;

static EXPLAIN: OnceLock<Explain> = OnceLock::new();

/// Registers what knows the red zones of green threads. The first call counts.
pub(crate) fn explain_with(explain: Explain) {
    let _ = EXPLAIN.set(explain);
}

/// Returns `true` if the running thread has nothing that a jump out of a handler would leave behind.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
static MAY_BE_LEFT: OnceLock<fn() -> bool> = OnceLock::new();

/// Leaves overflows to handlers that the program has installed, where `may_be_left`. Such a handler may jump
/// out of the code that has overflowed. This crate's own is not left so, as it may have locks. Process-wide.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn leave_to_program(may_be_left: fn() -> bool) {
    MAY_BE_LEFT.get_or_init(|| may_be_left);
}

/// Returns `true` if a handler of the program gets an overflow of the code that was stopped there.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
fn is_left_to_program(signal: libc::c_int, context: &libc::ucontext_t) -> bool {
    MAY_BE_LEFT.get().is_some_and(|may_be_left| may_be_left())
        && previous(signal).is_some_and(sigaction::is_handler)
        && !super::preempt::is_in_own_library(context)
}

/// The instruction whose faults are answered, and where it goes on then.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
static ANSWERED: OnceLock<(usize, usize)> = OnceLock::new();

/// Lets code go on at `failed` if the instruction at `load` faults. Process-wide; the first call counts. Where
/// the handler cannot be installed, such a fault ends the process.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn answer_faults(load: usize, failed: usize) {
    ANSWERED.get_or_init(|| {
        let _ = install_handler();
        (load, failed)
    });
}

thread_local! {
    /// What `watched` noted about this kernel thread's stack. No destructor, constant start: a handler may
    /// read it.
    static WATCHED: Cell<*const KernelStack> = const { Cell::new(ptr::null()) };
}

/// The stack of a kernel thread. It lives in the frame of `watched`.
struct KernelStack {
    guard: Range<usize>,
    overflow: Overflow,
}

/// Runs `body`, the main function of a kernel thread other than the main thread. An overflow of its stack is
/// reported under this name. Installs the handler if need be.
///
/// The thread needs an alternate stack. Std gives its threads one; a raw one makes an [`AltStack`].
pub(crate) fn watched<R>(name: Option<&str>, id: Option<u64>, body: impl FnOnce() -> R) -> R {
    let Some((guard, size)) = system::own_stack() else { return body() };
    // The size that was asked for: the C library's share was added to it. musl leaves the rest of a page to
    // the stack.
    let size = size.saturating_sub(system::own_share_of_stacks()) & !(page_size() - 1);
    // SAFETY: the handler reads the pointer on this very thread, between here and the end of this function.
    // The caller's borrow lasts that long.
    let name = name.map(|name| unsafe { mem::transmute::<&str, &'static str>(name) });
    let stack = KernelStack { guard, overflow: Overflow { name, id, size } };
    let _ = install_handler();
    let _restore = Restore(WATCHED.replace(&raw const stack));
    body()
}

/// Puts back what `WATCHED` was, even when unwinding.
struct Restore(*const KernelStack);

impl Drop for Restore {
    fn drop(&mut self) {
        WATCHED.set(self.0);
    }
}

const FAULTS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What was installed before, in the order of `FAULTS`.
static PREVIOUS: [OnceLock<libc::sigaction>; FAULTS.len()] = [const { OnceLock::new() }; FAULTS.len()];

/// Installs the fault handler in front of the one that exists. Process-wide; only the first call does
/// anything.
pub(crate) fn install_handler() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    DONE.get_or_init(|| {
        FAULTS.iter().zip(&PREVIOUS).try_for_each(|(&signal, previous)| put_in_front(signal, previous))
    })
    .map_err(|code| super::explain(&io::Error::from_raw_os_error(code), "cannot handle stack overflows"))
}

fn put_in_front(signal: libc::c_int, previous: &OnceLock<libc::sigaction>) -> Result<(), i32> {
    let code = |error: io::Error| error.raw_os_error().unwrap_or(0);
    let old = sigaction::of(signal).map_err(code)?;
    // Before the handler can run and look for it.
    let _ = previous.set(old);
    let mut new = sigaction::calling_unwinding(on_fault, 0);
    if sigaction::is_handler(&old) {
        // As the earlier handler has asked, because it runs inside ours. SA_RESETHAND takes effect when it is
        // called.
        new.sa_mask = old.sa_mask;
        new.sa_flags |= old.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART);
    }
    // SAFETY: the handler is async-signal-safe.
    unsafe { sigaction::set(signal, &new) }.map_err(code)
}

extern "C-unwind" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a complete siginfo.
    let what = unsafe { &*info };
    let by_a_process = what.si_code <= 0;
    #[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
    if !by_a_process
        && let Some(&(load, failed)) = ANSWERED.get()
        // SAFETY: the kernel passes a complete context.
        && super::preempt::answer(unsafe { &mut *context.cast() }, load, failed)
    {
        return;
    }
    #[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
    // SAFETY: the kernel passes a complete context.
    let is_programs = is_left_to_program(signal, unsafe { &*context.cast() });
    #[cfg(not(all(feature = "interpose", target_os = "linux", target_env = "gnu")))]
    let is_programs = false;
    // SAFETY: the field is there for faults, and ignored otherwise.
    let fault = unsafe { what.si_addr() }.addr();
    if !by_a_process
        && let Some(overflow) = explain(fault)
        && !is_programs
    {
        overflow.die();
    }
    pass_on(signal, info, context, by_a_process);
}

fn explain(fault: usize) -> Option<Overflow> {
    // SAFETY: null, or a frame of `watched` further up on this kernel thread.
    let watched = unsafe { WATCHED.get().as_ref() };
    let kernel = watched.filter(|stack| stack.guard.contains(&fault)).map(|stack| stack.overflow);
    kernel.or_else(|| EXPLAIN.get().and_then(|explain| explain(fault)))
}

/// Returns the action that was installed before for one of `FAULTS`.
fn previous(signal: libc::c_int) -> Option<&'static libc::sigaction> {
    let which = FAULTS.iter().position(|&fault| fault == signal)?;
    PREVIOUS[which].get()
}

/// Does with a signal what would have been done without this crate.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void, by_a_process: bool) {
    let Some(previous) = previous(signal) else { return };
    if previous.sa_flags & libc::SA_RESETHAND != 0 {
        // As the kernel does before it calls such a handler: the next signal gets the default action.
        // SAFETY: the default action.
        let _ = unsafe { sigaction::set(signal, &sigaction::default()) };
    }
    if sigaction::is_handler(previous) {
        // SAFETY: it is a handler, and came from the kernel.
        unsafe { sigaction::call(previous, signal, info, context) };
    } else if !(by_a_process && previous.sa_sigaction == libc::SIG_IGN) {
        // SAFETY: the previous action came from the kernel.
        let _ = unsafe { sigaction::set(signal, previous) };
        if by_a_process {
            // It is blocked in the handler, and delivered when that returns.
            super::process::send_here(signal);
        }
        // Otherwise the instruction faults again when this returns, with the default action.
    }
}

impl Overflow {
    /// Prints what happened and how to avoid it, and aborts.
    fn die(self) -> ! {
        message::to_standard_error(format_args!("\n{self}; aborting\n"));
        super::process::abort()
    }
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread '{}'", self.name.unwrap_or("<unnamed>"))?;
        if let Some(id) = self.id {
            write!(f, " (id {id})")?;
        }
        write!(
            f,
            " has overflowed its stack of {}\n\
             give it more with thread::Builder::stack_size, or every thread with SELVEDGE_STACK_SIZE",
            Bytes(self.size)
        )
    }
}

#[cfg(test)]
mod tests;
