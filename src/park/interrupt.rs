//! Ends a thread's wait from outside, with an error that says so.
//!
//! **Problem.** A thread may wait for something that never comes. It must be possible to end such a wait,
//! whatever the thread waits for, and without the thread's help, since it sleeps. At the same moment the
//! awaited thing may come, or the deadline may pass, or the thread may still be on its way to sleep.
//!
//! **Rejected.**
//!
//! - To interrupt every wait. Code that was written for `lock` and `sleep` of std does not expect an error,
//!   and could only ignore it. So only a wait that takes a [`Wait`](super::wait::Wait) can be interrupted.
//!   All others neither pay for it nor notice it.
//! - A token like the permit's, which the sleep tests. A thread that was woken without a grant would have to
//!   take its waiter off the queue, and every grant would race with that.
//! - To poll a condition: no wait has a period.
//!
//! **Protocol.** A thread has a flag and a record. The flag stays set until a wait has reported it, or the
//! thread has asked for it. The record says where the thread sleeps, if that sleep may be interrupted. Both
//! change with the lock of the record held; only the clearing of the flag needs no lock.
//!
//! 1. *Wait.* A thread with its flag set does not wait. Otherwise it makes its sleep visible, as always: it
//!    queues its waiter, or publishes itself as asleep. It then locks its record, looks at the flag again,
//!    and enters the sleep in it. It blocks. After that it locks the record again, and clears it.
//! 2. *Interrupt.* Lock the record, and set the flag. If a sleep is there, try to win it
//!    ([`Sleep::interrupt`]). Unlock. If the sleep was won, wake the thread.
//! 3. If a thread finds the flag set in 1, on its way to sleep, it tries to win its own sleep. If it has
//!    won, it does not block.
//!
//! **Proof.**
//!
//! - *No interrupt is lost.* Of two critical sections of the record's lock, one comes first. If the
//!   interrupter's does, the thread finds the flag. Otherwise the interrupter finds the sleep.
//! - *Each sleep is ended once* (I3). An interrupt wins a sleep by the same step as a deadline: it takes the
//!   waiter off its queue, or changes the word from asleep. If a grant or a deadline came first, it leaves
//!   the sleep alone, and the flag stays for the next wait.
//! - *The sleep lives while it is examined.* It lives until its thread has cleared the record, with the lock
//!   held. After that, the interrupter uses only the word's address, and the thread by its own counted
//!   reference.
//!
//! *All threads of a runtime* are interrupted at a shutdown. The runtime says so, and 1 and 3 treat that as
//! if the flag were set. Then 2 runs for each thread without the flag, over and over. So no flag is set that
//! could belong to the core's next life. A thread does not wait again after it has reported the interrupt
//! once.
//!
//! Lock order: record (`Outer`), then bucket.
//!
//! **Cost.** A branch in a wait that cannot be interrupted. Two locks of the record in one that can.

use std::error::Error;
use std::fmt;
use std::io;

pub(super) mod record;

use self::record::SleepRef;
use super::backend::Spawner;
use super::current;
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::sleep_word::Sleep;
use super::thread::ThreadRef;
use crate::time::Moment;

/// The error of a wait that was ended by [`Thread::interrupt`](crate::thread::Thread::interrupt), or that
/// did not begin because the thread had been interrupted before.
///
/// The wait has then used the interrupt up: the next one waits again.
///
/// # Examples
///
/// ```
/// use selvedge::{Wait, thread};
///
/// thread::current().interrupt();
/// let error = thread::sleep_with(Wait::forever().interruptible()).unwrap_err();
/// assert_eq!(error.to_string(), "the wait was interrupted");
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::Interrupted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the wait was interrupted")
    }
}

impl Error for Interrupted {}

impl From<Interrupted> for io::Error {
    fn from(interrupted: Interrupted) -> Self {
        Self::new(io::ErrorKind::Interrupted, interrupted)
    }
}

/// Blocks as [`Backend::block`](super::backend::Backend::block) does, in a sleep that may be interrupted. The
/// sleep is already visible to the threads that can end it, and is over when this returns.
#[cold]
pub(super) fn block(me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Moment>, reason: WaitReason) {
    let by_backend = || me.backend().block(me, sleep, deadline, reason);
    let _: Option<()> = block_in(me, sleep, by_backend);
}

/// Blocks as `block` does, in `f`, which returns after the sleep is over. Returns `None` if `f` was not
/// called, because the interrupt came first.
pub(crate) fn block_in<R>(me: &ThreadRef, sleep: &dyn Sleep, f: impl FnOnce() -> R) -> Option<R> {
    let interrupt = &me.core().interrupt;
    // From the moment that interrupters can see the sleep until it is over (I9).
    let _no_preempt = NoPreempt::hold();
    // Bound to a name, because it is read until `leave`. A temporary in the condition would end too soon.
    let sleep_ref = SleepRef(sleep);
    let result = interrupt.enter(&sleep_ref, || me.is_one_of_all()).then(f);
    interrupt.leave();
    result
}

/// Returns `true` if the running thread is interrupted, and clears its flag. The flag is set only if another
/// thread has a handle to this one. Also returns `true` if all threads of the thread's runtime are
/// interrupted.
#[inline]
pub(crate) fn take() -> bool {
    current::try_current().is_some_and(|me| me.core().interrupt.take() || me.is_one_of_all())
}

/// Returns `true` if an interruptible wait of `me`, the running thread, would end at once.
pub(super) fn is_pending(me: ThreadRef) -> bool {
    me.core().interrupt.is_set() || me.is_one_of_all()
}

impl ThreadRef {
    /// Sets the thread's flag, and ends its wait if that can be interrupted. The caller holds a counted
    /// reference, and no queue lock.
    pub(crate) fn interrupt(self) {
        let interrupt = &self.core().interrupt;
        if self.is_lost() {
            // It neither sleeps nor wakes here, and its record may be locked forever.
            return interrupt.set();
        }
        // As in `permit::unpark`: the thread must not be preempted between winning the sleep and the
        // wake-up.
        let _no_preempt = NoPreempt::hold();
        if let Some((backend, word)) = interrupt.set_and_win(|| Some(self.backend())) {
            backend.wake(self, word);
        }
    }

    /// Ends the thread's wait if that can be interrupted, and is not over. The flag stays as it is. `note`
    /// runs before the wait ends, if there is one: with it, the thread tells this from an interrupt. The
    /// caller holds a counted reference, and no queue lock.
    pub(crate) fn end_sleep(self, note: impl FnOnce()) {
        // As in `permit::unpark`: no preemption between winning the sleep and the wake-up.
        let _no_preempt = NoPreempt::hold();
        let known = || {
            note();
            Some(self.backend())
        };
        if let Some((backend, word)) = self.core().interrupt.win(known) {
            backend.wake(self, word);
        }
    }

    /// Ends the wait of a thread of the runtime at `home`, if that wait can be interrupted. Any thread may
    /// have the core. The [`Spawner::interrupts_all`](super::backend::Spawner) of that runtime already
    /// returns `true`.
    pub(crate) fn interrupt_one_of_all(self, home: usize) {
        if !self.lives_at(home) {
            // It may be a lost thread, with its record locked forever.
            return;
        }
        // As in `permit::unpark`: no preemption between winning the sleep and the wake-up.
        let _no_preempt = NoPreempt::hold();
        // While the thread sleeps here and the lock is held, the core cannot change its life.
        let won = self.core().interrupt.win(|| self.lives_at(home).then(|| self.backend()));
        if let Some((backend, word)) = won {
            backend.wake(self, word);
        }
    }

    /// Returns `true` if all threads of its runtime are interrupted. Called for the running thread.
    #[inline]
    fn is_one_of_all(self) -> bool {
        self.spawner().is_some_and(Spawner::interrupts_all)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::park::backend::{SpawnOptions, TaskRef};
    use crate::park::core_pool;
    use crate::shim::atomic::AtomicU32;

    /// A sleep that counts the interrupts that have won it.
    struct Counting(AtomicU32, Cell<u32>);

    impl Sleep for Counting {
        fn word(&self) -> &AtomicU32 {
            &self.0
        }

        fn is_asleep(&self) -> bool {
            true
        }

        fn commit_kernel(&self) -> Option<u32> {
            None
        }

        fn expire(&self) -> bool {
            false
        }

        fn interrupt(&self) -> bool {
            self.1.set(self.1.get() + 1);
            true
        }
    }

    #[test]
    fn threads_of_one_runtime_are_interrupted_where_they_sleep() {
        let me = current::current();
        let interrupt = &me.core().interrupt;
        let sleep = Counting(AtomicU32::new(0), Cell::new(0));
        let sleep_ref = SleepRef(&sleep);
        assert!(!interrupt.may_end_sleep());
        me.interrupt_one_of_all(0);
        assert!(interrupt.enter(&sleep_ref, || me.is_one_of_all()));
        assert!(interrupt.may_end_sleep());
        // The thread is of no runtime, and at home at 0.
        me.interrupt_one_of_all(8);
        assert_eq!(sleep.1.get(), 0, "a thread of another runtime");
        me.interrupt_one_of_all(0);
        assert_eq!(sleep.1.get(), 1);
        interrupt.leave();
        assert!(!interrupt.may_end_sleep() && !interrupt.is_set());
    }

    struct Ending;

    impl Spawner for Ending {
        fn spawn(&self, _: TaskRef<'_>, _: &mut SpawnOptions) -> io::Result<ThreadRef> {
            Err(io::Error::other("it ends"))
        }

        fn interrupts_all(&self) -> bool {
            true
        }
    }

    /// A runtime that ends in a child asks all cores, and the fork may have found one of them with its record
    /// locked.
    #[cfg(unix)]
    #[test]
    fn a_lost_thread_that_was_going_to_sleep_is_left_alone() {
        use crate::sys::child_tests as child;
        use std::{sync::mpsc, thread};
        let name = "::a_lost_thread_that_was_going_to_sleep_is_left_alone";
        child::isolated(&[module_path!(), name].concat(), || {
            let lost = core_pool::take(1, None, None);
            let (enter, entered) = mpsc::channel();
            thread::spawn(move || {
                let sleep = Counting(AtomicU32::new(0), Cell::new(0));
                lost.core().interrupt.enter(&SleepRef(&sleep), || {
                    enter.send(()).unwrap();
                    loop {
                        thread::park();
                    }
                });
            });
            entered.recv().unwrap();
            child::forked(|| lost.interrupt_one_of_all(8));
        });
    }

    #[test]
    fn a_thread_of_a_runtime_that_interrupts_all_does_not_go_to_sleep() {
        let (stranger, thread) = (core_pool::take(1, None, None), core_pool::take(1, Some(&Ending), None));
        let sleep = Counting(AtomicU32::new(0), Cell::new(0));
        assert!(!stranger.is_one_of_all() && thread.is_one_of_all());
        assert!(!thread.core().interrupt.enter(&SleepRef(&sleep), || thread.is_one_of_all()));
        assert_eq!(sleep.1.get(), 1);
        thread.release();
        stranger.release();
    }
}
