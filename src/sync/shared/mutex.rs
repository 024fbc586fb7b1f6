//! A lock that several processes map, without the data: a word with its owner's process, a futex, and a record.
//!
//! **Problem.** Nothing of one process (an address, a queue, a hint where the owner runs) means anything in another. And a process may
//! be killed at any instruction, with the lock held, or while it waits.
//!
//! **Rejected.** *A counter of waiters* beside the lock: a process that dies while it waits would leave it wrong. *The kernel's robust
//! list* (`set_robust_list(2)`), which would mark the word at once: a kernel thread has one, and the C library has it; and it
//! belongs to a kernel thread, where a green thread locks on one and unlocks on another. *Futexes with priority inheritance*,
//! where the kernel knows the owner: it refuses an unlock by another kernel thread, too. *A descriptor of the owner's process*, to wait for
//! word and process at once: the kernel cannot.
//!
//! **Protocol.** The word holds the id of the owner's process, or 0, and whether somebody may sleep. Lock: `0 -> id` by compare-and-swap; then
//! the owner writes the *record*: when its process was started, and which of its threads it is. If the lock is taken: wait awake a
//! little, then set `ASLEEP`, and sleep while the word stays what it is, for a [nap](FIRST_NAP) at most; who has slept that long looks after the
//! owner, as does who is about to give up. Unlock: swap in 0; if `ASLEEP` was set, wake one.
//!
//! An owner is dead if its process is (`sys/process.rs`), or if it is a thread of the process that looks, and that one has ended
//! (`park/robust.rs`). Who finds that replaces the word by its own, by compare-and-swap: one of the heirs succeeds.
//!
//! **Proof.** *A sleeper is woken*: it has seen `ASLEEP` in the word, or set it, and whoever takes the lock after a sleep leaves the bit
//! set; so an unlock wakes one, who leaves it set again. One who gives up leaves it set for nothing, which costs one system call; if it may
//! have been woken, and somebody else has taken the lock before it, it sets the bit first, or wakes the next, if the lock is free. If the
//! one who was woken is killed, the others sleep to the end of their naps. *Two do not own it*: the word changes by whole; an heir's change
//! fails if anybody has changed it since. (An id that was used again in the meantime, by a process that has locked in the meantime, would
//! escape it: ids come back after tens of thousands of processes.)
//!
//! A process may be killed between the word and the record. Then the record is of an owner before: it names another process, and then the
//! id in the word must do, or the same one, which is as well.
//!
//! **Cost** in read-modify-writes: lock 1, unlock 1. Some stores for the record.

use std::fmt;
use std::time::{Duration, Instant};

use crate::park::interrupt;
use crate::park::process::{self, Process};
use crate::park::robust as dead;
use crate::park::shared_futex::{self, Waited};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::shim::const_new;
use crate::sync::UnlockError;
use crate::sync::robust::{Condition, ConditionWord, RawRobust, RobustError, Steps};
use crate::time;

/// How long a thread sleeps before it looks after the owner; then twice as long, and so on. A look costs 10 us.
const FIRST_NAP: Duration = Duration::from_millis(5);
/// The longest nap: how late the death of a process may be noticed. Range: 1 ms to what the user can wait for.
pub(super) const LONGEST_NAP: Duration = Duration::from_millis(80);

/// The algorithm, without the data: see [`Mutex`](super::Mutex). What it can do stands in [`RawRobust`].
///
/// A zeroed one is free.
///
/// # Examples
///
/// ```
/// use selvedge::sync::robust::{Condition, RawRobust};
/// use selvedge::sync::shared::RawMutex;
///
/// let lock = RawMutex::new();
/// assert_eq!(lock.lock(), Ok(Condition::Sound));
/// lock.unlock()?;
/// # Ok::<(), selvedge::sync::UnlockError>(())
/// ```
#[repr(C)]
pub struct RawMutex {
    word: Word,
    condition: ConditionWord,
    record: Record,
}

/// | bits | meaning | changed by |
/// |---|---|---|
/// | all 0 | free, and nobody sleeps | who takes it |
/// | 0 to 30 | the process that has it; 0: nobody | the owner; an heir, once the process is dead (of a thread of its own process that is dead, one that puts itself in that one's place in the record) |
/// | `ASLEEP` | somebody may sleep | who is about to; an unlock clears it |
#[repr(transparent)]
struct Word(AtomicU32);

const ASLEEP: u32 = 1 << 31;

/// More about the owner. Written by it; of use to those who find its process in the word.
#[repr(C)]
struct Record {
    process: AtomicU32,
    start: AtomicU64,
    namespace: AtomicU64,
    /// The id of its thread, within the process.
    thread: AtomicU64,
}

/// The thread that asks.
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

impl Word {
    #[inline]
    fn look(&self) -> u32 {
        // Relaxed: only a look.
        self.0.load(Ordering::Relaxed)
    }

    /// `seen`, which is free or a dead owner's, -> the caller's.
    #[inline]
    #[must_use]
    fn try_take(&self, seen: u32, mine: u32) -> bool {
        // Acquire: pairs with the release of `give`, so that the last owner's writes are visible. (Those of a dead one are: the
        // kernel has taken it off its processor before it said that it was dead, and a thread's end is seen through a lock.)
        self.0.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Says that somebody sleeps; `false`: the word is not `seen` any more.
    #[must_use]
    fn try_announce(&self, seen: u32) -> bool {
        // Relaxed: the futex compares the word.
        seen & ASLEEP != 0
            || self.0.compare_exchange(seen, seen | ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// By an heir: somebody may sleep.
    fn announce(&self) {
        // Acquire: as in `try_take`.
        self.0.fetch_or(ASLEEP, Ordering::Acquire);
    }

    /// Frees it; whether somebody may sleep.
    #[inline]
    #[must_use]
    fn give(&self) -> bool {
        // Release: pairs with `try_take`.
        self.0.swap(0, Ordering::Release) & ASLEEP != 0
    }
}

/// The sooner of two deadlines.
pub(super) fn soonest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The process in a word.
#[inline]
fn owner_of(seen: u32) -> u32 {
    seen & !ASLEEP
}

impl Record {
    /// By the owner. Relaxed, here and below: who looks compares the word afterwards, by a read-modify-write.
    #[inline]
    fn write(&self, me: &Me) {
        self.start.store(me.process.start, Ordering::Relaxed);
        self.namespace.store(me.process.namespace, Ordering::Relaxed);
        self.thread.store(me.id, Ordering::Relaxed);
        // Release: pairs with `death`, to which the rest means nothing without it.
        self.process.store(me.process.id, Ordering::Release);
    }

    /// By the owner, who is about to unlock.
    #[inline]
    fn forget(&self) {
        self.process.store(0, Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
    }

    /// Puts an heir in the place of a dead thread of the same process; of several, one does.
    #[must_use]
    fn inherit(&self, dead: u64, me: &Me) -> bool {
        // Relaxed: ids are never used again; what the dead one wrote is visible since its end was seen through a lock.
        self.thread.compare_exchange(dead, me.id, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn is_of(&self, me: &Me) -> bool {
        self.thread.load(Ordering::Relaxed) == me.id
            && self.process.load(Ordering::Relaxed) == me.process.id
            && self.start.load(Ordering::Relaxed) == me.process.start
    }

    /// How the owner that `seen` names has died, if it has.
    #[cold]
    fn death(&self, seen: u32, me: &Me) -> Option<Death> {
        let mut owner = Process { id: owner_of(seen), start: 0, namespace: 0 };
        // Acquire: pairs with `write`.
        if self.process.load(Ordering::Acquire) == owner.id {
            owner.start = self.start.load(Ordering::Relaxed);
            owner.namespace = self.namespace.load(Ordering::Relaxed);
        }
        if owner == me.process {
            let thread = self.thread.load(Ordering::Relaxed);
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
    const_new! {
        /// A free lock; a zeroed one is free too.
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
    }

    #[inline]
    fn is_mine(&self, me: &Me) -> bool {
        owner_of(self.word.look()) == me.process.id && self.record.is_of(me)
    }

    /// The running thread, unless it owns the lock.
    #[inline]
    fn stranger(&self) -> Result<Me, RobustError> {
        let me = Me::new();
        if self.is_mine(&me) { Err(RobustError::Deadlock) } else { Ok(me) }
    }

    /// By who has the word.
    #[inline]
    fn enter(&self, me: &Me) -> Result<Condition, RobustError> {
        self.record.write(me);
        me.thread.holds_robust();
        self.condition.look().ok_or_else(|| {
            self.exit(me);
            RobustError::NotRecoverable
        })
    }

    /// By the owner.
    #[inline]
    fn exit(&self, me: &Me) {
        me.thread.frees_robust();
        self.record.forget();
        if self.word.give() {
            // The memory may be unmapped by now, if the next owner was fast: the kernel then finds nobody.
            shared_futex::wake(&self.word.0, 1);
        }
    }

    /// Takes the lock over from a dead owner, if it has one.
    #[cold]
    fn inherit(&self, seen: u32, me: &Me) -> bool {
        let Some(death) = self.record.death(seen, me) else { return false };
        // Others may sleep.
        match death {
            Death::Process if self.word.try_take(seen, me.process.id | ASLEEP) => {
                self.condition.inherit(Condition::OwnerKilled);
            }
            // The word names our process already, so it does not tell one heir from another.
            Death::Thread(id) if self.record.inherit(id, me) => {
                self.word.announce();
                dead::passed_on(id);
                self.condition.inherit(Condition::OwnerEnded);
            }
            _ => return false,
        }
        true
    }

    /// By one who goes without the lock, and may have been woken: what it was told by an unlock is news to the other sleepers.
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
    fn acquire_slow(
        &self,
        me: &Me,
        deadline: Option<Instant>,
        interruptible: bool,
    ) -> Result<Option<Condition>, RobustError> {
        if shared_futex::wait_awake(|| self.word.look() == 0 && self.word.try_take(0, me.process.id)) {
            return self.enter(me).map(Some);
        }
        let mut nap = FIRST_NAP;
        let mut overslept = false;
        let mut woken = false;
        loop {
            let late = time::has_passed(deadline);
            let seen = self.word.look();
            if owner_of(seen) == 0 {
                if self.word.try_take(seen, me.process.id | ASLEEP) {
                    return self.enter(me).map(Some);
                }
                continue;
            }
            if (overslept || late) && self.inherit(seen, me) {
                return self.enter(me).map(Some);
            }
            let interrupted = interruptible && interrupt::take();
            if (interrupted || late) && woken {
                self.pass_wake_up_on();
            }
            if interrupted {
                return Err(RobustError::Interrupted);
            }
            if late {
                return Ok(None);
            }
            if self.word.try_announce(seen) {
                let until = soonest(time::after(nap), deadline);
                overslept = shared_futex::wait(&self.word.0, seen | ASLEEP, until) == Waited::TimedOut;
                woken = !overslept;
                nap = LONGEST_NAP.min(2 * nap);
            }
        }
    }
}

impl Steps for RawMutex {
    #[inline]
    fn acquire(
        &self,
        deadline: Option<Instant>,
        interruptible: bool,
    ) -> Result<Option<Condition>, RobustError> {
        let me = self.stranger()?;
        if interruptible && interrupt::take() {
            return Err(RobustError::Interrupted);
        }
        if self.word.try_take(0, me.process.id) {
            return self.enter(&me).map(Some);
        }
        self.acquire_slow(&me, deadline, interruptible)
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

impl Default for RawMutex {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMutex")
            .field("locked", &self.is_locked())
            .field("lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_shared.rs"]
mod loom_shared;
