//! The account of one thread: how long it has been in each state.
//!
//! **Problem.** A thread's states are changed by several threads: one LWP stops it, a waker makes it
//! runnable, another LWP runs it. The waker comes at any time after the thread is published as asleep, also
//! before its LWP has left its stack. A look from outside must not add up half of a change.
//!
//! **Protocol.** The *keeper* of an account is the code that stops or runs the thread. At any moment there is
//! one: the thread's `mounted` flag passes the account on. Only a keeper charges time. A waker stores the
//! time into `ready`, a word of its own, and nothing else. The next keeper, which runs the thread, divides
//! the time since the thread stopped: until `ready` it was blocked, and from then on runnable. A `ready` from
//! before the thread last ran belongs to an earlier wake-up. One from between that and the stop came from a
//! waker that was early, so the thread was not blocked at all.
//!
//! A look checks `version`, which is odd while a keeper changes the account. All times that were charged, and
//! the time since the last charge, add up to the life of the thread exactly.
//!
//! **Session.** If the accounting is off and then on again, no keeper has seen what happened meanwhile. So
//! each account has the number of the session to which its times belong. The first keeper of another session
//! begins it anew.

use std::num::NonZeroU64;

use super::event::{cpu_of_word, cpu_to_word};
use super::session::Session;
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use crate::shim::{spin_hint, yield_cpu};

/// What a thread does, as far as times are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum State {
    /// It has an LWP.
    Running,
    /// It is runnable, and an LWP was chosen for it.
    Dispatchable,
    /// It is runnable, in a run queue.
    Queued,
    /// It waits.
    Blocked,
    /// It waits for a time to pass.
    Sleeping,
    /// It has an LWP, and has announced that it may block in the kernel.
    InKernel,
}

/// The number of states.
pub(crate) const STATES: usize = 6;

impl State {
    pub(crate) const ALL: [Self; STATES] =
        [Self::Running, Self::Dispatchable, Self::Queued, Self::Blocked, Self::Sleeping, Self::InKernel];

    fn waits(self) -> bool {
        matches!(self, Self::Blocked | Self::Sleeping)
    }
}

/// The account of one thread.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Account {
    /// Odd while a keeper changes it.
    version: AtomicU32,
    session: AtomicU32,
    /// When the accounted part of the thread's life began.
    began: AtomicU64,
    /// When the state began.
    since: AtomicU64,
    /// When the thread last began to run.
    ran: AtomicU64,
    state: AtomicU8,
    /// The LWP that it last ran on.
    lwp: AtomicU32,
    /// The CPU where it last began to run, as events have it.
    cpu: AtomicU32,
    preempted: AtomicU32,
    /// A thread may be dispatched 2^32 times in an hour.
    dispatches: AtomicU64,
    migrations: AtomicU64,
    /// The identity of the thread that started this one in this session; 0: not known.
    maker: AtomicU64,
    times: [AtomicU64; STATES],
    /// When a waker last made it runnable, times two; plus one if an LWP was chosen.
    ready: AtomicU64,
}

/// What an account says at one moment. Times are counts of `recorder::clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// The time that is accounted for: the sum of `times`.
    pub(crate) life: u64,
    pub(crate) state: State,
    /// How long it has been in that state.
    pub(crate) since: u64,
    /// By [`State`].
    pub(crate) times: [u64; STATES],
    pub(crate) dispatches: u64,
    pub(crate) preempted: u32,
    pub(crate) migrations: u64,
    /// The identity of the thread that started it; 0: not known.
    pub(crate) maker: u64,
    /// The CPU where it last began to run, if that is known.
    pub(crate) cpu: Option<u32>,
}

const NO_LWP: u32 = u32::MAX;

/// The LWP of a thread that owns a kernel thread.
pub(crate) const ITS_OWN: u32 = u32::MAX - 1;

/// What a look at an account finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The account has nothing of this session: no keeper has been there.
    Unchanged,
    /// A keeper is in the middle of a change. It may have lost its CPU there.
    Busy,
    /// What the account says.
    Says(Statement),
}

impl Look {
    /// Returns the identity of the thread that started the one with the account, if that is known.
    pub(crate) fn maker(self) -> Option<NonZeroU64> {
        match self {
            Self::Says(statement) => NonZeroU64::new(statement.maker),
            Self::Unchanged | Self::Busy => None,
        }
    }
}

/// How often a look begins again at once, if keepers change the account meanwhile.
const LOOKS: u32 = 64;

/// How often it lets others use the CPU after that, before it gives up.
const YIELDS: u32 = 64;

impl Account {
    /// Creates an account. It belongs to no session, so the first keeper begins it.
    pub(crate) fn new() -> Self {
        Self {
            version: AtomicU32::default(),
            session: AtomicU32::default(),
            began: AtomicU64::default(),
            since: AtomicU64::default(),
            ran: AtomicU64::default(),
            state: AtomicU8::default(),
            lwp: AtomicU32::from(NO_LWP),
            cpu: AtomicU32::default(),
            preempted: AtomicU32::default(),
            dispatches: AtomicU64::default(),
            migrations: AtomicU64::default(),
            maker: AtomicU64::default(),
            times: Default::default(),
            ready: AtomicU64::default(),
        }
    }

    /// Lets the account belong to no session, so that the first keeper begins it. Called while it has no
    /// keeper.
    pub(crate) fn forget(&self) {
        // Relaxed: looks check the version.
        self.change(|| self.session.store(0, Ordering::Relaxed));
    }

    /// Begins the account of a new thread, which is runnable, and was started by the thread `maker` (0: not
    /// known). Keeper only.
    pub(crate) fn spawned(&self, session: Session, now: u64, maker: u64) {
        self.change(|| {
            self.begin(session, now, State::Queued);
            // Relaxed: looks check the version.
            self.maker.store(maker, Ordering::Relaxed);
        });
    }

    /// Notes that a thread was woken. `chosen`: an LWP was chosen for it. Called by the waker.
    #[inline]
    pub(crate) fn readied(&self, now: u64, chosen: bool) {
        // Relaxed: only times. What passes the thread on orders it.
        self.ready.store(now << 1 | u64::from(chosen), Ordering::Relaxed);
    }

    /// Returns `now`, or the time at which the thread last stopped or was woken, if that is later. A keeper
    /// may have read the clock before it got the thread. Keeper only.
    pub(crate) fn not_before(&self, now: u64) -> u64 {
        // Relaxed, both: what passed the thread on orders them.
        now.max(self.since.load(Ordering::Relaxed)).max(self.ready.load(Ordering::Relaxed) >> 1)
    }

    /// Notes that the thread begins to run, on this LWP and this CPU. Returns for how long it was runnable
    /// until then, if that is known. Keeper only.
    pub(crate) fn runs(&self, session: Session, now: u64, lwp: u32, cpu: Option<u32>) -> Option<u64> {
        let mut waited = None;
        self.change(|| {
            let is_known = self.enter_runnable(session, lwp);
            waited = self.charge_wait(now).filter(|_| is_known);
            self.set_state(State::Running, now);
            // Relaxed, all: the keeper's own, and looks check the version.
            self.ran.store(now, Ordering::Relaxed);
            self.cpu.store(cpu_to_word(cpu), Ordering::Relaxed);
            add(&self.dispatches);
            let last = self.lwp.load(Ordering::Relaxed);
            if last != lwp {
                self.lwp.store(lwp, Ordering::Relaxed);
                if last != NO_LWP {
                    add(&self.migrations);
                }
            }
        });
        waited
    }

    /// Notes that the thread stops running, and is in `state` then. Keeper only.
    pub(crate) fn stops(&self, session: Session, now: u64, state: State, preempted: bool) {
        self.change(|| {
            self.enter_session(session, State::Running);
            self.charge(self.state(), now);
            self.set_state(state, now);
            if preempted {
                // Relaxed: the keeper's own. There is one in a slice at most.
                self.preempted
                    .store(self.preempted.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            }
        });
    }

    /// Notes that the running thread enters or leaves a region that announced blocking. Keeper only.
    pub(crate) fn in_kernel(&self, session: Session, now: u64, enters: bool) {
        self.stops(session, now, if enters { State::InKernel } else { State::Running }, false);
    }

    /// Looks at the account. Any thread may call it, but no dispatcher.
    pub(crate) fn look(&self, session: Session, now: u64) -> Look {
        for look in 0..LOOKS + YIELDS {
            if let Some(seen) = self.look_once(session, now) {
                return seen.map_or(Look::Unchanged, Look::Says);
            }
            if look < LOOKS { spin_hint() } else { yield_cpu() }
        }
        Look::Busy
    }

    /// Does so once. Returns `None` if the account is being changed.
    fn look_once(&self, session: Session, now: u64) -> Option<Option<Statement>> {
        // Acquire: pairs with the end of `change`.
        let version = self.version.load(Ordering::Acquire);
        if !version.is_multiple_of(2) {
            return None;
        }
        let seen = self.read(session, now);
        // Acquire: pairs with the fence of `change`.
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some(seen)
    }

    /// Reads everything, each word once. Relaxed, all: `look_once` checks the version. Until then, words of
    /// two changes may stand beside each other, and the sums are nonsense. They must not overflow.
    fn read(&self, session: Session, now: u64) -> Option<Statement> {
        if self.session.load(Ordering::Relaxed) != session.number {
            return None;
        }
        let mut times = self.times.each_ref().map(|time| time.load(Ordering::Relaxed));
        let (state, since) = (self.state(), self.since.load(Ordering::Relaxed));
        let now = now.max(since);
        let (turned, then) = self.turned(state, since, now);
        times[state as usize] += turned - since;
        times[then as usize] += now - turned;
        let (state, since) = if then == state { (state, since) } else { (then, turned) };
        Some(Statement {
            life: now.saturating_sub(self.began.load(Ordering::Relaxed)),
            state,
            since: now - since,
            times,
            dispatches: self.dispatches.load(Ordering::Relaxed),
            preempted: self.preempted.load(Ordering::Relaxed),
            migrations: self.migrations.load(Ordering::Relaxed),
            maker: self.maker.load(Ordering::Relaxed),
            cpu: cpu_of_word(self.cpu.load(Ordering::Relaxed)),
        })
    }

    /// Runs `f`, which changes the account. Keeper only.
    #[inline]
    fn change(&self, f: impl FnOnce()) {
        // Relaxed: the keeper's own.
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // Release: a look that finds a word of this change finds the odd version, or a later one.
        fence(Ordering::Release);
        f();
        // Release: a look that finds this version finds the whole change.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// Begins the account, if it is of another session.
    fn enter_session(&self, session: Session, state: State) {
        if self.session.load(Ordering::Relaxed) != session.number {
            self.begin(session, session.began, state);
        }
    }

    /// Begins the account of a thread that is runnable, if it is of another session. Returns `true` if it is
    /// known since when the thread is runnable.
    fn enter_runnable(&self, session: Session, lwp: u32) -> bool {
        if self.session.load(Ordering::Relaxed) == session.number {
            return true;
        }
        // What it did before the session is not known. If it was woken since, it waited until then. So did a
        // kernel thread without a waker: its time was over.
        let ready = self.ready.load(Ordering::Relaxed);
        let was_woken = ready >> 1 >= session.began;
        let has_waited = was_woken || lwp == ITS_OWN;
        self.begin(session, session.began, if has_waited { State::Blocked } else { State::Queued });
        if was_woken {
            self.ready.store(ready, Ordering::Relaxed);
        }
        was_woken
    }

    fn begin(&self, session: Session, now: u64, state: State) {
        // Relaxed, here and below: the keeper's own, and looks check the version.
        self.session.store(session.number, Ordering::Relaxed);
        self.began.store(now, Ordering::Relaxed);
        self.ran.store(now, Ordering::Relaxed);
        self.ready.store(0, Ordering::Relaxed);
        self.lwp.store(NO_LWP, Ordering::Relaxed);
        self.maker.store(0, Ordering::Relaxed);
        for counter in [&self.cpu, &self.preempted] {
            counter.store(0, Ordering::Relaxed);
        }
        for counter in [&self.dispatches, &self.migrations] {
            counter.store(0, Ordering::Relaxed);
        }
        self.times.iter().for_each(|time| time.store(0, Ordering::Relaxed));
        self.since.store(now, Ordering::Relaxed);
        self.set_state(state, now);
    }

    fn state(&self) -> State {
        State::ALL[usize::from(self.state.load(Ordering::Relaxed))]
    }

    /// Enters a state. The keeper's clock may be behind that of the last keeper, or a little old. What has
    /// been charged is not charged again.
    fn set_state(&self, state: State, now: u64) {
        self.state.store(state as u8, Ordering::Relaxed);
        self.since.store(now.max(self.since.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Charges the time since the last charge to `state`.
    fn charge(&self, state: State, now: u64) {
        let spent = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let time = &self.times[state as usize];
        time.store(time.load(Ordering::Relaxed) + spent, Ordering::Relaxed);
    }

    /// Charges the time since the thread stopped. Returns for how long it was runnable, if it was.
    fn charge_wait(&self, now: u64) -> Option<u64> {
        let (state, since) = (self.state(), self.since.load(Ordering::Relaxed));
        let (turned, then) = self.turned(state, since, now);
        self.charge(state, turned);
        // Not before the last change: the counters of two CPUs may differ by a little.
        let turned = turned.max(since);
        self.since.store(turned, Ordering::Relaxed);
        self.charge(then, now);
        let began = if then == state { since } else { turned };
        matches!(then, State::Dispatchable | State::Queued).then(|| now.saturating_sub(began))
    }

    /// Returns when a waker ended `state`, which began at `since`, and what the thread does from then on. If
    /// none has, that is now, and the same state.
    fn turned(&self, state: State, since: u64, now: u64) -> (u64, State) {
        let ready = self.ready.load(Ordering::Relaxed);
        let (ready, chosen) = (ready >> 1, ready & 1 == 1);
        // A kernel thread may run before its waker has told of the wake-up, and wait again. So a wake-up from
        // before this wait may be that of the last one. If it is not, the thread does not sleep.
        let is_late = ready < since && self.lwp.load(Ordering::Relaxed) == ITS_OWN;
        if !state.waits() || ready < self.ran.load(Ordering::Relaxed) || is_late {
            return (now, state);
        }
        let then = if chosen { State::Dispatchable } else { State::Queued };
        (ready.clamp(since, now.max(since)), then)
    }
}

/// Adds one to a counter of the keeper.
fn add(counter: &AtomicU64) {
    // Relaxed: one thread at a time writes.
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(all(test, loom))]
mod loom_account;
#[cfg(all(test, loom))]
mod loom_passing;

#[cfg(test)]
mod tests;
