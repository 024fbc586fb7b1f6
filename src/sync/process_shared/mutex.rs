//! A lock that several processes map, without the data: a word with its owner's process, which is a
//! futex, and a record.
//!
//! **Problem.** Nothing of one process (an address, a queue, a hint where the owner runs) means anything
//! in another. And a process may be killed at any instruction, with the lock held, or while it waits.
//!
//! **Rejected.**
//!
//! - *A counter of waiters* beside the lock. A process that dies while it waits would leave it wrong.
//! - *The kernel's robust list* (`set_robust_list(2)`), which would mark the word at once. A kernel
//!   thread has one list, and the C library uses it. The list belongs to a kernel thread, but a green
//!   thread may lock on one and unlock on another.
//! - *Futexes with priority inheritance*, with which the kernel knows the owner. It also refuses an
//!   unlock by another kernel thread.
//! - *A descriptor of the owner's process*, to wait for word and process at once. The kernel cannot do
//!   that.
//!
//! **Protocol.** The word holds the id of the owner's process, or 0, and a bit, `ASLEEP`, if a thread may
//! sleep.
//!
//! - *Lock*: `0 -> id` by compare-and-swap. The owner then writes the *record*: when its process was
//!   started, and which of its threads it is.
//! - *Wait*: if the lock is taken, the thread waits awake a little, then sets `ASLEEP`. It sleeps while
//!   the word stays the same. After each [nap](FIRST_NAP), and before it gives up, it checks if the owner is
//!   alive.
//! - *Unlock*: swap in 0; if `ASLEEP` was set, wake one thread.
//!
//! An owner is dead if its process is (`sys/process.rs`). It is also dead if it is a thread of the
//! process that checks, and that thread has ended (`park/robust.rs`). A thread that finds this replaces
//! the word by its own, by compare-and-swap: one of the heirs succeeds.
//!
//! **Proof.** *A sleeper is woken.* It has seen `ASLEEP` in the word, or set it. A thread that takes the
//! lock after a sleep leaves the bit set. So an unlock wakes one thread, which leaves the bit set again.
//! Two other cases:
//!
//! - A thread that gives up leaves the bit set for nothing, which costs one system call. It may have been
//!   woken, while another thread took the lock first. Then it sets the bit before it goes; or, if the
//!   lock is free, wakes the next.
//! - If the woken thread is killed, the others sleep to the end of their naps.
//!
//! *Two do not own it.* The word changes as a whole, so an heir's change fails if another thread has
//! changed the word since. (One case would escape: meanwhile a new process got the same id, and locked.
//! Ids come back after tens of thousands of processes.)
//!
//! A process may be killed between the word and the record. The record is then that of an earlier owner.
//! If it names another process, the id in the word must do. If it names the same process, it is right.
//!
//! **Cost** in read-modify-writes: lock 1, unlock 1. Some stores for the record.

use std::time::Duration;

use crate::park::process::{self, Process};
use crate::park::robust as dead;
use crate::park::shared_futex::{self, Awaited, How, Waited};
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::UnlockError;
use crate::sync::robust::{Condition, ConditionWord, RawRobust, RobustError, traits::Steps};
use crate::time;

/// How long a thread sleeps before it checks if the owner is alive. Each nap is twice as long as the
/// last. A check costs 10 us.
const FIRST_NAP: Duration = Duration::from_millis(5);

/// The algorithm, without the data: see [`Mutex`](super::Mutex). [`RawRobust`] says what it can do.
///
/// A zeroed one is free.
///
/// # Examples
///
/// ```
/// use selvedge::sync::robust::{Condition, RawRobust};
/// use selvedge::sync::process_shared::RawMutex;
///
/// let lock = RawMutex::new();
/// assert_eq!(lock.lock(), Ok(Condition::Consistent));
/// lock.unlock()?;
/// # Ok::<(), selvedge::sync::UnlockError>(())
/// ```
#[derive(Default)]
#[repr(C)]
pub struct RawMutex {
    word: Word,
    condition: ConditionWord,
    record: Record,
}

/// | bits | meaning | changed by |
/// |---|---|---|
/// | all 0 | free, and no thread sleeps | a thread that takes it |
/// | 0 to 30 | the process that has it; 0: none | the owner; an heir of a dead process |
/// | `ASLEEP` | a thread may sleep | a thread that is about to; an unlock clears it |
///
/// If the owner is a dead thread of the heir's own process, bits 0 to 30 are right already. The heir puts
/// itself in that thread's place in the record.
#[derive(Default)]
#[repr(transparent)]
struct Word(AtomicU32);

const ASLEEP: u32 = 1 << 31;

/// More about the owner, which writes it. For threads that find the owner's process in the word.
#[derive(Default)]
#[repr(C)]
struct Record {
    process: AtomicU32,
    start: AtomicU64,
    namespace: AtomicU64,
    /// The number of the thread ([`number_of`]).
    thread: AtomicU64,
}

/// The running thread.
struct Me {
    process: Process,
    thread: ThreadRef,
    id: u64,
}

impl Me {
    #[inline]
    fn new() -> Self {
        let (thread, id) = dead::me();
        Self { process: process::this(), thread, id }
    }
}

/// Returns the number of the thread with this id, or the id of the thread with this number. A thread of
/// another process may have the id, and none has the number. So a thread that finds its own has written it.
#[inline]
fn number_of(process: u32, id: u64) -> u64 {
    id ^ (u64::from(process) << 32)
}

impl Word {
    #[inline]
    fn look(&self) -> u32 {
        // Relaxed: only a look.
        self.0.load(Ordering::Relaxed)
    }

    /// Takes the lock for the caller. Its word was `seen`, which is free or a dead owner's.
    #[inline]
    #[must_use]
    fn try_take(&self, seen: u32, mine: u32) -> bool {
        // Acquire: pairs with the release of `give`: the last owner's writes are visible. Those of a dead
        // owner are visible too. The kernel takes a process off its processor before it says that it is
        // dead, and a thread's end is seen through a lock.
        self.0.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Notes that a thread sleeps. Returns `false` if the word is not `seen`.
    #[must_use]
    fn try_announce(&self, seen: u32) -> bool {
        // Relaxed: the futex compares the word.
        seen & ASLEEP != 0
            || self.0.compare_exchange(seen, seen | ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Notes that threads may sleep. Called by an heir.
    fn announce(&self) {
        // Relaxed: the heir has seen the end of the dead owner through a lock (`Record::inherit`).
        self.0.fetch_or(ASLEEP, Ordering::Relaxed);
    }

    /// Frees the lock. Returns `true` if a thread may sleep.
    #[inline]
    #[must_use]
    fn give(&self) -> bool {
        // Release: pairs with the acquire of `try_take`.
        self.0.swap(0, Ordering::Release) & ASLEEP != 0
    }
}

/// A wait until the lock is free. The thread says in the word that it sleeps.
struct Release<'a> {
    lock: &'a RawMutex,
    me: &'a Me,
}

impl Awaited for Release<'_> {
    fn word(&self) -> &AtomicU32 {
        &self.lock.word.0
    }

    fn look(&mut self) -> Option<u32> {
        loop {
            let seen = self.lock.word.look();
            if owner_of(seen) == 0 {
                return None;
            }
            if self.lock.word.try_announce(seen) {
                return Some(seen | ASLEEP);
            }
        }
    }

    fn needs_care(&mut self) -> bool {
        self.lock.record.death(self.lock.word.look(), self.me).is_some()
    }
}

/// Returns the process in a word.
#[inline]
fn owner_of(seen: u32) -> u32 {
    seen & !ASLEEP
}

impl Record {
    /// Writes the record of the owner, `me`. Relaxed, here and below: a thread that looks compares the
    /// word afterwards, by a read-modify-write.
    #[inline]
    fn write(&self, me: &Me) {
        self.start.store(me.process.start, Ordering::Relaxed);
        self.namespace.store(me.process.namespace, Ordering::Relaxed);
        self.thread.store(number_of(me.process.id, me.id), Ordering::Relaxed);
        // Release: pairs with the acquire of `owner`, to which the rest means nothing without it.
        self.process.store(me.process.id, Ordering::Release);
    }

    /// Clears the record. Called by the owner before it unlocks.
    #[inline]
    fn forget(&self) {
        self.process.store(0, Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
    }

    /// Puts an heir in the place of a dead thread of the same process. Of several heirs, one succeeds.
    #[must_use]
    fn inherit(&self, dead: u64, me: &Me) -> bool {
        // Relaxed: ids are never used again. What the dead thread wrote is visible, because its end was
        // seen through a lock.
        let [dead, heir] = [dead, me.id].map(|id| number_of(me.process.id, id));
        self.thread.compare_exchange(dead, heir, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn is_of(&self, me: &Me) -> bool {
        self.thread.load(Ordering::Relaxed) == number_of(me.process.id, me.id)
            && self.process.load(Ordering::Relaxed) == me.process.id
            && self.start.load(Ordering::Relaxed) == me.process.start
    }

    /// Returns the process that `seen` names, without its start if the record is not of that process.
    fn owner(&self, seen: u32) -> Process {
        let mut owner = Process { id: owner_of(seen), start: 0, namespace: 0 };
        // Acquire: pairs with the release of `write`.
        if self.process.load(Ordering::Acquire) == owner.id {
            owner.start = self.start.load(Ordering::Relaxed);
            owner.namespace = self.namespace.load(Ordering::Relaxed);
        }
        owner
    }

    /// Returns what has died, if the owner that `seen` names is dead.
    #[cold]
    fn death(&self, seen: u32, me: &Me) -> Option<Death> {
        let owner = self.owner(seen);
        if owner == me.process {
            let thread = number_of(owner.id, self.thread.load(Ordering::Relaxed));
            return dead::is_dead(thread).then_some(Death::Thread(thread));
        }
        owner.has_ended(&me.process).then_some(Death::Process)
    }
}

enum Death {
    Process,
    /// A thread of this process.
    Thread(u64),
}

impl RawMutex {
    /// Creates a free lock; a zeroed one is free too.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: Word(AtomicU32::new(0)),
            condition: ConditionWord::new(),
            record: Record {
                process: AtomicU32::new(0),
                start: AtomicU64::new(0),
                namespace: AtomicU64::new(0),
                thread: AtomicU64::new(0),
            },
        }
    }

    #[inline]
    fn is_mine(&self, me: &Me) -> bool {
        owner_of(self.word.look()) == me.process.id && self.record.is_of(me)
    }

    /// Returns `true` if a thread of this process is likely to unlock it.
    pub(super) fn is_near(&self) -> bool {
        owner_of(self.word.look()) == process::this().id
    }

    /// Returns the running thread, unless it owns the lock.
    #[inline]
    fn stranger(&self) -> Result<Me, RobustError> {
        let me = Me::new();
        if self.is_mine(&me) { Err(RobustError::Deadlock) } else { Ok(me) }
    }

    /// Completes the acquire of a thread that has the word.
    #[inline]
    fn enter(&self, me: &Me) -> Result<Condition, RobustError> {
        self.record.write(me);
        me.thread.holds_robust();
        self.condition.look().ok_or_else(|| {
            self.exit(me);
            RobustError::NotRecoverable
        })
    }

    /// Releases the lock. Called by the owner.
    #[inline]
    fn exit(&self, me: &Me) {
        me.thread.frees_robust();
        self.record.forget();
        if self.word.give() {
            // If the next owner was fast, the memory may be unmapped by now: the kernel then wakes no
            // thread.
            shared_futex::wake(&self.word.0, 1);
        }
    }

    /// Takes the lock over from a dead owner, if it has one.
    #[cold]
    fn inherit(&self, seen: u32, me: &Me) -> bool {
        let Some(death) = self.record.death(seen, me) else { return false };
        // Other threads may sleep.
        match death {
            Death::Process if self.word.try_take(seen, me.process.id | ASLEEP) => {
                self.condition.inherit(Condition::ProcessDied);
            }
            // The word names this process already, so it does not tell one heir from another.
            Death::Thread(id) if self.record.inherit(id, me) => {
                self.word.announce();
                dead::passed_on(id);
                self.condition.inherit(Condition::OwnerDied);
            }
            _ => return false,
        }
        true
    }

    /// Passes a wake-up on. Called by a thread that may have been woken, and gives up: the other sleepers
    /// need to know of the unlock that woke it.
    #[cold]
    fn pass_wake_up_on(&self) {
        loop {
            let seen = self.word.look();
            if owner_of(seen) == 0 {
                return shared_futex::wake(&self.word.0, 1);
            }
            if self.word.try_announce(seen) {
                return;
            }
        }
    }

    #[cold]
    fn acquire_slow(&self, me: &Me, wait: Wait) -> Result<Condition, RobustError> {
        if shared_futex::wait_awake(|| self.word.look() == 0 && self.word.try_take(0, me.process.id)) {
            return self.enter(me);
        }
        let mut overslept = false;
        let mut woken = false;
        loop {
            let late = time::has_passed(wait.deadline);
            let seen = self.word.look();
            if owner_of(seen) == 0 {
                if self.word.try_take(seen, me.process.id | ASLEEP) {
                    return self.enter(me);
                }
                continue;
            }
            if (overslept || late) && self.inherit(seen, me) {
                return self.enter(me);
            }
            let on_time = if late { Err(WaitError::TimedOut) } else { Ok(()) };
            if let Err(why) = wait.begin().and(on_time) {
                if woken {
                    self.pass_wake_up_on();
                }
                return Err(why.into());
            }
            let near = owner_of(seen) == me.process.id;
            let how = How { wait, nap: Some(FIRST_NAP), near };
            overslept = shared_futex::wait(&mut Release { lock: self, me }, how) == Waited::TimedOut;
            woken = !overslept;
        }
    }
}

impl Steps for RawMutex {
    #[inline]
    fn acquire(&self, wait: Wait) -> Result<Condition, RobustError> {
        let me = self.stranger()?;
        wait.begin()?;
        if self.word.try_take(0, me.process.id) { self.enter(&me) } else { self.acquire_slow(&me, wait) }
    }

    #[inline]
    fn try_acquire(&self) -> Result<Option<Condition>, RobustError> {
        let me = self.stranger()?;
        loop {
            let seen = self.word.look();
            let taken = if owner_of(seen) == 0 {
                self.word.try_take(seen, me.process.id | seen)
            } else if self.inherit(seen, &me) {
                true
            } else {
                return Ok(None);
            };
            if taken {
                return self.enter(&me).map(Some);
            }
        }
    }

    #[inline]
    fn condition(&self) -> &ConditionWord {
        &self.condition
    }

    #[inline]
    fn release(&self, unwinds: bool) -> Result<(), UnlockError> {
        let me = Me::new();
        if !self.is_mine(&me) {
            return Err(if self.is_locked() { UnlockError::NotOwner } else { UnlockError::NotLocked });
        }
        self.condition.leave(unwinds);
        self.exit(&me);
        Ok(())
    }

    fn pass_on(&self) {
        let me = Me::new();
        if self.is_mine(&me) {
            self.exit(&me);
        }
    }
}

impl RawRobust for RawMutex {
    fn is_locked(&self) -> bool {
        owner_of(self.word.look()) != 0
    }

    fn is_owned_by_current_thread(&self) -> bool {
        self.is_mine(&Me::new())
    }
}

crate::shown::debug! {
    [] RawMutex: "RawMutex",
    "locked": |lock| lock.is_locked(),
    "not_recoverable": |lock| lock.is_not_recoverable()
}

#[cfg(all(test, loom))]
mod loom_shared;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks an unlock while the next owner has the word, and has not written the record yet.
    #[test]
    fn a_thread_that_has_unlocked_does_not_own_the_lock_of_the_next_owner() {
        let lock = RawMutex::new();
        assert_eq!(lock.lock(), Ok(Condition::Consistent));
        assert_eq!(lock.unlock(), Ok(()));
        assert!(lock.word.try_take(0, Me::new().process.id));
        assert!(lock.is_locked() && !lock.is_owned_by_current_thread());
        assert_eq!(lock.unlock(), Err(UnlockError::NotOwner));
    }

    #[test]
    fn of_several_heirs_one_has_the_lock() {
        let (lock, me) = (RawMutex::new(), Me::new());
        let dead = std::thread::scope(|s| {
            let dies = || (lock.lock().unwrap(), Me::new().id).1;
            s.spawn(dies).join().unwrap()
        });
        assert!(!lock.record.inherit(dead + 1, &me), "another thread has died");
        let seen = lock.word.look();
        assert!(lock.inherit(seen, &me));
        assert!(!lock.record.inherit(dead, &me) && !lock.inherit(seen, &me), "it has an heir");
        assert!(lock.is_owned_by_current_thread());
        assert_eq!(lock.word.look(), seen | ASLEEP, "others may sleep");
    }
}
