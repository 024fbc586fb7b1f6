//! Which way a runtime keeps thread-locals right while its threads move: the ladder, and the one place that switches the
//! thread register (I1).
//!
//! The rungs, best first; `onetoone` stands below them all.
//!
//! | rung | the register | a thread may move | sound |
//! |---|---|---|---|
//! | [`Rung::Switched`] | written by an instruction at each switch | yes | yes |
//! | [`Rung::Syscall`] | written by a system call (no FSGSBASE; valgrind) | yes | yes |
//! | [`Rung::Pinned`] | left alone: thread-locals belong to the kernel thread | no | if no crate keeps a stack discipline in them |
//!
//! **Rejected**: falling to `Pinned` by itself. What it breaks is not seen until it is broken, so it is chosen by an
//! `unsafe` method of the builder and never from here.
//!
//! A rung is used only after a test of it in this process ([`self_test`]): what the blocks rest on is private to the C
//! library, and a surprise should be an error from `build`, not a wrong value in a stranger's thread.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

use super::stack::{self, Stack};
use crate::arch::{self, SavedSp};
use crate::sys::tcb::{self, Glibc};

/// How threads of a runtime keep their thread-locals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ThreadRegister {
    /// The best that works here: [`Switched`](Self::Switched), else [`Syscall`](Self::Syscall), else an error.
    #[default]
    Auto,
    /// Each thread has its own; one instruction switches to them.
    Switched,
    /// Each thread has its own; a system call switches to them, about 100 ns.
    Syscall,
}

/// What a runtime runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rung {
    /// Thread-locals of its own for each thread, by an instruction.
    Switched,
    /// The same by a system call.
    Syscall,
    /// Thread-locals of the kernel thread; threads do not move.
    Pinned,
}

/// The C library's blocks, on a rung that has them.
#[inline]
fn glibc() -> &'static Glibc {
    Glibc::get().expect("a rung that switches the register was tested with it")
}

/// Reserves room for blocks in every stack, where blocks can be had; before the first stack is taken, whatever the rung:
/// runtimes on different rungs share their stacks.
pub(crate) fn init_stacks() {
    /// # Safety
    /// As [`Glibc::destroy`].
    unsafe fn destroy(tp: usize) {
        // SAFETY: the caller's promise.
        unsafe { glibc().destroy(tp) };
    }
    match Glibc::get() {
        Ok(glibc) => stack::init(glibc.reserve(), destroy),
        Err(_) => stack::init(0, |_| ()),
    }
}

/// Makes the block of `stack` ready for a new thread and gives its thread register; 0 where threads are pinned.
///
/// # Errors
/// No memory. The stack has no block then, and can be given back.
#[inline]
pub(crate) fn prepare(rung: Rung, stack: Stack) -> io::Result<usize> {
    if rung == Rung::Pinned {
        return Ok(0);
    }
    let tp = stack.tls().get();
    if tp == 0 {
        return create(stack);
    }
    // SAFETY: the block was made by `create`; its last thread gave the stack back from another one (I8) after `exit`, and
    // the caller has the stack to itself.
    unsafe { glibc().renew(tp) }.map(|_| tp).inspect_err(|_| stack.tls().set(0))
}

/// The first block of a stack.
#[cold]
fn create(stack: Stack) -> io::Result<usize> {
    // SAFETY: `init_stacks` reserved the block's bytes at the page-aligned top, and the caller has the stack to itself.
    let tp = unsafe { glibc().create(stack.top()) }?;
    stack.tls().set(tp);
    Ok(tp)
}

/// The first thing a thread does, before any code of its own.
///
/// # Safety
/// The caller is a new thread on the register that [`prepare`] gave for this life.
#[inline]
pub(crate) unsafe fn enter(rung: Rung) {
    if rung != Rung::Pinned {
        // SAFETY: the caller's promise.
        unsafe { glibc().enter() };
    }
}

/// The last thing a thread does with its thread-locals: destroys them. Where threads are pinned they are the kernel
/// thread's, and stay.
///
/// # Safety
/// The caller is a thread that did [`enter`], has nothing left to run and holds no borrow of a thread-local; it allocates
/// nothing from now on.
#[inline]
pub(crate) unsafe fn exit(rung: Rung) {
    if rung != Rung::Pinned {
        // SAFETY: the caller's promise.
        unsafe { glibc().exit() };
    }
}

/// Leaves this context for `to` and, unless threads are pinned, this thread register for `tp`.
///
/// # Safety
/// As [`arch::switch_tp`]; and `rung` came from [`choose`], or is [`Rung::Pinned`].
#[inline(always)]
pub(crate) unsafe fn switch(rung: Rung, save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    match rung {
        // SAFETY: the caller's promise; `choose` has found the instruction.
        Rung::Switched => unsafe { arch::switch_tp(save, to, tp, arg) },
        // SAFETY: the caller's promise; `choose` has found the system call.
        Rung::Syscall => unsafe { arch::switch_tp_syscall(save, to, tp, arg) },
        // SAFETY: the caller's promise, without the part about the register.
        Rung::Pinned => unsafe { arch::switch(save, to, arg) },
    }
}

/// The rung for `requested`, tested; or why not. Pinned threads are not chosen here.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`]: for `Auto` if no rung works, for the others if theirs does not.
pub(crate) fn choose(requested: ThreadRegister) -> io::Result<Rung> {
    let refuse = |text: String| io::Error::new(io::ErrorKind::Unsupported, text);
    match requested {
        ThreadRegister::Auto => works(Rung::Switched)
            .or_else(|_| works(Rung::Syscall))
            .map_err(|why| refuse(format!("no green threads here: {why}; OneToOne runs everywhere"))),
        ThreadRegister::Switched => works(Rung::Switched).map_err(|why| {
            refuse(format!("the thread register cannot be switched by an instruction: {why}"))
        }),
        ThreadRegister::Syscall => works(Rung::Syscall)
            .map_err(|why| refuse(format!("the thread register cannot be switched by a system call: {why}"))),
    }
}

/// Tests a rung, once in this process.
fn works(rung: Rung) -> Result<Rung, &'static str> {
    static SWITCHED: OnceLock<Result<(), String>> = OnceLock::new();
    static SYSCALL: OnceLock<Result<(), String>> = OnceLock::new();
    let (tested, possible) = match rung {
        Rung::Switched => (&SWITCHED, arch::tp::can_write(tcb::hwcap2())),
        Rung::Syscall => (&SYSCALL, arch::tp::SYSCALL),
        Rung::Pinned => return Ok(rung),
    };
    let result = tested.get_or_init(|| {
        if !arch::SUPPORTED {
            return Err("this processor is not supported".into());
        }
        if !possible {
            return Err("the processor or the kernel does not allow it".into());
        }
        let glibc = Glibc::get().map_err(|unfit| unfit.to_string())?;
        self_test(rung, glibc).map_err(|what| format!("in the self-test, {what} was wrong"))
    });
    result.as_ref().map(|()| rung).map_err(String::as_str)
}

/// As a slot is: pages, with the block at the end.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// Stack for the self-test, in pages; it runs nothing but the C library.
const TEST_STACK: usize = 32;

/// Says whether thread-locals were right; one that the program has, with a first value that is not zero.
const FIRST: u32 = 0x5e1f;
thread_local!(static PROBE: Cell<u32> = const { Cell::new(FIRST) });

/// Both sides of a self-test.
struct Trial {
    rung: Rung,
    tp: usize,
    outside: SavedSp,
    outside_tp: usize,
    glibc: &'static Glibc,
    /// What was wrong inside, if something was.
    verdict: Result<(), &'static str>,
}

/// Runs one thread on a block of its own, twice, on `rung`.
fn self_test(rung: Rung, glibc: &'static Glibc) -> Result<(), &'static str> {
    let pages = TEST_STACK + glibc.reserve().div_ceil(size_of::<Page>());
    let mut slot: Vec<Page> = (0..pages).map(|_| Page([0; 4096])).collect();
    let top = slot.as_mut_ptr_range().end.cast::<u8>();
    // SAFETY: the slot's end is aligned to pages, the reserve lies in it, and the slot outlives the block.
    let tp = unsafe { glibc.create(top) }.map_err(|_| "memory")?;
    // SAFETY: within the slot, and above the test's stack.
    let stack = unsafe { top.sub(glibc.reserve()) };
    let before = PROBE.replace(1);
    let outside_tp = arch::tp::read();
    let mut trial = Trial { rung, tp, outside: SavedSp::NONE, outside_tp, glibc, verdict: Err("the switch") };
    let mut result = Ok(());
    for _life in 0..2 {
        let data = &raw mut trial;
        // SAFETY: nobody stands on the stack, which ends aligned; `inside` never returns.
        let start = unsafe { arch::init(stack, inside, data.cast()) };
        // SAFETY: `data` is ours.
        let save = unsafe { &raw mut (*data).outside };
        // SAFETY: just made; the block is complete, and this is the one thread on it.
        unsafe { switch(rung, save, start, tp, 0) };
        result = result.and(trial.verdict);
        // SAFETY: the thread has left the block for good.
        let renewed = unsafe { glibc.renew(tp) };
        if renewed.is_err() {
            return Err("memory");
        }
    }
    // SAFETY: as above.
    unsafe { glibc.destroy(tp) };
    if PROBE.replace(before) != 1 || arch::tp::read() != outside_tp {
        result = result.and(Err("the way back"));
    }
    drop(slot);
    result
}

/// The thread of a self-test.
unsafe extern "C" fn inside(_arg: usize, data: *mut ()) -> ! {
    let trial = data.cast::<Trial>();
    // SAFETY: `self_test` lends it until it is switched back to, and waits meanwhile.
    let trial = unsafe { &mut *trial };
    // SAFETY: the register is that of a block just made or renewed.
    unsafe { trial.glibc.enter() };
    trial.verdict = check(trial.tp);
    // SAFETY: nothing of `check` is left.
    unsafe { trial.glibc.exit() };
    let mut spent = SavedSp::NONE;
    // SAFETY: `outside` was saved by the switch that came here; its kernel thread is this one.
    unsafe { switch(trial.rung, &mut spent, trial.outside, trial.outside_tp, 0) };
    unreachable!("a context that has ended was taken up again")
}

/// What must be right on a block that nobody has used yet.
fn check(tp: usize) -> Result<(), &'static str> {
    if arch::tp::read() != tp {
        return Err("the thread register");
    }
    if PROBE.replace(2) != FIRST {
        return Err("a thread-local");
    }
    tcb::check_library()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rungs_work_or_say_why() {
        for requested in [ThreadRegister::Switched, ThreadRegister::Syscall] {
            match choose(requested) {
                Ok(rung) => assert!(matches!(
                    (requested, rung),
                    (ThreadRegister::Switched, Rung::Switched) | (ThreadRegister::Syscall, Rung::Syscall)
                )),
                Err(why) => println!("skipped: {why}"),
            }
        }
        let best = choose(ThreadRegister::Auto).expect("a rung that switches the register");
        assert_eq!(best == Rung::Switched, choose(ThreadRegister::Switched).is_ok());
    }

    #[test]
    fn a_wrong_block_fails_the_check() {
        // This thread's own block has been used: the test must notice.
        PROBE.set(7);
        assert_eq!(check(arch::tp::read()), Err("a thread-local"));
        assert_eq!(check(arch::tp::read() + 64), Err("the thread register"));
        PROBE.set(FIRST);
    }
}
