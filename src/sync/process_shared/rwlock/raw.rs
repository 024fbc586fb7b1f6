//! A read-write lock that several processes map, without the data: a mutex of the writers, and two words.
//!
//! **Problem.** A process may be killed with the lock held. Of a writer, the others must learn that. Of
//! readers there may be any number, and a word has no room for their names.
//!
//! **Rejected.** A table of readers in the lock: it bounds their number, and every reader writes to it. So
//! the lock is robust for writers only.
//!
//! **Protocol.**
//!
//! - *Write*: lock the *gate*, a robust mutex (`process_shared/mutex.rs`). Set `WRITES` in the word of the
//!   readers, so that no more come. Sleep on that word until their number is 0.
//! - *End of a write*: clear `WRITES`, count a *turn*, wake all that sleep on the count of turns, and unlock
//!   the gate.
//! - *Read*: unless `WRITES` is set, add 1. Otherwise read the count of turns, look again, and sleep while
//!   that count is the same, for a nap at most. After the nap, try the gate: if its owner is dead, the reader
//!   has the gate now. It ends the dead thread's write, and passes the gate on with the news.
//! - *End of a read*: subtract 1. If `WRITES` is set and that was the last, wake the writer.
//!
//! **Proof.** *A writer is alone*: other writers stand at the gate. `WRITES` and the number of readers are
//! one word. So no reader comes after `WRITES`, and the writer goes on after the last has left. *No sleeper
//! is lost*: the turn is counted after `WRITES` was cleared. So a reader that has read the new count sees
//! that there is no writer. The word changes when a reader leaves, and the last one wakes. *A dead writer*:
//! it had the gate, so its heir, a writer or a reader, is told (`Condition`).
//!
//! **Cost** in read-modify-writes: read 1, end 1. Write: the gate's 2, and 3.

use crate::park::shared_futex::{self, Awaited, How, LONGEST_NAP, Waited};
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::sync::process_shared::RawMutex;
use crate::sync::robust::traits::Steps;
use crate::sync::robust::{Condition, RawRobust, RobustError};

#[derive(Default)]
#[repr(C)]
pub(super) struct RawRwLock {
    gate: RawMutex,
    readers: Readers,
    /// How many writes have ended.
    turn: AtomicU32,
}

/// | bits | meaning | changed by |
/// |---|---|---|
/// | 0 to 30 | how many threads read | each of them |
/// | `WRITES` | a thread writes, or waits until no thread reads | the owner of the gate |
#[derive(Default)]
#[repr(transparent)]
struct Readers(AtomicU32);

const WRITES: u32 = 1 << 31;

/// A writer's wait for the last reader.
impl Awaited for &Readers {
    fn word(&self) -> &AtomicU32 {
        &self.0
    }

    fn look(&mut self) -> Option<u32> {
        // Acquire: pairs with the release of `leave`. What all readers did comes before.
        let seen = self.0.load(Ordering::Acquire);
        (seen & !WRITES != 0).then_some(seen)
    }
}

/// A reader's wait for the end of a write.
struct Turn<'a>(&'a AtomicU32, u32);

impl Awaited for Turn<'_> {
    fn word(&self) -> &AtomicU32 {
        self.0
    }

    fn look(&mut self) -> Option<u32> {
        // Acquire: pairs with the release of `end_write`.
        let seen = self.0.load(Ordering::Acquire);
        (seen == self.1).then_some(seen)
    }

    fn needs_care(&mut self) -> bool {
        // The writer may be dead.
        true
    }

    fn due(&self) -> usize {
        usize::MAX
    }
}

impl Readers {
    /// Adds a reader, unless a thread writes.
    fn try_enter(&self) -> bool {
        let enter = |seen: u32| {
            assert!(seen != WRITES - 1, "too many readers of a process-shared read-write lock");
            (seen & WRITES == 0).then_some(seen + 1)
        };
        // Acquire: pairs with the release of `end`.
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    /// Subtracts a reader. Returns `true` if the writer is to be woken.
    #[must_use]
    fn leave(&self) -> bool {
        // Release: pairs with the acquire of the writer's look.
        self.0.fetch_sub(1, Ordering::Release) == WRITES | 1
    }

    /// Lets no more readers in. Returns `true` if none is in.
    fn close(&self) -> bool {
        // Acquire: pairs with the release of `leave`.
        self.0.fetch_or(WRITES, Ordering::Acquire) & !WRITES == 0
    }

    /// Lets no more readers in, if none is in.
    fn try_close(&self) -> bool {
        let close = |seen: u32| (seen & !WRITES == 0).then_some(WRITES);
        // Acquire: as in `close`.
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, close).is_ok()
    }

    fn have_left(&self) -> bool {
        // Acquire: as in `close`.
        self.0.load(Ordering::Acquire) & !WRITES == 0
    }

    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WRITES != 0
    }

    /// Lets readers in.
    fn end(&self) {
        // Release: pairs with the acquire of `try_enter`.
        self.0.fetch_and(!WRITES, Ordering::Release);
    }
}

impl RawRwLock {
    pub(super) const fn new() -> Self {
        let readers = Readers(AtomicU32::new(0));
        Self { gate: RawMutex::new(), readers, turn: AtomicU32::new(0) }
    }

    /// Takes a share for a reader.
    pub(super) fn read(&self, wait: Wait) -> Result<(), RobustError> {
        wait.begin()?;
        loop {
            if self.readers.try_enter() {
                return self.check();
            }
            self.wait_for_turn(wait)?;
        }
    }

    /// Takes a share for a reader, unless a thread writes or waits to. Returns `false` if one does.
    pub(super) fn try_read(&self) -> Result<bool, RobustError> {
        if self.readers.try_enter() || self.end_dead_write()? && self.readers.try_enter() {
            return self.check().map(|()| true);
        }
        Ok(false)
    }

    /// Gives the share back if the value is not consistent.
    fn check(&self) -> Result<(), RobustError> {
        if self.condition() == Condition::Consistent {
            return Ok(());
        }
        self.end_read();
        Err(RobustError::NotConsistent)
    }

    /// Returns how the last writer has left the value.
    pub(super) fn condition(&self) -> Condition {
        // It is never lost: each owner passes it on as it is.
        self.gate.condition().look().unwrap_or(Condition::OwnerDied)
    }

    #[cold]
    fn wait_for_turn(&self, wait: Wait) -> Result<(), RobustError> {
        // Acquire: pairs with the release of `end_write`.
        let turn = self.turn.load(Ordering::Acquire);
        let is_open = || !self.readers.is_closed();
        if is_open() || shared_futex::wait_awake(is_open) {
            return Ok(());
        }
        self.sleep_until_turn(turn, wait)
    }

    /// Sleeps until a write has ended. The count of turns was `turn`, and after that there was a writer.
    fn sleep_until_turn(&self, turn: u32, wait: Wait) -> Result<(), RobustError> {
        if self.gate.is_owned_by_current_thread() {
            return Err(RobustError::Deadlock);
        }
        let how = How { wait, nap: Some(LONGEST_NAP), near: self.gate.is_near() };
        if shared_futex::wait(&mut Turn(&self.turn, turn), how) == Waited::TimedOut {
            if self.end_dead_write()? {
                return Ok(());
            }
            wait.go_on()?;
        }
        Ok(())
    }

    /// Ends the write of a dead thread. Returns `true` if no thread writes.
    #[cold]
    fn end_dead_write(&self) -> Result<bool, RobustError> {
        if self.gate.try_acquire()?.is_none() {
            return Ok(false);
        }
        // No other thread has the gate, so what is closed was closed by a dead one.
        if self.readers.is_closed() {
            self.open();
        }
        self.gate.pass_on();
        Ok(true)
    }

    /// Takes the lock for a writer. The caller looks at the [`condition`](Self::condition) then, and if that
    /// is not consistent, mends the value or gives up by [`leave_as_it_is`](Self::leave_as_it_is).
    pub(super) fn write(&self, wait: Wait) -> Result<(), RobustError> {
        let _ = self.gate.acquire(wait)?;
        if self.readers.close() {
            return Ok(());
        }
        self.drain(wait).inspect_err(|_| self.leave_as_it_is()).map_err(Into::into)
    }

    /// Takes the lock for a writer, if no thread has it. Returns `false` if one does.
    pub(super) fn try_write(&self) -> Result<bool, RobustError> {
        if self.gate.try_acquire()?.is_none() {
            return Ok(false);
        }
        let alone = self.readers.try_close();
        if !alone {
            // A dead writer may have closed it.
            if self.readers.is_closed() {
                self.open();
            }
            self.gate.pass_on();
        }
        Ok(alone)
    }

    /// Waits until the last reader has left.
    #[cold]
    fn drain(&self, wait: Wait) -> Result<(), WaitError> {
        if shared_futex::wait_awake(|| self.readers.have_left()) {
            return Ok(());
        }
        self.sleep_until_drained(wait, true)
    }

    fn sleep_until_drained(&self, wait: Wait, near: bool) -> Result<(), WaitError> {
        let mut readers = &self.readers;
        let how = How { wait, nap: Some(LONGEST_NAP), near };
        while !self.readers.have_left() {
            if shared_futex::wait(&mut readers, how) == Waited::TimedOut && !self.readers.have_left() {
                wait.go_on()?;
            }
        }
        Ok(())
    }

    /// Lets readers in, and wakes them.
    fn open(&self) {
        self.readers.end();
        // Release: pairs with the acquire of `wait_for_turn`.
        self.turn.fetch_add(1, Ordering::Release);
        shared_futex::wake(&self.turn, u32::MAX);
    }

    /// Ends a read.
    pub(super) fn end_read(&self) {
        if self.readers.leave() {
            // If the writer was fast, the memory may be unmapped by now: the kernel then wakes no thread.
            shared_futex::wake(&self.readers.0, 1);
        }
    }

    /// Ends a write. Notes if the writer `unwinds`.
    pub(super) fn end_write(&self, unwinds: bool) {
        if self.gate.is_owned_by_current_thread() {
            if unwinds {
                self.gate.condition().leave(true);
            }
            self.leave_as_it_is();
        }
    }

    /// Ends a write in which the value was not touched.
    pub(super) fn leave_as_it_is(&self) {
        // In a child of a fork, the lock is the parent's.
        if self.gate.is_owned_by_current_thread() {
            self.open();
            self.gate.pass_on();
        }
    }

    /// Notes that the writer has mended the value.
    pub(super) fn mend(&self) {
        self.gate.condition().mend();
    }

    /// Returns `true` if a thread reads or writes at this moment.
    pub(super) fn is_locked(&self) -> bool {
        self.readers.0.load(Ordering::Relaxed) != 0
    }

    /// Returns `true` if a thread writes, or waits until no thread reads.
    pub(super) fn is_locked_exclusive(&self) -> bool {
        self.readers.is_closed()
    }
}

#[cfg(all(test, loom))]
mod loom_shared_rwlock;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::tests::watched;
    use crate::time;

    /// A thread can forget so many guards within seconds. The next reader would look again and again, past
    /// its deadline.
    #[test]
    #[should_panic(expected = "too many readers")]
    fn a_reader_for_which_there_is_no_room_does_not_look_forever() {
        let _watched = watched();
        let lock = RawRwLock::new();
        lock.readers.0.store(WRITES - 2, Ordering::Relaxed);
        assert_eq!(lock.read(Wait::forever()), Ok(()));
        let _ = lock.read(Wait::by(Some(time::now())));
    }
}
