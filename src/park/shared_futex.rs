//! Sleeping on a word that several processes map.
//!
//! **Problem.** The wait queue belongs to one process, so only the kernel can queue threads of several
//! processes. There a thread sleeps on the word itself, a futex that is found by what is mapped there. That
//! blocks the kernel thread, and an LWP with it. A thousand green threads at one lock would take a thousand
//! LWPs.
//!
//! **Rejected.**
//!
//! - *A kernel thread that waits for all words* (`futex_waitv`). It can wait for 128 words, and each green
//!   thread that comes or goes must wake it.
//! - *To count wake-ups beside the word*, so that a process knows which ones it has missed. A thread that has
//!   released a lock must not touch its memory: the next owner may have unmapped it.
//!
//! **Protocol.** Kernel threads sleep in the kernel. Green threads wait in two queues of this process, under
//! the word's address. One of them has the *seat*; the others are *followers*, and block nothing.
//!
//! 1. *Wait.* With the lock of the queues held, a green thread looks at the state ([`Awaited::look`]). If it
//!    must wait, it takes the seat, or follows if the seat is taken.
//! 2. *The seat.* Its thread sleeps in the kernel, for the whole process, and its LWP with it. If the last
//!    owner was of this process ([`How::near`]), the thread first *scouts*: it sleeps in the queue, as
//!    followers do, for [`SCOUTING`] at most.
//! 3. *Wake.* The waker changes the state first. It grants followers, then a scout, and asks the kernel for
//!    as many as are still to be woken. Every 64th time of a thread it asks the kernel first.
//! 4. *Leave.* A thread that leaves the seat by itself passes it on. It unlinks itself, and wakes the first
//!    follower as the *heir*. The heir goes on with 1. If it need not wait after all, or if its deadline has
//!    passed, it passes the seat on in turn. It does not if another thread has taken the seat.
//!
//! **What a lock must do for that.** A wake-up that finds no thread in the kernel is not kept. Neither is one
//! that comes while the seat is empty, or has a scout. So a look must see by the state alone whether a wait
//! is over. If a change of the state is enough for one waiter, that waiter must see to the rest. It does so
//! by its own wake-ups, or by the state that it leaves behind.
//!
//! **Proof** that no wake-up is lost.
//!
//! - *A waker of this process, at this address.* Its critical section comes after its change. A waiter that
//!   looks later sees the change. One that has looked before is linked, and is found. Or it was taken off its
//!   queue as an heir, or by its deadline as a scout. Then it has yet to look.
//! - *Any other waker.* It finds the thread in the seat asleep in the kernel. Or that thread has yet to
//!   compare the word, or it is a scout, which looks soon. Or the seat is empty; then no thread follows, or
//!   an heir has yet to look. The same memory may be mapped at two addresses: then each address has a seat.
//! - *Followers have an heir.* A thread leaves the seat with the lock held, so it sees all followers. Only a
//!   waker takes a thread out of the seat, a scout, and only if no thread follows.
//!
//! **Order.** Wakers of a process prefer its own green threads. Of 64 wake-ups that one thread makes, one
//! goes to the kernel first: to other processes, kernel threads, and the thread in the seat. The kernel
//! serves processes in turn, each with one seat, whatever the number of its followers.
//!
//! **Death.** If a process is killed, its queues end with it. If its thread in the seat had just been woken,
//! that wake-up is lost. So threads in the kernel that must survive this nap, and look again ([`How::nap`]).
//!
//! Without a futex, a wake reaches threads of the same process only ([`ACROSS_PROCESSES`]). So threads that
//! sleep in the kernel nap, and look at their words.

use std::ptr;
use std::time::Duration;

use super::current::current;
use super::futex::{in_order, is_kernel_first};
use super::interrupt;
use super::no_preempt::NoPreempt;
use super::reason::WaitReason;
use super::spin::{GREEN_LOOKS, Spin};
use super::table::Order;
use super::thread::ThreadRef;
use super::wait::{Wait, WaitError};
use super::wait_queue::{Options, Woken, outcome};
use super::waiter::{Grant, Grants, Token, Waiter};
use super::word_queues::{self, FOLLOWERS, Queues, SEAT};
use crate::shim::atomic::AtomicU32;
use crate::shim::futex;
pub(crate) use crate::shim::futex::{ACROSS_PROCESSES, Waited};
use crate::time::{self, Moment};

/// How often a green thread lets others of its LWP run before it waits. The thread that it waits for is often
/// among them.
const YIELDS: u32 = 8;

/// How long a thread in the seat waits for threads of its own process before it blocks its LWP. To block it
/// costs about 50 us. A wake-up from another process may come late by as much.
const SCOUTING: Duration = Duration::from_micros(100);

/// The longest sleep in the kernel of a thread that an interrupt, or another process, cannot wake.
pub(crate) const LONGEST_NAP: Duration = Duration::from_millis(80);

/// The wait is over.
const WOKEN: Token = Token(0);
/// The follower is the heir of the seat.
const HEIR: Token = Token(1);

/// What threads wait for in a word. Looks neither wait nor unwind: the lock of the word's queues may be held.
pub(crate) trait Awaited {
    /// Returns the word.
    fn word(&self) -> &AtomicU32;

    /// Returns the word's value if the thread must sleep until it changes, and `None` if the wait is over.
    /// May say in the word that a thread sleeps.
    fn look(&mut self) -> Option<u32>;

    /// Returns `true` if the caller must see to something. Called after a nap, without a lock held.
    fn needs_care(&mut self) -> bool {
        false
    }

    /// Returns how many waiters of this process the last look has set free, the caller included. Called if
    /// the caller had the seat.
    fn due(&self) -> usize {
        1
    }

    /// Returns what the last look has found, for the heir.
    fn found(&self) -> u32 {
        0
    }

    /// Takes over what the last thread in the seat has found: all that came before is settled.
    fn inherit(&mut self, _found: u32) {}
}

/// How to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) wait: Wait,
    /// How long a thread sleeps in the kernel before it looks again. Each nap is twice as long as the last.
    pub(crate) nap: Option<Duration>,
    /// Set if a thread of this process is likely to end the wait.
    pub(crate) near: bool,
}

/// Returns the sooner of two deadlines, and `true` if that is the first.
fn sooner(first: Option<Moment>, second: Option<Moment>) -> (Option<Moment>, bool) {
    match (first, second) {
        (Some(first), Some(second)) => (Some(first.min(second)), first < second),
        (first, second) => (first.or(second), first.is_some()),
    }
}

/// Waits a little for `done`, without the kernel. Returns `false` if it did not come.
pub(crate) fn wait_awake(mut done: impl FnMut() -> bool) -> bool {
    let me = current();
    if me.is_kernel() {
        let mut spin = Spin::new(GREEN_LOOKS);
        while spin.pause() {
            if done() {
                return true;
            }
        }
        return false;
    }
    (0..YIELDS).any(|_| {
        me.backend().yield_now(&me);
        done()
    })
}

/// Sleeps until the wait is over, as far as a look or a waker can tell, or until `how` ends it. The result is
/// `TimedOut` also after an interrupt, which the caller takes, and after a nap if the caller must see to
/// something.
pub(crate) fn wait(awaited: &mut impl Awaited, how: How) -> Waited {
    let me = current();
    if me.is_kernel() {
        return awaited.look().map_or(Waited::Woken, |value| sleep_in_kernel(me, awaited, value, how));
    }
    wait_in_queues(me, awaited, how)
}

/// Wakes up to `n` threads, of any process, that wait for the word. The caller has changed it. The word may
/// be gone by now: the kernel then wakes no thread.
pub(crate) fn wake(word: *const AtomicU32, n: u32) {
    wake_in_order(is_kernel_first(), word, n);
}

/// Wakes one waiter, as [`wake`] does. If it is a green thread of this process, the word need not change:
/// its waits end without a look. Otherwise `change` changes it first.
pub(crate) fn wake_one_after(word: *const AtomicU32, change: impl FnOnce()) {
    let kernel_first = is_kernel_first();
    if kernel_first || wake_queued(word.addr(), 1) == 0 {
        change();
        wake_in_order(kernel_first, word, 1);
    }
}

fn wake_in_order(kernel_first: bool, word: *const AtomicU32, n: u32) {
    let queues = |most| wake_queued(word.addr(), most);
    let kernel = |most| futex::wake_shared(word, u32::try_from(most).unwrap_or(u32::MAX));
    in_order(kernel_first, n as usize, queues, kernel);
}

/// Sleeps while the word has `value`, or another value with which the thread must sleep.
fn sleep_in_kernel(me: ThreadRef, awaited: &mut impl Awaited, mut value: u32, how: How) -> Waited {
    let How { wait, nap, .. } = how;
    // No other thread can wake it for an interrupt, nor can another process without a futex.
    let looks = wait.interruptible || !ACROSS_PROCESSES;
    let mut nap = nap.or(looks.then_some(LONGEST_NAP));
    loop {
        let (until, naps) = sooner(nap.and_then(time::after), wait.deadline);
        let waited = futex::wait_shared(awaited.word(), value, until);
        match awaited.look() {
            Some(now) => value = now,
            None => return Waited::Woken,
        }
        if waited == Waited::TimedOut {
            let ends = !naps || wait.interruptible && interrupt::is_pending(me);
            if ends || awaited.needs_care() {
                return Waited::TimedOut;
            }
            nap = nap.map(|nap| LONGEST_NAP.min(2 * nap));
        }
    }
}

/// Does step 3 for up to `most` green threads. Returns how many were woken.
fn wake_queued(at: usize, most: usize) -> usize {
    let (followers, count, scout) = word_queues::with(at, |queues| {
        let (followers, count) = queues.grant_some(FOLLOWERS, WOKEN, most);
        let scouts = count < most && queues.first(SEAT).is_some_and(|first| !first.urgent);
        (followers, count, if scouts { queues.grant_one(SEAT, WOKEN) } else { None })
    });
    let count = count + usize::from(scout.is_some());
    followers.wake_all();
    if let Some(scout) = scout {
        scout.wake();
    }
    count
}

/// What a thread is after step 1.
enum Role {
    /// It need not wait. If it was on duty, it has passed the seat on.
    Free(Option<Passed>),
    Follows,
    Scouts,
    /// It is to sleep in the kernel while the word has this value.
    Leads(u32),
}

/// Threads that a thread which leaves the seat has taken off the queue.
struct Passed {
    due: Grants,
    heir: Option<Grant>,
}

impl Passed {
    fn wake(self) {
        self.due.wake_all();
        if let Some(heir) = self.heir {
            heir.wake();
        }
    }
}

/// Does step 4 for a thread that had the seat, or was its heir.
fn pass_on(queues: &mut Queues<'_>, awaited: &impl Awaited) -> Passed {
    let (due, _) = queues.grant_some(FOLLOWERS, WOKEN, awaited.due().saturating_sub(1));
    let is_empty = queues.first(SEAT).is_none();
    let heir = if is_empty { queues.grant_one_told(FOLLOWERS, HEIR, awaited.found() as usize) } else { None };
    Passed { due, heir }
}

/// Takes a last look for a thread that leaves the seat because of the time or an interrupt, and passes the
/// seat on.
fn give_up(at: usize, awaited: &mut impl Awaited, before: impl FnOnce(&mut Queues<'_>)) -> Waited {
    let (waited, passed) = word_queues::with(at, |queues| {
        before(queues);
        let waited = if awaited.look().is_none() { Waited::Woken } else { Waited::TimedOut };
        (waited, pass_on(queues, awaited))
    });
    passed.wake();
    waited
}

/// Does steps 1, 2 and 4 for a green thread.
fn wait_in_queues(me: ThreadRef, awaited: &mut impl Awaited, how: How) -> Waited {
    let at = ptr::from_ref(awaited.word()).addr();
    let mut scouts = how.near;
    // It had the seat, or is its heir.
    let mut on_duty = false;
    loop {
        let order = if on_duty { Order::Again } else { Order::Fifo };
        let options = Options { spin: false, urgent: !scouts, ..Options::new(WaitReason::Futex, how.wait) };
        let scouting = if scouts { time::after(SCOUTING) } else { None };
        let (scouting, goes_on) = sooner(scouting, how.wait.deadline);
        // From the linking to the wake-up (I9).
        let no_preempt = NoPreempt::hold();
        let waiter = Waiter::new(me, at, &options);
        let role = word_queues::with(at, |queues| {
            let Some(value) = awaited.look() else {
                return Role::Free(on_duty.then(|| pass_on(queues, awaited)));
            };
            let takes = queues.first(SEAT).is_none();
            // SAFETY: it is new, and stays in this frame until it is unlinked. A waker or its deadline
            // unlinks it if it sleeps in the queue, and `lead` otherwise.
            unsafe { queues.link(&waiter, if takes { SEAT } else { FOLLOWERS }, order) };
            match (takes, scouts) {
                (false, _) => Role::Follows,
                (true, true) => Role::Scouts,
                (true, false) => Role::Leads(value),
            }
        });
        me.core().wait_state.at(waiter.key());
        match role {
            Role::Free(passed) => {
                if let Some(passed) = passed {
                    passed.wake();
                }
                return Waited::Woken;
            }
            Role::Leads(value) => {
                // No thread will wake it but the kernel.
                drop(no_preempt);
                return lead(me, &waiter, awaited, value, how);
            }
            Role::Follows => waiter.block(&options),
            Role::Scouts => {
                waiter.block(&Options { wait: Wait { deadline: scouting, ..how.wait }, ..options });
            }
        }
        drop(no_preempt);
        match (outcome(&waiter.word, || false), role) {
            (Woken::Granted(WOKEN), _) => return Waited::Woken,
            (Woken::Granted(_), _) => {
                awaited.inherit(waiter.demand.get() as u32);
                on_duty = true;
            }
            (Woken::Ended { why: WaitError::TimedOut, .. }, Role::Scouts) if goes_on => {
                on_duty = true;
                scouts = false;
            }
            (Woken::Ended { .. }, Role::Scouts) => return give_up(at, awaited, |_| ()),
            (Woken::Ended { .. }, _) => return Waited::TimedOut,
        }
    }
}

/// Sleeps in the kernel for the green threads of this process, of which the caller, in the seat, is one.
fn lead(me: ThreadRef, waiter: &Waiter, awaited: &mut impl Awaited, value: u32, how: How) -> Waited {
    let at = ptr::from_ref(awaited.word()).addr();
    // SAFETY: the caller has linked it, and no other thread unlinks a waiter that is to sleep in the kernel.
    let unlink = |queues: &mut Queues<'_>| unsafe { queues.unlink(waiter) };
    if time::has_passed(how.wait.deadline) {
        // The heirs of a late thread may be late, too. None of them need give its slot away.
        return give_up(at, awaited, unlink);
    }
    me.backend().enter_blocking(&me);
    let waited = sleep_in_kernel(me, awaited, value, how);
    let now = give_up(at, awaited, unlink);
    // The seat is passed on by now: the thread may have to wait for a slot.
    me.backend().exit_blocking(&me);
    if waited == Waited::Woken { waited } else { now }
}

#[cfg(all(test, loom))]
mod loom_shared_futex;
