//! Ending a thread's wait from outside, with an error that says so.
//!
//! **Problem.** A thread that waits for something that will never come must be told to stop, whatever it waits for, and without
//! its help: it sleeps. What it waits for may come in the same moment, or its deadline; and it may be on its way to sleep.
//!
//! **Rejected.** Interrupting every wait: code that was written for `lock` and `sleep` of std does not expect it, and could
//! only ignore the error; so waits that can report it have names of their own, and all others neither pay for it nor notice.
//! A token like the permit's that the sleep looks at: a queue's waiter would have to be taken off its queue by a thread that
//! was woken without having been granted, and every grant would race with it. A condition that is polled: no wait has a period.
//!
//! **Protocol.** A thread has a flag, which stays set until a wait has reported it (or the thread has asked for it), and a place:
//! where it sleeps, if that may be interrupted. Both change with the lock of the place held, but for the taking of the flag.
//!
//! 1. *Wait*: a thread whose flag is set does not wait. Else it makes its sleep visible to those it waits for, as always (it is
//!    queued, or published), then locks its place, looks at the flag again, and enters the sleep there; it blocks; after that it locks
//!    the place again, and clears it.
//! 2. *Interrupt*: lock the place, set the flag; if a sleep is there, try to win it ([`Sleep::interrupt`]); unlock; if it was won,
//!    wake the thread.
//! 3. A thread that finds the flag set in 1, on its way to sleep, tries to win its own sleep, and does not block if it has.
//!
//! **Proof.** *None is lost*: of two critical sections of the place's lock one comes first. If the interrupter's does, the thread finds
//! the flag, else the interrupter finds the sleep. *Each sleep is ended once* (I3): an interrupt wins a sleep by the same step as a
//! deadline does, and no other: it takes the waiter off its queue, or changes the word away from asleep. Where a grant or a
//! deadline came first it leaves the sleep alone, and the flag stays for the next wait. *The sleep is there while it is looked at*: it
//! lives until its thread has cleared the place, with the lock held. After that the interrupter uses the word's address only, and the thread
//! by its own counted reference.
//!
//! *All threads of a runtime* are interrupted by that runtime's saying so (a shutdown does), which 1 and 3 look at as if it were the
//! flag, and then by 2 without the flag, over and over. So nobody's flag is set that may belong to the core's next life, and a thread
//! does not wait again after it has reported it once.
//!
//! Lock order: place (`Outer`), then bucket.
//!
//! **Cost.** Nothing in a wait that cannot be interrupted, but for a branch. Two locks of the place in one that can.

use std::error::Error;
use std::fmt;
use std::io;
use std::ptr;
use std::time::Instant;

use super::backend::{Ambient, Backend, Sleep};
use super::current;
use super::no_preempt::NoPreempt;
use super::queue_lock::{QueueLock, Rank};
use super::reason::WaitReason;
use super::thread::ThreadRef;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};

/// The error of a wait that somebody has ended by [`Thread::interrupt`](crate::thread::Thread::interrupt), or that did not begin
/// because the thread had been interrupted before.
///
/// The wait has then taken the interrupt: the next one waits again.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::Duration;
///
/// thread::current().interrupt();
/// let error = thread::sleep_interruptible(Duration::from_secs(1000)).unwrap_err();
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

/// A thread's part of the protocol above.
pub(super) struct Interrupt {
    flag: Flag,
    /// Where the thread sleeps, if that may be interrupted.
    place: QueueLock<Place>,
}

/// | value | meaning | next by |
/// |---|---|---|
/// | `false` | nothing has happened | anybody, with the place locked: `true` |
/// | `true` | the thread was interrupted, and knows nothing of it | the thread: `false`; the core's next life: `false` |
struct Flag(AtomicBool);

impl Flag {
    #[inline]
    fn look(&self) -> bool {
        // Acquire: pairs with `set`, so that what the interrupter did is visible to who only looks.
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        // Release: pairs with `look` and `take`. A store among stores: with the lock of the place held, so an interrupter comes
        // after all those before it, and releases what they did.
        self.0.store(true, Ordering::Release);
    }

    /// By the thread itself; whether it was set.
    #[inline]
    fn take(&self) -> bool {
        // Acquire: pairs with `set`. A look first: it is clear nearly always.
        self.look() && self.0.swap(false, Ordering::Acquire)
    }
}

/// Null, or the bed of a thread that is asleep, on its way to sleep, or on its way back.
struct Place(*const Bed<'static>);

// SAFETY: followed with the lock held that the sleeper must take before its frame ends.
unsafe impl Send for Place {}

/// A sleep that may be interrupted, in its thread's frame. One word in the core leads to it, where a `&dyn` would take two.
struct Bed<'a>(&'a dyn Sleep);

impl Interrupt {
    pub(super) fn new() -> Self {
        Self { flag: Flag(AtomicBool::new(false)), place: QueueLock::new(Rank::Outer, Place(ptr::null())) }
    }

    /// For the next life of the core, which the caller has to itself.
    #[inline]
    pub(super) fn reset(&self) {
        // Relaxed: published with the core. The place is null: no thread ends in its sleep.
        self.flag.0.store(false, Ordering::Relaxed);
    }

    /// # Safety
    /// In the child of a fork, by its only thread, whose core this is part of.
    pub(super) unsafe fn survive_fork(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.place.mend(|place, _| place.0 = ptr::null()) };
    }

    /// Whether the thread has been interrupted, and does not know yet.
    pub(super) fn is_set(&self) -> bool {
        self.flag.look()
    }

    /// Whether the thread sleeps where an interrupt ends it, or is about to: a look from outside.
    pub(super) fn may_end_sleep(&self) -> bool {
        // One that is locked, in the child of a fork for ever, is taken for one that may.
        self.place.try_with(|place| !place.0.is_null()).unwrap_or(true)
    }

    /// Says where the thread is about to sleep; `false`: it has been interrupted, and has won its own sleep.
    fn enter(&self, me: &ThreadRef, bed: &Bed<'_>) -> bool {
        self.place.with(|place| {
            if (self.flag.look() || me.is_one_of_all()) && bed.0.interrupt() {
                return false;
            }
            // A longer life in the type only: `leave` comes before the end of the frame.
            place.0 = ptr::from_ref(bed).cast();
            true
        })
    }

    fn leave(&self) {
        self.place.with(|place| place.0 = ptr::null());
    }
}

/// [`Backend::block`] for a sleep that may be interrupted. It is visible already to those it
/// waits for, and over when this returns.
#[cold]
pub(super) fn block(me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Instant>, reason: WaitReason) {
    let interrupt = &me.core().interrupt;
    // From its being known to interrupters to its waking up (I9).
    let _no_preempt = NoPreempt::hold();
    // Bound to a name, because it is read until `leave`: a temporary in the condition would end too soon.
    let bed = Bed(sleep);
    if interrupt.enter(me, &bed) {
        me.backend().block(me, sleep, deadline, reason);
    }
    interrupt.leave();
}

/// Whether the running thread is interrupted: takes its flag, which is set only if somebody has a handle to it; or all threads of
/// its runtime are.
#[inline]
pub(crate) fn take() -> bool {
    current::try_current().is_some_and(|me| me.core().interrupt.flag.take() || me.is_one_of_all())
}

/// What a wait that can be interrupted does first.
#[inline]
pub(crate) fn check() -> Result<(), Interrupted> {
    if take() { Err(Interrupted) } else { Ok(()) }
}

/// The error of a wait that was interrupted, which takes the flag with it.
pub(crate) fn reported() -> Interrupted {
    // It is not set if all threads of the runtime are interrupted.
    let _ = take();
    Interrupted
}

impl ThreadRef {
    /// Sets the thread's flag, and ends its wait, if it is one that can be interrupted. The caller holds a counted reference, and
    /// no queue lock.
    pub(crate) fn interrupt(self) {
        let interrupt = &self.core().interrupt;
        if self.is_lost() {
            // It neither sleeps nor wakes here, and its place may be locked for ever.
            return interrupt.flag.set();
        }
        // As in `permit::unpark`.
        let _no_preempt = NoPreempt::hold();
        let won = interrupt.place.with(|place| {
            interrupt.flag.set();
            self.win(place)
        });
        if let Some((backend, word)) = won {
            backend.wake(self, word);
        }
    }

    /// Ends the wait of a thread of the runtime at `home`, if it is one that can be interrupted. The core may be anybody's. For a
    /// runtime whose [`Ambient::interrupts_all`](super::backend::Ambient) says so already.
    pub(crate) fn interrupt_one_of_all(self, home: usize) {
        // As in `permit::unpark`.
        let _no_preempt = NoPreempt::hold();
        // Whose life it is cannot change while it sleeps here, and the lock is held.
        let won = self.core().interrupt.place.with(|place| {
            if place.0.is_null() || !self.lives_at(home) {
                return None;
            }
            self.win(place)
        });
        if let Some((backend, word)) = won {
            backend.wake(self, word);
        }
    }

    /// With the place locked: tries to win the thread's sleep; what is needed to wake it.
    fn win(self, place: &Place) -> Option<(&'static dyn Backend, *const AtomicU32)> {
        // SAFETY: null, or entered by the thread, which cannot leave without the lock that is held.
        let bed = unsafe { place.0.as_ref() }?;
        let word = ptr::from_ref(bed.0.word());
        // Asked for here: once it is won, a kernel thread may wake by itself, and end.
        let backend = self.backend();
        bed.0.interrupt().then_some((backend, word))
    }

    /// Of the running thread: whether all threads of its runtime are interrupted.
    #[inline]
    fn is_one_of_all(self) -> bool {
        self.ambient().is_some_and(Ambient::interrupts_all)
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_interrupt.rs"]
mod loom_interrupt;
