//! Receivers of moments: no thread sends, the clock does.
//!
//! A thread that receives sleeps until the moment by itself, with its own deadline. It then sees if the
//! message is still there: clones of a receiver share it. So nothing is queued, and no thread is needed
//! to send.

use std::time::{Duration, Instant};

use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::reason::WaitReason;
use crate::park::sleeper::{How, Sleeper, Slept};
use crate::park::wait::{Wait, WaitError};
use crate::time::{self, Moment};

pub(super) struct Clock {
    /// The moment of the next message; `None`: never. The lock is taken under those of channels that are
    /// selected together.
    next: QueueLock<Option<Moment>>,
    /// The time between messages; `None`: there is one message only.
    period: Option<Duration>,
}

impl Clock {
    pub(super) fn new(first: Moment, period: Option<Duration>) -> Self {
        Self { next: QueueLock::new(Rank::Pool, Some(first)), period }
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.next.with(|next| *next)
    }

    pub(super) fn has_struck(&self) -> bool {
        time::has_passed(self.next())
    }

    /// Takes the message, if it is there.
    pub(super) fn take(&self) -> Option<Instant> {
        let seen = self.next();
        if !time::has_passed(seen) {
            return None;
        }
        let now = time::now();
        self.next.with(|next| {
            let struck = next.filter(|&next| next <= now)?;
            *next = self.period.and_then(|period| following(struck, now, period));
            struck.instant()
        })
    }

    pub(super) fn receive(&self, wait: Option<Wait>) -> Result<Instant, WaitError> {
        loop {
            if let Some(message) = self.take() {
                return Ok(message);
            }
            let Some(wait) = wait.filter(|wait| !time::has_passed(wait.deadline)) else {
                return Err(WaitError::TimedOut);
            };
            // Both were ahead a moment ago.
            let deadline = earlier(self.next(), wait.deadline);
            doze(Wait { deadline, may_be_over: false, ..wait })?;
        }
    }
}

/// Returns the moment of the message after that of `struck`, which is taken `now`. It is a period after
/// `struck`, however long the receiver took to wake up. If that has passed, no thread took the message in
/// time, and the next comes a period after `now`.
fn following(struck: Moment, now: Moment, period: Duration) -> Option<Moment> {
    struck.checked_add(period).filter(|&next| next > now).or_else(|| now.checked_add(period))
}

/// Returns the earlier of two moments.
pub(super) fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Sleeps until the wait ends. Fails if an interrupt ends it.
pub(super) fn doze(wait: Wait) -> Result<(), WaitError> {
    wait.check_end();
    let sleeper = Sleeper::new();
    let how = How { reason: WaitReason::Receive, wait, spin: false };
    // The thread is published as asleep (I9).
    let no_preempt = NoPreempt::hold();
    let slept = sleeper.sleep(&no_preempt, &how, 0, || sleeper.try_claim());
    drop(no_preempt);
    if slept == Slept::Ended(WaitError::Interrupted) { Err(WaitError::Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_is_a_period_after_the_last_unless_that_has_passed() {
        let (struck, period) = (time::now(), Duration::from_millis(10));
        let next = |late: u64| {
            let next = following(struck, struck + Duration::from_millis(late), period);
            next.map(|next| (next - struck).as_millis())
        };
        assert_eq!([0, 1, 9].map(next), [Some(10); 3]);
        assert_eq!([10, 11, 35].map(next), [Some(20), Some(21), Some(45)]);
        assert_eq!(following(struck, struck, Duration::MAX), None);
        assert_eq!(following(struck, struck, Duration::ZERO), Some(struck));
    }
}

#[cfg(all(test, loom))]
mod loom_clock;
