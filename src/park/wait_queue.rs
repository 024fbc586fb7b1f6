//! Waiting on an address: the slow path of locks, condition variables, barriers, scopes, and of all else that
//! several threads may wait for. (At most one thread waits in a join: `exit.rs`.)
//!
//! **Problem.** Exactly one party must end a sleep: a grant, a deadline or an interrupt. No wake-up may be
//! lost between a waiter's last look and its sleep. A hand-off should cost almost nothing.
//!
//! **Rejected.**
//!
//! - To wake by the token of the thread's own `park`. A stray `unpark` of the user would pass for a grant,
//!   and a grant would use up the user's token.
//! - A token in the primitive: a mutex would need a queue and a destructor.
//! - To settle sleeps by compare-and-swap: the thread that unlinks the waiter has won already, under a lock.
//!
//! **Protocol**, for one key (an address that is never dereferenced):
//!
//! 1. The waiter locks the bucket, runs `validate` (its last look), links a [`Waiter`], and unlocks.
//! 2. It runs `before_sleep`, or releases a lock (a condition variable does so with its mutex), and blocks.
//! 3. A granter locks the bucket, changes the state that `validate` reads, and unlinks a waiter. It *settles*
//!    its word (says how the sleep ended, `waiter.rs`), unlocks, and wakes the thread if it must be woken.
//! 4. A deadline locks the bucket. If the waiter is still linked, it unlinks it and settles the word with
//!    *expired*. If the waiter allows it, an interrupt does the same with *interrupted* (`interrupt.rs`). If
//!    a far deadline is watched for the thread, [`expire_if`] finds the waiter.
//!
//! **Proof.**
//!
//! - *No wake-up is lost.* The bucket lock orders 1 and 3. If the granter comes second, it finds the waiter.
//!   If it comes first, `validate` sees its change.
//! - *One winner.* Only the party that unlinks settles, and the lock admits one.
//! - *Lifetimes.* A linked waiter cannot leave, since leaving takes the bucket lock (I7). Once settled, a
//!   kernel thread may be gone at once. So the granter has copied what it needs before: the thread, its
//!   backend, the word's address. A green thread stays until it is woken.
//!
//! **Cost** in read-modify-writes: 1 for a wait and 1 for a grant (the bucket lock); for a kernel thread,
//! each takes 1 more.

use std::cell::Cell;
use std::ptr;

use super::current::current;
use super::mutex_handoff::{HeldMutex, key_of};
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::sleep_word::{CODE_SHIFT, EXPIRED, INTERRUPTED, OnWord, SleepWord};
use super::table;
pub(crate) use super::table::Order;
use super::thread::ThreadRef;
use super::wait::{Wait, WaitError};
pub(crate) use super::waiter::{Grant, Grants, Token};
use super::waiter::{Key, Links, Waiter, grant, settle};
use crate::shim::{UnsafeCell, in_program_order};
use crate::time::Moment;

/// How to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) reason: WaitReason,
    pub(crate) wait: Wait,
    pub(crate) order: Order,
    /// Shown to granters ([`Found::urgent`]).
    pub(crate) urgent: bool,
    /// How much it asks for ([`grant_while`]).
    pub(crate) demand: usize,
    /// Set if a kernel thread may watch its word for a while before it enters the kernel.
    pub(crate) spin: bool,
    /// Set to be told ([`OWNER_DIED`]) of threads that end with robust locks held.
    pub(crate) heir: bool,
}

impl Options {
    /// Creates options for near-LIFO order, without anything special.
    pub(crate) fn new(reason: WaitReason, wait: Wait) -> Self {
        Self { reason, wait, order: Order::NearLifo, urgent: false, demand: 0, spin: true, heir: false }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Woken {
    /// The wait was granted.
    Granted(Token),
    /// The deadline or an interrupt came first. If an interrupt did, the thread's flag is still set
    /// ([`WaitError::reported`]).
    Ended {
        why: WaitError,
        /// Set if the waiter was in another queue by then ([`requeue`]).
        moved: bool,
    },
}

/// Tells a thread that waits with a lock that it has that lock ([`wait_with`]). No primitive uses this
/// value.
pub(crate) const PASSED_ON: Token = Token(u8::MAX - 1);

/// `validate` returned `false`. The thread was not queued, and `before_sleep` did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

/// What a granter finds in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Others wait behind it.
    pub(crate) more: bool,
    /// It asked for special care ([`Options::urgent`]).
    pub(crate) urgent: bool,
}

impl Waiter {
    #[inline]
    pub(super) fn new(thread: ThreadRef, key: usize, options: &Options) -> Self {
        let backend = thread.backend();
        let kernel = thread.is_kernel();
        Self {
            word: SleepWord::new(),
            key: Key::new(key),
            links: UnsafeCell::new(Links::unlinked()),
            thread,
            backend,
            kernel,
            spin: options.spin,
            priority: thread.priority.number(),
            urgent: options.urgent,
            demand: Cell::new(options.demand),
            heir: options.heir,
            far: options.wait.deadline.filter(|_| options.wait.is_far),
        }
    }

    /// Sleeps after it has been linked, as `options` say.
    #[inline]
    pub(super) fn block(&self, options: &Options) {
        options.wait.block(&self.thread, self.backend, self, options.reason);
    }

    /// Sleeps with a lock, which is given up on the way (`mutex_handoff.rs`). The thread is green. Returns
    /// `true` if it has the lock when it wakes.
    #[inline]
    fn block_with(&self, options: &Options, lock: &impl HeldMutex) -> bool {
        debug_assert!(!self.kernel, "a kernel thread unlocks before it waits");
        let handoff = &self.thread.core().handoff;
        handoff.want(key_of(lock));
        self.backend.block_with(&self.thread, self, options.reason, lock);
        handoff.end()
    }
}

impl OnWord for Waiter {
    fn word(&self) -> &SleepWord {
        &self.word
    }

    fn is_kernel(&self) -> bool {
        self.kernel
    }

    fn may_spin(&self) -> bool {
        self.spin
    }

    fn has_far_deadline(&self) -> bool {
        self.far.is_some()
    }

    fn withdraw(&self) -> bool {
        table::unlink_if_linked(self)
    }
}

/// Expires the wait of a green thread if it has a far deadline, and `is_due` accepts that. `is_due` runs with
/// the lock of the bucket held, and only if the thread waits so. Returns `true` if the caller is to make the
/// thread runnable. The thread lives, and its waiter was not moved to another queue.
pub(crate) fn expire_if(thread: ThreadRef, is_due: impl FnOnce(Moment) -> bool) -> bool {
    let key = thread.core().wait_state.key();
    table::with(&NoPreempt::hold(), key, |bucket| {
        let Some(waiter) = bucket.find_thread(key, thread) else { return false };
        // SAFETY: it is linked, so its thread cannot have left. Once unlinked, the thread is green, and stays
        // until it is woken.
        let waiter = unsafe { &*waiter };
        if !waiter.far.is_some_and(is_due) {
            return false;
        }
        // SAFETY: it was found in this bucket, and the lock is held.
        unsafe { bucket.unlink(waiter) };
        waiter.word.settle_for(waiter.kernel, EXPIRED)
    })
}

/// Queues the running thread on `key`, and sleeps until it is granted, expired or interrupted (see the
/// protocol). Called with no queue lock held. `validate` and `before_sleep` must not unwind. If this
/// function unwinds, it does so before it calls them.
#[inline]
pub(crate) fn wait(
    key: usize,
    options: &Options,
    validate: impl FnOnce() -> bool,
    before_sleep: impl FnOnce(),
) -> Result<Woken, Invalid> {
    wait_unless(key, options, || false, validate, before_sleep)
}

/// Waits as [`wait`] does. So that a wait is not refused as endless if the last other thread has ended it
/// since the caller looked, `is_over` looks again. It changes nothing, and says what `validate` denies.
#[inline]
pub(crate) fn wait_unless(
    key: usize,
    options: &Options,
    is_over: impl FnOnce() -> bool,
    validate: impl FnOnce() -> bool,
    before_sleep: impl FnOnce(),
) -> Result<Woken, Invalid> {
    options.wait.check_end_unless(is_over);
    wait_and(
        key,
        options,
        |_| validate(),
        |waiter| {
            before_sleep();
            waiter.block(options);
            None
        },
    )
}

/// Waits as [`wait_unless`] does, if `must_wait`, which only looks.
pub(crate) fn wait_while(
    key: usize,
    options: &Options,
    must_wait: impl Fn() -> bool,
) -> Result<Woken, Invalid> {
    wait_unless(key, options, || !must_wait(), &must_wait, || ())
}

/// Waits as [`wait`] does, with a lock. The lock is released before the sleep. Afterwards it must be
/// acquired, except after [`PASSED_ON`] (`mutex_handoff.rs`). `validate` is told if the thread owns a kernel
/// thread.
#[inline]
pub(crate) fn wait_with(
    key: usize,
    options: &Options,
    validate: impl FnOnce(bool) -> bool,
    lock: &impl HeldMutex,
) -> Result<Woken, Invalid> {
    options.wait.check_end();
    wait_and(key, options, validate, |waiter| {
        let simple = !waiter.kernel && options.wait.is_endless();
        if simple && lock.is_alone() {
            return waiter.block_with(options, lock).then_some(PASSED_ON);
        }
        lock.release();
        waiter.block(options);
        None
    })
}

/// Links a waiter for [`wait`] and [`wait_with`], calls `sleep`, and returns how the wait ended. If `sleep`
/// returns a token, that is the grant. Otherwise the waiter's word says it.
#[inline]
fn wait_and(
    key: usize,
    options: &Options,
    validate: impl FnOnce(bool) -> bool,
    sleep: impl FnOnce(&Waiter) -> Option<Token>,
) -> Result<Woken, Invalid> {
    let me = current();
    let waiter = Waiter::new(me, key, options);
    let validate = || validate(waiter.kernel);
    me.core().wait_state.at(key);
    // Before the bucket's lock: `mxn/timer/alarm.rs`.
    in_program_order();
    // From the linking to the wake-up (I9).
    let no_preempt = NoPreempt::hold();
    let linked = table::with(&no_preempt, key, |bucket| {
        let valid = validate();
        if valid {
            // SAFETY: the lock of the key's bucket is held. The waiter stays where it is until it is
            // unlinked: this frame ends after `block`, which returns after the sleep is over.
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

/// Takes the first waiter off the queue of `key`. Before the waiter is settled, `f` runs with the bucket
/// lock held, and gets what was found. `f` changes the state that `validate` reads. The grant must be woken
/// with no lock held.
#[inline]
pub(crate) fn grant_one(key: usize, f: impl FnOnce(Option<Found>) -> Token) -> Option<Grant> {
    let no_preempt = NoPreempt::hold();
    let settled = table::with(&no_preempt, key, |bucket| {
        let Some((waiter, more)) = bucket.pop(key) else {
            f(None);
            return None;
        };
        // SAFETY: it was linked until a moment ago and is not settled, so its thread cannot have left.
        let urgent = unsafe { (*waiter).urgent };
        let token = f(Some(Found { more, urgent }));
        // SAFETY: unlinked just above, with the lock held.
        Some(unsafe { settle(waiter, token) })
    });
    settled.map(|settled| Grant { settled, _no_preempt: no_preempt })
}

/// Does what [`grant_one`] does. If that waiter came by [`requeue`], up to `others` more of its priority that
/// came in the same way go with it. `kernel` says how many of these may be kernel threads. `told` gets the
/// number of those, and returns what all are told. Neither is asked if the first came by itself.
#[inline]
pub(crate) fn grant_batch(
    key: usize,
    others: usize,
    kernel: impl FnOnce() -> usize,
    told: impl FnOnce(usize) -> Token,
    f: impl FnOnce(Option<Found>) -> Token,
) -> Option<(Grant, Grants)> {
    table::with(&NoPreempt::hold(), key, |bucket| {
        let Some((first, mut more)) = bucket.pop(key) else {
            f(None);
            return None;
        };
        // SAFETY: it was linked until a moment ago and is not settled, so its thread cannot have left.
        let waiter = unsafe { &*first };
        let (moved, urgent, priority) = (waiter.peek(|links| links.moved), waiter.urgent, waiter.priority);
        let mut with_it = ptr::null();
        let mut in_kernel = 0;
        if moved {
            let (kernel, mut left) = (kernel(), others);
            let takes = |waiter: &Waiter| {
                // Waiters that are woken together come in any order.
                let takes = left > 0
                    && waiter.priority == priority
                    && waiter.peek(|links| links.moved)
                    && !(waiter.kernel && in_kernel == kernel);
                left -= usize::from(takes);
                in_kernel += usize::from(takes && waiter.kernel);
                takes
            };
            (with_it, more) = bucket.take_while(key, takes);
        }
        let token = f(Some(Found { more, urgent }));
        // SAFETY: unlinked just above, with the lock held.
        let grant = unsafe { grant(first, token) };
        let told = if moved { told(in_kernel) } else { token };
        Some((grant, Grants { first: with_it, token: told, _no_preempt: NoPreempt::hold() }))
    })
}

/// Takes all waiters off the queue of `key`, if `f` returns `true`. `f` runs with the bucket lock held, even
/// if no thread waits. `f` changes the state that `validate` reads. If it changed before, a thread could see
/// the change, come back, queue again, and get a spurious grant.
#[inline]
pub(crate) fn grant_all(key: usize, token: Token, f: impl FnOnce() -> bool) -> Option<Grants> {
    table::with(&NoPreempt::hold(), key, |bucket| {
        f().then(|| Grants { first: bucket.take_all(key), token, _no_preempt: NoPreempt::hold() })
    })
}

/// Begins to fetch the bucket of `key`.
#[inline]
pub(crate) fn fetch(key: usize) {
    table::fetch(key);
}

/// Takes waiters off the queue of `key` in turn, for as long as `takes` accepts the demand of the next one.
/// All three closures run with the bucket lock held: `begin` first, `done` last. `done` is told if waiters
/// are left, and changes the state that `validate` reads.
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
        let (first, more) = bucket.take_while(key, |waiter| takes(&mut state, waiter.demand.get()));
        done(state, more);
        (!first.is_null()).then(|| Grants { first, token, _no_preempt: NoPreempt::hold() })
    })
}

/// Runs `f` with the bucket lock held, if no thread waits on `key`.
pub(crate) fn if_empty(key: usize, f: impl FnOnce()) {
    table::with(&NoPreempt::hold(), key, |bucket| {
        if bucket.is_empty(key) {
            f();
        }
    });
}

/// Tells heirs that a thread has ended with robust locks held (`robust.rs`). Each looks whether that was the
/// owner that it waits for. No primitive uses this value.
pub(crate) const OWNER_DIED: Token = Token(u8::MAX);

/// Takes all heirs off their queues, and wakes them.
pub(crate) fn wake_heirs() {
    let grants = |first| Grants { first, token: OWNER_DIED, _no_preempt: NoPreempt::hold() };
    table::take::from_all(|waiter| waiter.heir, |first| _ = grants(first).wake_all());
}

/// Moves the waiters of `from` to the back of the queue of `to`, in their order, if `f` returns `true`. `f`
/// runs with both bucket locks held, and is told whether any thread waits. Returns how many waiters were
/// moved.
pub(crate) fn requeue(from: usize, to: usize, f: impl FnOnce(bool) -> bool) -> usize {
    table::pair::with(from, to, |buckets| if f(buckets.has_waiters()) { buckets.move_all() } else { 0 })
}

/// Takes at most `most` waiters off the queue of `key`. `accepts` says, by its demand, whether a waiter is
/// meant; without it, all are, in turn. Returns them, and how many they are.
pub(crate) fn grant_some(
    key: usize,
    token: Token,
    most: usize,
    accepts: Option<&dyn Fn(usize) -> bool>,
) -> (Grants, usize) {
    table::with(&NoPreempt::hold(), key, |bucket| {
        let (first, count) = match accepts {
            None => bucket.take_up_to(key, most),
            Some(accepts) => bucket.take_chosen(key, most, |waiter| accepts(waiter.demand.get())),
        };
        (Grants { first, token, _no_preempt: NoPreempt::hold() }, count)
    })
}

/// Takes at most `woken` waiters off the queue of `from`, and moves at most `moved` others to the back of
/// that of `to`. Does so only if `f` returns `true`; `f` runs with both bucket locks held. Returns the first,
/// their number, and the number of the others.
pub(crate) fn grant_and_requeue(
    (from, woken): (usize, usize),
    (to, moved): (usize, usize),
    token: Token,
    f: impl FnOnce() -> bool,
) -> Option<(Grants, usize, usize)> {
    table::pair::with(from, to, |buckets| {
        f().then(|| {
            let (first, woken, moved) = buckets.wake_and_move(woken, moved);
            (Grants { first, token, _no_preempt: NoPreempt::hold() }, woken, moved)
        })
    })
}

#[inline]
pub(super) fn outcome(word: &SleepWord, moved: impl FnOnce() -> bool) -> Woken {
    let word = word.outcome();
    match word & 0xFF {
        EXPIRED => Woken::Ended { why: WaitError::TimedOut, moved: moved() },
        INTERRUPTED => Woken::Ended { why: WaitError::Interrupted, moved: moved() },
        _ => Woken::Granted(Token((word >> CODE_SHIFT) as u8)),
    }
}

#[cfg(test)]
mod random_tests;

#[cfg(all(test, loom))]
mod loom_queue;
