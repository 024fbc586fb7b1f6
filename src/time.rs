//! Deadline arithmetic: `None` is never, and an overflow is never.

use std::time::Duration;

pub(crate) use crate::shim::{Moment, now};

/// Returns the moment `timeout` from now, or `None` if the clock cannot count so far.
#[inline]
pub(crate) fn after(timeout: Duration) -> Option<Moment> {
    now().checked_add(timeout)
}

/// Returns `true` if `deadline` has passed. Reads the clock only if there is a deadline.
#[inline]
pub(crate) fn has_passed(deadline: Option<Moment>) -> bool {
    deadline.is_some_and(|deadline| deadline <= now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_timeout_is_no_deadline() {
        assert_eq!(after(Duration::MAX), None);
        assert!(!has_passed(None));
    }

    #[test]
    fn zero_is_now() {
        assert!(has_passed(after(Duration::ZERO)));
        assert!(!has_passed(after(Duration::from_secs(3600))));
    }
}
