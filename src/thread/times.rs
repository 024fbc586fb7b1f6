//! How long a thread has been in each state, as its account says.

use std::time::Duration;

use super::info::ThreadState;
use crate::park::reason::WaitReason;
use crate::recorder::account::{STATES, State, Statement};
use crate::recorder::clock::{self, Scale};
use crate::recorder::session;

/// How long a thread has been in each state, while [times are counted](crate::trace::Level::Times).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadTimes {
    /// How much of its life is accounted for: since it began, or since the counting did. It is the sum of
    /// `states`, but for rounding.
    pub life: Duration,
    /// By state, in the order of [`trace::State::ALL`](crate::trace::State::ALL).
    pub states: [Duration; 6],
    /// How long it has been in its present state.
    pub since: Duration,
    /// How often it began to run.
    pub dispatches: u64,
    /// How often its slice was over.
    pub preempted: u32,
    /// How often it began to run on another LWP than before.
    pub migrations: u64,
    /// The CPU where it last began to run; `None` if it has not yet, or if the system does not say. The
    /// kernel may have moved its kernel thread since.
    pub cpu: Option<u32>,
}

/// Converts what accounts say, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimesNow {
    scale: Scale,
    /// How long the session has lasted, in counts.
    session: u64,
}

impl TimesNow {
    /// Returns `None` if no times were ever counted.
    pub(crate) fn take() -> Option<Self> {
        let session = clock::now().saturating_sub(session::current().began);
        Some(Self { scale: Scale::at_once()?, session })
    }

    fn span(&self, counts: u64) -> Duration {
        Duration::from_nanos(self.scale.span(counts))
    }

    /// Returns the times of a thread with this account.
    pub(crate) fn times(&self, statement: &Statement) -> ThreadTimes {
        let Statement { life, since, times, dispatches, preempted, migrations, cpu, .. } = *statement;
        ThreadTimes {
            life: self.span(life),
            states: times.map(|counts| self.span(counts)),
            since: self.span(since),
            dispatches,
            preempted,
            migrations,
            cpu,
        }
    }

    /// Returns the times of a thread that has been in one state since the counting began.
    pub(crate) fn unchanged(&self, state: ThreadState) -> ThreadTimes {
        let state = match state {
            ThreadState::Running { .. } => State::Running,
            ThreadState::InKernel { .. } => State::InKernel,
            ThreadState::Dispatchable { .. } => State::Dispatchable,
            ThreadState::Runnable => State::Queued,
            ThreadState::Waiting { reason: WaitReason::Sleep, .. } => State::Sleeping,
            ThreadState::Waiting { .. } => State::Blocked,
        };
        let mut times = [0; STATES];
        times[state as usize] = self.session;
        let (life, since) = (self.session, self.session);
        self.times(&Statement {
            life,
            state,
            since,
            times,
            dispatches: 0,
            preempted: 0,
            migrations: 0,
            maker: 0,
            cpu: None,
        })
    }
}
