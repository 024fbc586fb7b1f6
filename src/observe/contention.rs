//! Counts of what happens at locks that a thread has to wait for. They are taken on slow paths only, while
//! the program asks for them.
//!
//! Cost while counting is off: one relaxed load at each lock that is not free. While it is on: two clock
//! readings and one queue lock.

use std::time::Duration;

use super::by_address::by_address;
use crate::park::observed;
use crate::park::reason::WaitReason;
use crate::park::wait_queue::{Invalid, Woken};
use crate::time::{self, Moment};

by_address! { TABLE: Counts }

/// How many locks of a bucket are counted, those that were waited for last: of all, some 65,000. A program
/// may make locks at new addresses without end.
const MOST: usize = 256;

/// The counts of one address.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) kind: Option<WaitReason>,
    pub(crate) contended: u64,
    pub(crate) spun: u64,
    pub(crate) slept: u64,
    pub(crate) handed_over: u64,
    pub(crate) gave_up: u64,
    pub(crate) waited: Duration,
    pub(crate) longest: Duration,
}

/// Begins or ends the counting. The counts stay.
pub(crate) fn switch(on: bool) {
    tell_children();
    observed::count_contention(on);
}

/// Begins or ends the counting for clients of `threadmon`. It does not end what the program has begun.
#[cfg(unix)]
pub(crate) fn want(on: bool) {
    tell_children();
    // The clients are the parent's.
    crate::park::fork::tell_children(|| observed::want_contention(false));
    observed::want_contention(on);
}

/// Returns the counts of all known addresses.
pub(crate) fn all() -> Vec<(usize, Counts)> {
    tell_children();
    TABLE.all()
}

pub(crate) fn clear() {
    tell_children();
    TABLE.clear();
}

/// One thread's wait for one lock, from finding it taken to acquiring it, or giving up. Counted when it is
/// dropped.
#[derive(Debug)]
pub(crate) struct Contention(Option<Wait>);

#[derive(Debug)]
struct Wait {
    key: usize,
    kind: WaitReason,
    since: Moment,
    slept: u64,
    handed_over: bool,
    gave_up: bool,
}

impl Contention {
    /// Begins the wait for the lock at `key`, which is taken.
    #[inline]
    pub(crate) fn begin(key: usize, kind: WaitReason) -> Self {
        Self(if observed::is_contention_counted() { Some(Wait::begin(key, kind)) } else { None })
    }

    /// Runs `wait`, which queues the thread for the lock.
    #[inline]
    pub(crate) fn during(&mut self, wait: impl FnOnce() -> Result<Woken, Invalid>) -> Result<Woken, Invalid> {
        let outcome = wait();
        if let Some(wait) = &mut self.0 {
            wait.slept += u64::from(outcome.is_ok());
            wait.gave_up = matches!(outcome, Ok(Woken::Ended { .. }));
        }
        outcome
    }

    /// Notes that the last owner has handed the lock over.
    #[inline]
    pub(crate) fn handed_over(&mut self) {
        if let Some(wait) = &mut self.0 {
            wait.handed_over = true;
        }
    }
}

impl Drop for Contention {
    #[inline]
    fn drop(&mut self) {
        if let Some(wait) = &self.0 {
            wait.end();
        }
    }
}

impl Wait {
    #[cold]
    fn begin(key: usize, kind: WaitReason) -> Self {
        Self { key, kind, since: time::now(), slept: 0, handed_over: false, gave_up: false }
    }

    #[cold]
    fn end(&self) {
        let waited = time::now() - self.since;
        TABLE.change_one_of(MOST, self.key, |counts| {
            counts.kind = Some(self.kind);
            counts.contended += 1;
            counts.spun += u64::from(self.slept == 0 && !self.gave_up);
            counts.slept += self.slept;
            counts.handed_over += u64::from(self.handed_over);
            counts.gave_up += u64::from(self.gave_up);
            counts.waited += waited;
            counts.longest = counts.longest.max(waited);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::wait_queue::Token;
    use crate::sys::child_tests as child;

    #[test]
    fn locks_that_were_waited_for_long_ago_are_forgotten() {
        let test = concat!(module_path!(), "::locks_that_were_waited_for_long_ago_are_forgotten");
        child::isolated(test, || {
            const LOCKS: usize = 100_000;
            switch(true);
            let wait = |key| drop(Contention::begin(key, WaitReason::Mutex));
            for lock in 0..LOCKS {
                wait(64 * (lock + 1));
                wait(8);
            }
            let counted: std::collections::HashMap<_, _> = all().into_iter().collect();
            assert!((1_000..=256 * MOST).contains(&counted.len()), "{}", counted.len());
            assert_eq!(counted[&8].contended, LOCKS as u64);
            assert!(counted.contains_key(&(64 * LOCKS)));
        });
    }

    #[test]
    fn what_is_counted_of_a_wait() {
        child::isolated(concat!(module_path!(), "::what_is_counted_of_a_wait"), || {
            const KEY: usize = 64;
            let wait = |outcome: Option<Woken>| {
                let mut contention = Contention::begin(KEY, WaitReason::Mutex);
                if let Some(outcome) = outcome {
                    assert_eq!(contention.during(|| Ok(outcome)), Ok(outcome));
                }
            };
            wait(None);
            assert!(!observed::is_contention_counted() && all().is_empty());
            switch(true);
            assert!(observed::is_contention_counted());
            // Two that only spin, one that sleeps, and one that gives up.
            let outcomes = [
                None,
                None,
                Some(Woken::Granted(Token(1))),
                Some(Woken::Ended { why: crate::park::wait::WaitError::TimedOut, moved: false }),
            ];
            outcomes.into_iter().for_each(wait);
            let counted = all();
            let [(KEY, counts)] = counted[..] else { panic!("{counted:?}") };
            assert_eq!((counts.contended, counts.spun, counts.slept), (4, 2, 2));
            assert_eq!((counts.gave_up, counts.handed_over), (1, 0));
            clear();
            assert!(all().is_empty());
            switch(false);
            wait(None);
            assert!(all().is_empty());
        });
    }
}
