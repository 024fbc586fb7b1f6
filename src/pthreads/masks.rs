//! `pthread_sigmask`, `sigprocmask`; and which signals no thread of a finished program wants.
//!
//! **Problem.** The kernel gives a signal for the process to any kernel thread that does not block it, also
//! to an LWP that sleeps. Such an LWP must block what all threads of the program block, for these may wait
//! for the signal (`sigwait`). It must not block more: otherwise no kernel thread may be left to handle the
//! signal, while the thread that wants it sleeps.
//!
//! **Shape.** Threads are counted by their masks. LWPs that run no thread block what is in all masks that
//! count (`mxn/lwp/mask.rs`). Most programs have one mask for all threads. Those are counted by one number.
//! The lock is not taken before there is another mask, or the main thread blocks more than LWPs do.
//!
//! **Not at once.** Where the main thread does not block a signal, the kernel prefers it. So LWPs begin to
//! block a signal only if that blocks it, too. Otherwise a program would pay that creates a thread and joins
//! it, again and again, or whose only thread blocks signals for short times.
//!
//! **Handlers.** They may change the mask, so none may run while its thread has the lock, or while a change
//! is half noted. All signals are blocked meanwhile. The thread must not leave its LWP then.
//!
//! **The fast path.** Threads with the first mask are counted without the lock until there is another mask
//! (`park/watched_count.rs`, with models).

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::sigset_t;

use super::{record, start};
use crate::interpose::{self, cancel};
use crate::park::backend::Spawner;
use crate::park::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::thread::ThreadRef;
use crate::park::watched_count::WatchedCount;
use crate::process_default;
use crate::sys::kthread::{self, Mask, SignalMask};
use crate::sys::next;
use crate::sys::once::Mutex;
use crate::sys::preempt;

/// Signals that no thread blocks: the kernel's, and the C library's own.
const NEVER: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1) | 1 << 31 | 1 << 32;
/// What a thread blocks that blocks all signals.
const ALL: u64 = !NEVER;
/// Returns the signals that no green thread blocks: besides, that by which such threads are ended where they
/// are, or told of signals, if a finished program asks for that.
fn never() -> u64 {
    if start::is_default() && cancel::is_used() { NEVER | preempt::signal_bit() } else { NEVER }
}

/// Returns a mask for a new thread.
pub(super) fn allowed(mask: u64) -> u64 {
    mask & !(never() & !NEVER)
}

/// No mask: none has been set.
const NONE: u64 = u64::MAX;

/// The mask of the first thread.
static FIRST: AtomicU64 = AtomicU64::new(NONE);
/// How many threads have that mask. It is watched once there were other masks, or the main thread has blocked
/// more.
static FIRST_ALIVE: WatchedCount = WatchedCount::new();
/// What the main thread blocks.
static MAIN: AtomicU64 = AtomicU64::new(ALL);
/// What LWPs block that run no thread.
static IDLE: AtomicU64 = AtomicU64::new(NONE);

/// How many threads have which other mask. The last entry is of all masks that have no entry: it has the
/// signals that are in all of them.
struct Others([(u64, u32); 16]);

static OTHERS: Mutex<Others> = Mutex::new(Others([(0, 0); 16]));

impl Others {
    /// Counts a thread.
    fn add(&mut self, mask: u64) {
        if mask == FIRST.load(Ordering::Relaxed) {
            let _ = FIRST_ALIVE.add();
            return;
        }
        let (last, entries) = self.0.split_last_mut().expect("there are 16");
        let own = entries.iter().position(|it| it.0 == mask && it.1 > 0);
        let own = own.or_else(|| entries.iter().position(|it| it.1 == 0));
        let entry = own.map_or(last, |own| &mut entries[own]);
        entry.0 = if entry.1 == 0 { mask } else { entry.0 & mask };
        entry.1 += 1;
    }

    /// Counts a thread off.
    fn remove(&mut self, mask: u64) {
        if mask == FIRST.load(Ordering::Relaxed) {
            let _ = FIRST_ALIVE.remove();
            return;
        }
        let (last, entries) = self.0.split_last_mut().expect("there are 16");
        let own = entries.iter_mut().find(|it| it.0 == mask && it.1 > 0);
        let entry = own.unwrap_or(last);
        entry.1 = entry.1.saturating_sub(1);
    }

    /// Makes LWPs without threads block what all threads block.
    fn settle(&self) {
        let others = self.0.iter().filter(|it| it.1 > 0).fold(ALL, |all, it| all & it.0);
        let first = FIRST.load(Ordering::Relaxed);
        let all = if FIRST_ALIVE.watch() > 0 { others & first } else { others };
        let idle = IDLE.load(Ordering::Relaxed);
        let wanted = all & (idle | MAIN.load(Ordering::SeqCst));
        if wanted != idle
            && let Ok(spawner) = process_default::spawner()
        {
            IDLE.store(wanted, Ordering::Relaxed);
            spawner.set_idle_mask(wanted, wanted & !idle);
        }
    }
}

/// Calls `call` while no handler of the program runs here, and no other thread.
fn undisturbed<R>(call: impl FnOnce() -> R) -> R {
    let _quiet = Mask::block_asynchronous();
    let _no_preempt = NoPreempt::hold();
    call()
}

/// Changes which threads are counted, and then what LWPs block. Called where no handler can run.
fn change(change: impl FnOnce(&mut Others)) {
    let mut others = OTHERS.lock(|others| *others = Others([(0, 0); 16]));
    change(&mut others);
    others.settle();
}

/// Returns a bit for each signal of a set, the lowest for signal 1.
pub(super) fn bits(set: &sigset_t) -> u64 {
    // SAFETY: the C library's type begins with the kernel's eight bytes.
    unsafe { (&raw const *set).cast::<u64>().read() }
}

/// Returns the running thread, if it is green.
fn green() -> Option<ThreadRef> {
    current::try_current().filter(|me| !me.is_kernel())
}

/// Returns what the calling thread blocks.
pub(super) fn of_caller() -> u64 {
    green().and_then(|me| me.backend().mask_of(&me)).unwrap_or_else(|| bits(&SignalMask::of_caller().set()))
}

/// Returns `true` on the main thread.
fn is_main() -> bool {
    // SAFETY: no arguments.
    kthread::gettid() == unsafe { libc::getpid() }
}

/// Counts a thread that is about to start with `mask`. `creators` is the mask of its creator.
pub(super) fn begin(spawner: &dyn Spawner, creators: u64, mask: u64) {
    if FIRST.load(Ordering::Acquire) == NONE {
        undisturbed(|| begin_first(spawner, creators, mask));
    }
    if [&FIRST, &IDLE].iter().any(|other| mask != other.load(Ordering::Relaxed)) {
        return undisturbed(|| change(|others| others.add(mask)));
    }
    if FIRST_ALIVE.add() {
        undisturbed(|| change(|_| ()));
    }
}

/// Makes `mask` that of the first thread, unless another thread has been faster.
fn begin_first(spawner: &dyn Spawner, creators: u64, mask: u64) {
    let _one = OTHERS.lock(|_| ());
    if FIRST.load(Ordering::Relaxed) == NONE {
        // LWPs have begun with it.
        IDLE.store(creators, Ordering::Relaxed);
        spawner.set_idle_mask(creators, creators);
        MAIN.store(if is_main() { creators } else { ALL }, Ordering::SeqCst);
        // Release: what stands above is set for all that know the first mask.
        FIRST.store(mask, Ordering::Release);
    }
}

/// Counts off a thread that has not started after all.
pub(super) fn forget(mask: u64) {
    undisturbed(|| change(|others| others.remove(mask)));
}

/// Counts off the running thread, which is green, in its last destructor.
pub(super) fn end() {
    let Some(mask) = green().and_then(|me| me.backend().mask_of(&me)) else { return };
    if !FIRST_ALIVE.is_watched() && mask == FIRST.load(Ordering::Relaxed) {
        if FIRST_ALIVE.remove() {
            close();
            change(|_| ());
        }
        return;
    }
    close();
    // What the thread has raised, and has blocked, ends with it.
    undisturbed(|| cancel::take_kernels(u64::MAX, |_| ()));
    change(|others| others.remove(mask));
}

/// Makes what is blocked the mask of the running thread, if that is green. It ends, perhaps in a handler of a
/// signal, for which the kernel blocks more. The LWP would block that for its next threads, too.
pub(super) fn keep() {
    let Some(me) = green() else { return };
    let now = preempt::baseline_mask().bits();
    let Some(usual) = me.backend().mask_of(&me).filter(|&usual| usual != now) else { return };
    let _quiet = Mask::block_asynchronous();
    if me.backend().mask_changed(&me, usual, now) {
        let _no_preempt = NoPreempt::hold();
        count_anew(usual, now);
    }
}

/// Blocks all signals in the calling thread, which is about to leave its LWP, except those that faults raise.
fn close() {
    let all: sigset_t = SignalMask::asynchronous().set();
    // SAFETY: a set, and no place for the old one.
    unsafe { set_mask(next::pthread_sigmask, libc::SIG_SETMASK, &raw const all, ptr::null_mut(), |_, _| ()) };
}

/// Notes that the main thread handles no more signals.
pub(super) fn main_ends() {
    if is_watched_main() {
        undisturbed(|| main_blocks(ALL));
    }
}

/// Notes what the main thread blocks.
fn main_blocks(mask: u64) {
    MAIN.store(mask, Ordering::SeqCst);
    if mask & !IDLE.load(Ordering::SeqCst) != 0 {
        change(|_| ());
    }
}

/// Returns `true` if the running thread, which is green, may be in a handler of a signal on its own stack. It
/// may also have left one by a jump, with the mask that the handler had, or an earlier one.
fn is_in_handler() -> bool {
    let here = 0_u8;
    let stack = green().and_then(|me| me.backend().stack_of(&me));
    let own = stack.filter(|stack| stack.contains(&(&raw const here).addr()));
    own.is_some_and(|stack| preempt::may_be_in_handler(stack.end))
}

/// A function that changes the mask of the calling kernel thread.
type SetMask = unsafe fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// Changes the mask of the calling thread by `set`, and notes that. If a green thread's mask has changed from
/// one to another, calls `changed` with both.
///
/// # Safety
/// As `pthread_sigmask`.
unsafe fn set_mask(
    set: SetMask,
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
    changed: impl FnOnce(u64, u64),
) -> c_int {
    let me = green();
    if me.is_none() {
        cancel::kernel::pass_to_kernel();
    }
    let is_known = [libc::SIG_BLOCK, libc::SIG_UNBLOCK, libc::SIG_SETMASK].contains(&how);
    // SAFETY: null, or the caller's set.
    let wanted = unsafe { new.as_ref() }.filter(|_| is_known && (me.is_some() || is_watched_main()));
    let Some(&(mut wanted)) = wanted else {
        // SAFETY: the caller's promise.
        return unsafe { set(how, new, old) };
    };
    let all = SignalMask::asynchronous().set();
    // SAFETY: plain data.
    let mut before: sigset_t = unsafe { mem::zeroed() };
    // SAFETY: a set, and a place for the old one.
    unsafe { set(libc::SIG_BLOCK, &raw const all, &raw mut before) };
    let (before, change) = (bits(&before), bits(&wanted));
    let now = !never()
        & match how {
            libc::SIG_BLOCK => before | change,
            libc::SIG_UNBLOCK => before & !change,
            _ => change,
        };
    // In a call with a mask of its own, a handler changes its own mask.
    let is_changed = now != before && !cancel::has_other_mask();
    if me.is_none_or(|me| is_changed && me.backend().mask_changed(&me, before, now)) {
        let _no_preempt = NoPreempt::hold();
        if me.is_some() { changed(before, now) } else { main_blocks(now) }
    } else if is_changed && of_caller() == now && is_in_handler() {
        // It may wait next, and must not leave its LWP.
        interpose::handler_is_unmasked();
    }
    if !old.is_null() {
        // SAFETY: the caller's place. The C library writes eight bytes, too.
        unsafe { old.cast::<u64>().write_unaligned(before) };
    }
    // SAFETY: a set begins with the kernel's eight bytes.
    unsafe { (&raw mut wanted).cast::<u64>().write(now) };
    loop {
        let are_left = me.is_some() && cancel::send_unblocked(now);
        // SAFETY: a set, and no place for the old one.
        let code = unsafe { set(libc::SIG_SETMASK, &raw const wanted, ptr::null_mut()) };
        if !are_left {
            return code;
        }
        // Those that were handled have left their memory.
        // SAFETY: a set, and no place for the old one.
        unsafe { set(libc::SIG_BLOCK, &raw const all, ptr::null_mut()) };
    }
}

/// Returns `true` on the main thread of a program that has started green threads.
fn is_watched_main() -> bool {
    // Acquire: pairs with `begin_first`.
    FIRST.load(Ordering::Acquire) != NONE && record::was_any() && is_main()
}

/// Counts the running thread under its new mask, if it is counted.
fn count_anew(before: u64, now: u64) {
    if start::is_default() && record::with_own(|_| ()).is_some() {
        change(|others| {
            others.remove(before);
            others.add(now);
        });
    }
}

/// See `pthread_sigmask(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { set_mask(next::pthread_sigmask, how, new, old, count_anew) }
}

/// See `sigprocmask(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { set_mask(next::sigprocmask, how, new, old, count_anew) }
}

/// Changes the mask as System V had it, by one signal.
fn set_one(how: c_int, signal: c_int) -> c_int {
    // SAFETY: plain data, and empty.
    let mut set: sigset_t = unsafe { mem::zeroed() };
    // SAFETY: an initialized set.
    if unsafe { libc::sigaddset(&raw mut set, signal) } != 0 {
        return -1;
    }
    // SAFETY: a set, and no place for the old one.
    unsafe { set_mask(next::sigprocmask, how, &raw const set, ptr::null_mut(), count_anew) }
}

/// Changes the mask as BSD had it, by the first 32 signals. Returns which of them were blocked.
fn set_first(how: c_int, mask: c_int) -> c_int {
    // SAFETY: plain data, and empty.
    let mut set: sigset_t = unsafe { mem::zeroed() };
    let place = &raw mut set;
    // SAFETY: a set begins with the kernel's eight bytes.
    unsafe { place.cast::<u64>().write(u64::from(mask.cast_unsigned())) };
    // SAFETY: a set, which is the place for the old one, too.
    let code = unsafe { set_mask(next::sigprocmask, how, place, place, count_anew) };
    if code == 0 { bits(&set) as c_int } else { code }
}

/// Defines functions of the C library that change the mask as System V or BSD had it.
macro_rules! old_ones {
    ($($name:ident($argument:ident): $set:ident($how:ident);)*) => {$(
        #[doc = concat!("See `", stringify!($name), "(3)`.")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($argument: c_int) -> c_int {
            $set(libc::$how, $argument)
        }
    )*};
}

old_ones! {
    sighold(signal): set_one(SIG_BLOCK);
    sigrelse(signal): set_one(SIG_UNBLOCK);
    sigblock(mask): set_first(SIG_BLOCK);
    sigsetmask(mask): set_first(SIG_SETMASK);
}
