//! Waiting on an address: the two ends of every lock, condition variable, barrier and join.
//!
//! **Problem.** One sleep must be ended by exactly one party (a grant, a deadline, an interrupt), no wake-up may be lost
//! between a waiter's last look and its sleep, and a hand-off between two threads should cost next to nothing.
//!
//! **Rejected.** Waking by the thread's own `park` token: a stray `unpark` of the user would be taken for a grant, and
//! a grant would eat the user's token. A token in the primitive: a mutex would need a queue and a destructor.
//! Settling sleeps by compare-and-swap: who unlinks the waiter has won already, under a lock it holds anyway.
//!
//! **Protocol**, for one key (an address nobody reads through):
//!
//! 1. The waiter locks the bucket, runs `validate` (its last look), links a [`Waiter`] on its own stack, unlocks.
//! 2. It runs `before_sleep`, or lets a lock go (a condition variable its mutex), and blocks.
//! 3. A granter locks the bucket, changes the state that `validate` looks at, unlinks a waiter, *settles* its word,
//!    unlocks, and wakes the thread if it must be woken.
//! 4. A deadline locks the bucket; if the waiter is still linked it unlinks it and settles the word with *expired*. So does an
//!    interrupt, with *interrupted*, where the waiter allows it (`interrupt.rs`).
//!
//! **Proof.** Lost wake-ups: the bucket lock orders 1 and 3. If the granter comes second it finds the waiter; if it
//! comes first, `validate` sees its change. One winner: only who unlinks settles, and the lock admits one.
//! Lifetimes: a waiter that is linked cannot leave, since leaving takes the bucket lock (I7). After the settling, a
//! kernel thread may be gone at once, so the granter has taken what it needs before (the thread, its backend, the
//! word's address); a green thread stays until it is woken.
//!
//! **Cost** in read-modify-writes: wait 1, grant 1 (the bucket lock), each 1 more for a kernel thread.

mod grants;

use std::ptr;
use std::time::Instant;

pub(crate) use self::grants::{Grant, Grants};
use super::backend::{Backend, Sleep};
use super::current::current;
use super::fork;
use super::interrupt;
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::relay::{self, Held};
use super::sleep_word::{FIRST_SETTLED, SleepWord};
use super::table::{self, Links};
use super::thread::ThreadRef;
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Where a waiter goes among those of the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// To the front, whose caches are warm; to the back at times (see `table.rs`).
    NearLifo,
    /// To the back.
    Fifo,
    /// To the front: it has waited before.
    Again,
}

/// How to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) reason: WaitReason,
    pub(crate) deadline: Option<Instant>,
    pub(crate) order: Order,
    /// Higher is granted first; `None`: as the thread's own says.
    pub(crate) priority: Option<u8>,
    /// Shown to granters ([`Found::urgent`]).
    pub(crate) urgent: bool,
    /// How much it wants ([`grant_while`]).
    pub(crate) demand: usize,
    /// Whether a kernel thread may look at its word for a while before it enters the kernel.
    pub(crate) spin: bool,
    /// Whether an interrupt ends the wait.
    pub(crate) interruptible: bool,
    /// Whether to be told ([`OWNER_DIED`]) of threads that end with robust locks held.
    pub(crate) heir: bool,
}

impl Options {
    /// Near-LIFO among equals, nothing special.
    pub(crate) fn new(reason: WaitReason, deadline: Option<Instant>) -> Self {
        Self {
            reason,
            deadline,
            order: Order::NearLifo,
            priority: None,
            urgent: false,
            demand: 0,
            spin: true,
            interruptible: false,
            heir: false,
        }
    }

    /// The same, for a wait that an interrupt ends too.
    pub(crate) fn interruptible(reason: WaitReason, deadline: Option<Instant>) -> Self {
        Self { interruptible: true, ..Self::new(reason, deadline) }
    }
}

/// What a granter says to the waiter; each primitive has its own few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u8);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Woken {
    /// Somebody granted it.
    Granted(Token),
    /// The deadline came first.
    Expired {
        /// It was in another queue by then ([`requeue`]).
        moved: bool,
    },
    /// An interrupt came first. The thread's flag is still set: who reports this takes it ([`interrupt::reported`]).
    Interrupted {
        /// As above.
        moved: bool,
    },
}

/// To one that waits with a lock, instead of what its granter said: it has the lock ([`wait_with`]). No primitive has it among its own.
pub(crate) const PASSED_ON: Token = Token(u8::MAX - 1);

/// `validate` said no: the thread was not queued, and `before_sleep` did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

/// What a granter finds in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Others wait behind it.
    pub(crate) more: bool,
    /// It asked for special care.
    pub(crate) urgent: bool,
}

/// One waiting thread. Lives on that thread's stack.
pub(crate) struct Waiter {
    word: SleepWord,
    /// Which queue it is linked in. Changed with the locks of both queues' buckets held, read without.
    key: AtomicUsize,
    links: UnsafeCell<Links>,
    thread: ThreadRef,
    backend: &'static dyn Backend,
    /// The thread spins and enters the kernel by itself ([`Backend::sleeps_in_kernel`]).
    kernel: bool,
    spin: bool,
    priority: u8,
    pub(super) urgent: bool,
    demand: usize,
    heir: bool,
}

// SAFETY: `links` is reached with the bucket lock held (I7); the rest is atomic or constant.
unsafe impl Sync for Waiter {}

impl Waiter {
    #[inline]
    fn new(thread: ThreadRef, key: usize, options: &Options) -> Self {
        let backend = thread.backend();
        let kernel = thread.is_kernel();
        debug_assert_eq!(kernel, backend.sleeps_in_kernel());
        Self {
            word: SleepWord::new(),
            key: AtomicUsize::from(key),
            links: UnsafeCell::new(Links::unlinked()),
            thread,
            backend,
            kernel,
            spin: options.spin,
            priority: options.priority.unwrap_or_else(|| thread.priority.number()),
            urgent: options.urgent,
            demand: options.demand,
            heir: options.heir,
        }
    }

    /// Sleeps, as `options` say, when it has been linked.
    #[inline]
    fn block(&self, options: &Options) {
        if options.interruptible {
            interrupt::block(&self.thread, self, options.deadline, options.reason);
        } else {
            self.backend.block(&self.thread, self, options.deadline, options.reason);
        }
    }

    /// The key, as far as it can be known without the bucket lock.
    #[inline]
    pub(super) fn key(&self) -> usize {
        // Relaxed: whoever acts on it locks the bucket and looks again.
        self.key.load(Ordering::Relaxed)
    }

    pub(super) fn set_key(&self, key: usize) {
        // Relaxed: as above.
        self.key.store(key, Ordering::Relaxed);
    }

    /// The place of the thread's core.
    pub(super) fn place(&self) -> usize {
        self.thread.place()
    }

    #[inline]
    pub(super) fn priority(&self) -> u8 {
        self.priority
    }

    /// Called with the lock held of the bucket that the waiter is linked in, or is about to be.
    #[inline]
    pub(super) fn links<R>(&self, f: impl FnOnce(&mut Links) -> R) -> R {
        // SAFETY: the bucket lock is held (I7), and `f` does not call back.
        self.links.with_mut(|links| f(unsafe { &mut *links }))
    }

    /// A look at the links: with the bucket lock held, or by the one who unlinked the waiter and has not settled it
    /// (a deadline may look at the same time, nobody writes).
    #[inline]
    pub(super) fn peek<R>(&self, f: impl FnOnce(&Links) -> R) -> R {
        // SAFETY: links are written with the bucket lock held, while the waiter is linked (I7).
        self.links.with(|links| f(unsafe { &*links }))
    }
}

/// Settles the sleep of a waiter that the caller has unlinked, and says whom to wake.
///
/// # Safety
/// The caller unlinked `waiter` with the bucket lock held, and settles it once.
#[inline]
pub(super) unsafe fn settle(waiter: *const Waiter, token: Token) -> Grant {
    // SAFETY: an unsettled waiter is alive: its thread cannot return from its wait.
    let waiter = unsafe { &*waiter };
    let mut grant = Grant {
        thread: waiter.thread,
        backend: waiter.backend,
        word: waiter.word.futex(),
        wake: true,
        _no_preempt: NoPreempt::hold(),
    };
    if waiter.kernel {
        grant.wake = waiter.word.settle_kernel(GRANTED | u32::from(token.0) << TOKEN_SHIFT);
        // From here on the waiter may be gone.
    } else {
        waiter.word.settle(GRANTED | u32::from(token.0) << TOKEN_SHIFT);
    }
    grant
}

impl Sleep for Waiter {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        self.word.futex()
    }

    #[inline]
    fn is_asleep(&self) -> bool {
        !self.word.is_settled()
    }

    #[inline]
    fn may_spin(&self) -> bool {
        self.spin
    }

    #[inline]
    fn commit_kernel(&self) -> Option<u32> {
        self.word.commit_kernel()
    }

    fn expire(&self) -> bool {
        let unlinked = table::unlink_if_linked(self);
        if unlinked {
            // Release through the bucket lock is not enough: the sleeper reads the word without it.
            self.word.settle(EXPIRED);
        }
        unlinked
    }

    fn interrupt(&self) -> bool {
        let unlinked = table::unlink_if_linked(self);
        if unlinked && self.kernel {
            // It is woken whether or not it sleeps.
            let _ = self.word.settle_kernel(INTERRUPTED);
        } else if unlinked {
            self.word.settle(INTERRUPTED);
        }
        unlinked
    }
}

/// Queues the running thread on `key` and sleeps until granted, expired or interrupted. See the protocol above; no queue lock is
/// held at the call. `validate` and `before_sleep` must not unwind; this unwinds before it calls them, if it does.
#[inline]
pub(crate) fn wait(
    key: usize,
    options: &Options,
    validate: impl FnOnce() -> bool,
    before_sleep: impl FnOnce(),
) -> Result<Woken, Invalid> {
    wait_and(key, options, validate, |waiter| {
        before_sleep();
        waiter.block(options);
        None
    })
}

/// [`wait`] with a lock, which is let go before the sleep, and taken afterwards, if it is not there already ([`PASSED_ON`], `relay.rs`).
#[inline]
pub(crate) fn wait_with(
    key: usize,
    options: &Options,
    validate: impl FnOnce() -> bool,
    lock: &impl Held,
) -> Result<Woken, Invalid> {
    wait_and(key, options, validate, |waiter| {
        let simple = !waiter.kernel && !options.interruptible && options.deadline.is_none();
        if simple && lock.is_alone() {
            return relay::block(&waiter.thread, waiter, options.reason, lock).then_some(PASSED_ON);
        }
        lock.release();
        waiter.block(options);
        None
    })
}

/// Both; `sleep` does what comes after the linking, and may know better than the grant.
#[inline]
fn wait_and(
    key: usize,
    options: &Options,
    validate: impl FnOnce() -> bool,
    sleep: impl FnOnce(&Waiter) -> Option<Token>,
) -> Result<Woken, Invalid> {
    let me = current();
    fork::check(options.deadline);
    let waiter = Waiter::new(me, key, options);
    me.core().whereabouts.at(key);
    // From its being linked to its waking up (I9).
    let no_preempt = NoPreempt::hold();
    let linked = table::with(&no_preempt, key, |bucket| {
        let valid = validate();
        if valid {
            // SAFETY: the lock of the key's bucket is held; the waiter stays where it is until it is unlinked: this
            // frame ends after `block`, which returns after the sleep is over.
            unsafe { bucket.link(&waiter, options.order) };
        }
        valid
    });
    if !linked {
        return Err(Invalid);
    }
    match sleep(&waiter) {
        Some(token) => Ok(Woken::Granted(token)),
        None => Ok(outcome(&waiter.word, || waiter.key() != key)),
    }
}

/// Takes the first waiter off the queue of `key`. `f` runs with the bucket lock held, with what was found, before the
/// waiter is settled: there the state changes that `validate` looks at. Wake the grant when no lock is held.
#[inline]
pub(crate) fn grant_one(key: usize, f: impl FnOnce(Option<Found>) -> Token) -> Option<Grant> {
    table::with(&NoPreempt::hold(), key, |bucket| {
        let Some((waiter, more)) = bucket.pop(key) else {
            f(None);
            return None;
        };
        // SAFETY: linked until a moment ago and not settled: its thread cannot have left.
        let urgent = unsafe { (*waiter).urgent };
        let token = f(Some(Found { more, urgent }));
        // SAFETY: unlinked just above, with the lock held.
        Some(unsafe { settle(waiter, token) })
    })
}

/// [`grant_one`]; and if that one was moved here, then with it up to `others` more of its priority who were, and who are told `company`.
#[inline]
pub(crate) fn grant_in_company(
    key: usize,
    others: usize,
    company: Token,
    f: impl FnOnce(Option<Found>) -> Token,
) -> Option<(Grant, Grants)> {
    table::with(&NoPreempt::hold(), key, |bucket| {
        let Some((first, mut more)) = bucket.pop(key) else {
            f(None);
            return None;
        };
        // SAFETY: linked until a moment ago and not settled: its thread cannot have left.
        let waiter = unsafe { &*first };
        let (moved, urgent, priority) = (waiter.peek(|links| links.moved), waiter.urgent, waiter.priority);
        let mut with_it = ptr::null();
        if moved && others > 0 {
            let mut left = others;
            let takes = |waiter: &Waiter| {
                // Who is woken together comes in any order.
                let takes = left > 0 && waiter.priority == priority && waiter.peek(|links| links.moved);
                left -= usize::from(takes);
                takes
            };
            (with_it, more) = bucket.take_while(key, takes);
        }
        let token = f(Some(Found { more, urgent }));
        // SAFETY: unlinked just above, with the lock held.
        let grant = unsafe { settle(first, token) };
        Some((grant, Grants { first: with_it, token: company, _no_preempt: NoPreempt::hold() }))
    })
}

/// Takes all waiters off the queue of `key`, if `f` says so. `f` runs with the bucket lock held, whether or not there
/// are any waiters: there the state changes that `validate` looks at. (If it changed before, a thread could see the
/// change, come back, queue again, and be granted for nothing.)
#[inline]
pub(crate) fn grant_all(key: usize, token: Token, f: impl FnOnce() -> bool) -> Option<Grants> {
    table::with(&NoPreempt::hold(), key, |bucket| {
        f().then(|| Grants { first: bucket.take_all(key), token, _no_preempt: NoPreempt::hold() })
    })
}

/// Takes waiters off the queue of `key`, each the next in turn, for as long as `takes` says so of what that one demands. All three run with
/// the bucket lock held: `begin` first, and at the end `done`, which is told whether anybody is left; there the state changes
/// that `validate` looks at.
#[inline]
pub(crate) fn grant_while<S>(
    key: usize,
    token: Token,
    begin: impl FnOnce() -> S,
    mut takes: impl FnMut(&mut S, usize) -> bool,
    done: impl FnOnce(S, bool),
) -> Option<Grants> {
    table::with(&NoPreempt::hold(), key, |bucket| {
        let mut state = begin();
        let (first, more) = bucket.take_while(key, |waiter| takes(&mut state, waiter.demand));
        done(state, more);
        (!first.is_null()).then(|| Grants { first, token, _no_preempt: NoPreempt::hold() })
    })
}

/// Runs `f` with the bucket lock held, if nobody waits on `key`.
pub(crate) fn if_empty(key: usize, f: impl FnOnce()) {
    table::with(&NoPreempt::hold(), key, |bucket| {
        if bucket.is_empty(key) {
            f();
        }
    });
}

/// What waiters that are heirs are told when a thread has ended with robust locks held (`robust.rs`), perhaps not the one that they
/// wait for. No primitive has it among its own.
pub(crate) const OWNER_DIED: Token = Token(u8::MAX);

/// Takes all heirs off their queues, and wakes them.
pub(crate) fn wake_heirs() {
    let grants = |first| Grants { first, token: OWNER_DIED, _no_preempt: NoPreempt::hold() };
    table::heirs::take(|waiter| waiter.heir, |first| _ = grants(first).wake_all());
}

/// Moves the waiters of `from` to the back of the queue of `to`, in their order, if `f` says so, which runs with both bucket locks
/// held; and says how many.
pub(crate) fn requeue(from: usize, to: usize, f: impl FnOnce() -> bool) -> usize {
    table::pair::with(from, to, |buckets| if f() { buckets.move_all() } else { 0 })
}

/// What granters and deadlines settle a waiter's word with, the token above it.
const GRANTED: u32 = FIRST_SETTLED;
const EXPIRED: u32 = FIRST_SETTLED + 1;
const INTERRUPTED: u32 = FIRST_SETTLED + 2;
const TOKEN_SHIFT: u32 = 8;

#[inline]
fn outcome(word: &SleepWord, moved: impl FnOnce() -> bool) -> Woken {
    let word = word.outcome();
    match word & 0xFF {
        EXPIRED => Woken::Expired { moved: moved() },
        INTERRUPTED => Woken::Interrupted { moved: moved() },
        _ => Woken::Granted(Token((word >> TOKEN_SHIFT) as u8)),
    }
}

#[cfg(test)]
#[path = "tests/random_queue.rs"]
mod random_queue;

#[cfg(all(test, loom))]
#[path = "tests/loom_queue.rs"]
mod loom_queue;
