//! A test whether a rung works in this process: one green context on a block of its own, twice.

use std::cell::Cell;
use std::io;

use crate::arch;
use crate::fiber::{Context, ThreadRegister};
use crate::sys::mmap::{Mapping, page_size};
use crate::sys::tcb::{self, Library};

/// Stack for the self-test, in bytes; it runs nothing but the C library.
const TEST_STACK: usize = 128 << 10;

/// Shows whether thread-locals are right. Its first value is not zero.
const FIRST: u32 = 0x5e1f;
thread_local!(static PROBE: Cell<u32> = const { Cell::new(FIRST) });

/// Both sides of a self-test.
struct Trial {
    rung: ThreadRegister,
    outside: Context,
    inside: Context,
    library: &'static Library,
    /// What was wrong inside, if anything was.
    verdict: Cell<Result<(), &'static str>>,
}

/// Runs one thread on a block of its own, twice, on `rung`. Returns what was wrong, if anything was.
///
/// # Errors
/// There was no memory.
pub(super) fn run(rung: ThreadRegister, library: &'static Library) -> io::Result<Result<(), &'static str>> {
    let len = (TEST_STACK + library.reserve()).next_multiple_of(page_size());
    let span = Mapping::reserve(len)?;
    // SAFETY: this is the end of the mapping.
    let top = unsafe { span.start().add(span.len()) };
    // SAFETY: the span's end is aligned to pages, the reserve lies in it, and the span outlives the block.
    let tp = unsafe { library.create(top, span.start()) }?;
    // SAFETY: within the span, and above the test's stack.
    let stack = unsafe { top.sub(library.reserve()) };
    let before = PROBE.replace(1);
    let (outside, inside) = (Context::new(), Context::new());
    outside.adopt();
    inside.tp.set(tp);
    let trial = Trial { rung, outside, inside, library, verdict: Cell::new(Err("the switch")) };
    let mut result = Ok(());
    for _life in 0..2 {
        // SAFETY: nothing stands on the stack, which ends aligned. `live` never returns.
        trial.inside.sp.set(unsafe { arch::init(stack, live, (&raw const trial).cast_mut().cast()) });
        // SAFETY: the context was just made. The block is complete, and this is the one thread on it.
        unsafe { trial.outside.switch_to(rung, &trial.inside, 0) };
        result = result.and(trial.verdict.get());
        // SAFETY: the thread has left the block for good.
        unsafe { library.renew(tp) }?;
    }
    // SAFETY: the thread has left the block for good.
    unsafe { library.destroy(tp) };
    if PROBE.replace(before) != 1 || arch::tp::read() != trial.outside.tp() {
        result = result.and(Err("the way back"));
    }
    drop(span);
    Ok(result)
}

/// Runs the thread of a self-test.
unsafe extern "C" fn live(_arg: usize, data: *mut ()) -> ! {
    // SAFETY: `run` lends it until it is switched back to, and waits meanwhile.
    let trial = unsafe { &*data.cast_const().cast::<Trial>() };
    // SAFETY: the register is that of a block that was just made or renewed.
    unsafe { trial.library.enter() };
    trial.verdict.set(check(trial.inside.tp()));
    // SAFETY: nothing of `check` is left.
    unsafe { trial.library.exit(&super::ASIDE) };
    // SAFETY: `outside` was saved by the switch that came here, and its kernel thread is this one.
    unsafe { trial.inside.switch_to(trial.rung, &trial.outside, 0) };
    unreachable!("a context that has ended was taken up again")
}

/// Checks what must be right on a block that no thread has used yet.
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
    use super::super::choose;
    use super::*;

    #[test]
    fn both_rungs_work_or_say_why() {
        for wanted in [ThreadRegister::Switched, ThreadRegister::Syscall] {
            match choose(Some(wanted)) {
                Ok(rung) => assert_eq!(rung, wanted),
                Err(why) => println!("skipped: {why}"),
            }
        }
        let best = choose(None).expect("a rung that switches the register");
        assert_eq!(best == ThreadRegister::Switched, choose(Some(ThreadRegister::Switched)).is_ok());
    }

    #[test]
    fn a_wrong_block_fails_the_check() {
        // This thread's own block has been used, and the test must notice.
        PROBE.set(7);
        assert_eq!(check(arch::tp::read()), Err("a thread-local"));
        assert_eq!(check(arch::tp::read() + 64), Err("the thread register"));
        PROBE.set(FIRST);
    }
}
