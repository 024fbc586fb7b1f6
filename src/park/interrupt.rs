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
//! *All threads of a runtime* are interrupted at a shutdown: the runtime says so, and 1 and 3 treat that as
//! if the flag were set. Then 2 runs for each thread without the flag, over and over. So no flag is set that
//! could belong to the core's next life, and a thread does not wait again after it has reported the
//! interrupt once.
//!
//! Lock order: record (`Outer`), then bucket.
//!
//! **Cost.** A branch in a wait that cannot be interrupted. Two locks of the record in one that can.

use std::error::Error;
use std::fmt;
use std::io;
use std::ptr;
use std::time::Instant;

use super::backend::{Backend, Sleep, Spawner};
use super::current;
use super::no_preempt::NoPreempt;
use super::queue_lock::{QueueLock, Rank};
use super::reason::WaitReason;
use super::thread::ThreadRef;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};

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

/// A thread's part of the protocol.
pub(super) struct Interrupt {
    flag: Flag,
    /// Where the thread sleeps, if that may be interrupted.
    record: QueueLock<SleepRecord>,
}

/// | value | meaning | next by |
/// |---|---|---|
/// | `false` | not interrupted | any thread, with the record locked: `true` |
/// | `true` | interrupted, and not reported yet | the thread: `false`; the core's next life: `false` |
struct Flag(AtomicBool);

impl Flag {
    #[inline]
    fn look(&self) -> bool {
        // Acquire: pairs with `set`, so that a caller that only looks sees what the interrupter did.
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        // Release: pairs with `look` and `take`. A plain store is enough. The lock of the record is held, so
        // an interrupter comes after all earlier ones, and releases what they did.
        self.0.store(true, Ordering::Release);
    }

    /// Clears the flag. Called by the thread itself. Returns `true` if the flag was set.
    #[inline]
    fn take(&self) -> bool {
        // Acquire: pairs with `set`. The look comes first because the flag is clear nearly always.
        self.look() && self.0.swap(false, Ordering::Acquire)
    }
}

/// Null, or the sleep of a thread that is asleep, on its way to sleep, or on its way back.
struct SleepRecord(*const SleepRef<'static>);

// SAFETY: the pointer is followed only with the lock held, which the sleeper must take before its frame
// ends.
unsafe impl Send for SleepRecord {}

/// A sleep that may be interrupted, in its thread's frame. A pointer to it is one word in the core, where a
/// `&dyn` would be two.
struct SleepRef<'a>(&'a dyn Sleep);

impl Interrupt {
    pub(super) fn new() -> Self {
        Self {
            flag: Flag(AtomicBool::new(false)),
            record: QueueLock::new(Rank::Outer, SleepRecord(ptr::null())),
        }
    }

    /// Resets the flag for the next life of the core, which the caller has to itself.
    #[inline]
    pub(super) fn reset(&self) {
        // Relaxed: published with the core. The record is null: no thread ends in its sleep.
        self.flag.0.store(false, Ordering::Relaxed);
    }

    /// # Safety
    /// Called in the child of a fork, by its only thread, which has the core that contains this.
    pub(super) unsafe fn survive_fork(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.record.mend(|record, _| record.0 = ptr::null()) };
    }

    /// Returns `true` if the thread has been interrupted and has not been told yet.
    pub(super) fn is_set(&self) -> bool {
        self.flag.look()
    }

    /// Returns `true` if the thread sleeps, or is about to, where an interrupt ends the sleep. A look from
    /// outside.
    pub(super) fn may_end_sleep(&self) -> bool {
        // A locked record is taken for such a sleep. In the child of a fork it may be locked forever.
        self.record.try_with(|record| !record.0.is_null()).unwrap_or(true)
    }

    /// Says where the thread is about to sleep. Returns `false` if it has been interrupted and has won its
    /// own sleep.
    fn enter(&self, me: &ThreadRef, sleep_ref: &SleepRef<'_>) -> bool {
        self.record.with(|record| {
            if (self.flag.look() || me.is_one_of_all()) && sleep_ref.0.interrupt() {
                return false;
            }
            // A longer lifetime in the type only: `leave` comes before the end of the frame.
            record.0 = ptr::from_ref(sleep_ref).cast();
            true
        })
    }

    fn leave(&self) {
        self.record.with(|record| record.0 = ptr::null());
    }
}

/// Blocks as [`Backend::block`] does, in a sleep that may be interrupted. The sleep is already visible to
/// the threads that can end it, and is over when this returns.
#[cold]
pub(super) fn block(me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Instant>, reason: WaitReason) {
    let interrupt = &me.core().interrupt;
    // From the moment that interrupters can see the sleep until it is over (I9).
    let _no_preempt = NoPreempt::hold();
    // Bound to a name, because it is read until `leave`. A temporary in the condition would end too soon.
    let sleep_ref = SleepRef(sleep);
    if interrupt.enter(me, &sleep_ref) {
        me.backend().block(me, sleep, deadline, reason);
    }
    interrupt.leave();
}

/// Returns `true` if the running thread is interrupted, and clears its flag. The flag is set only if another
/// thread has a handle to this one. Also returns `true` if all threads of the thread's runtime are
/// interrupted.
#[inline]
pub(crate) fn take() -> bool {
    current::try_current().is_some_and(|me| me.core().interrupt.flag.take() || me.is_one_of_all())
}

impl ThreadRef {
    /// Sets the thread's flag, and ends its wait if that can be interrupted. The caller holds a counted
    /// reference, and no queue lock.
    pub(crate) fn interrupt(self) {
        let interrupt = &self.core().interrupt;
        if self.is_lost() {
            // It neither sleeps nor wakes here, and its record may be locked forever.
            return interrupt.flag.set();
        }
        // As in `permit::unpark`: the thread must not be preempted between winning the sleep and the
        // wake-up.
        let _no_preempt = NoPreempt::hold();
        let won = interrupt.record.with(|record| {
            interrupt.flag.set();
            self.win(record)
        });
        if let Some((backend, word)) = won {
            backend.wake(self, word);
        }
    }

    /// Ends the wait of a thread of the runtime at `home`, if that wait can be interrupted. Any thread may
    /// have the core. The [`Spawner::interrupts_all`](super::backend::Spawner) of that runtime already
    /// returns `true`.
    pub(crate) fn interrupt_one_of_all(self, home: usize) {
        // As in `permit::unpark`: no preemption between winning the sleep and the wake-up.
        let _no_preempt = NoPreempt::hold();
        // While the thread sleeps here and the lock is held, the core cannot change its life.
        let won = self.core().interrupt.record.with(|record| {
            if record.0.is_null() || !self.lives_at(home) {
                return None;
            }
            self.win(record)
        });
        if let Some((backend, word)) = won {
            backend.wake(self, word);
        }
    }

    /// Tries to win the thread's sleep, with the record locked. Returns what is needed to wake the thread.
    fn win(self, record: &SleepRecord) -> Option<(&'static dyn Backend, *const AtomicU32)> {
        // SAFETY: null, or entered by the thread, which cannot leave without the lock that is held.
        let sleep_ref = unsafe { record.0.as_ref() }?;
        let word = ptr::from_ref(sleep_ref.0.word());
        // Read here: once the sleep is won, a kernel thread may wake by itself, and end.
        let backend = self.backend();
        sleep_ref.0.interrupt().then_some((backend, word))
    }

    /// Returns `true` if all threads of its runtime are interrupted. Called for the running thread.
    #[inline]
    fn is_one_of_all(self) -> bool {
        self.spawner().is_some_and(Spawner::interrupts_all)
    }
}

#[cfg(all(test, loom))]
mod loom_interrupt;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::park::backend::{SpawnOptions, TaskRef};
    use crate::park::core_pool;

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
        assert!(interrupt.enter(&me, &sleep_ref));
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

    #[test]
    fn a_thread_of_a_runtime_that_interrupts_all_does_not_go_to_sleep() {
        let (stranger, thread) = (core_pool::take(1, None, None), core_pool::take(1, Some(&Ending), None));
        let sleep = Counting(AtomicU32::new(0), Cell::new(0));
        assert!(!stranger.is_one_of_all() && thread.is_one_of_all());
        assert!(!thread.core().interrupt.enter(&thread, &SleepRef(&sleep)));
        assert_eq!(sleep.1.get(), 1);
        thread.release();
        stranger.release();
    }
}
