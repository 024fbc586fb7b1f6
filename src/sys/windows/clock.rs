//! The clock as a number, where the kernel says nothing of the processor's counter.

use std::sync::OnceLock;
use std::time::Instant;

/// Returns `false`: nothing is known of the processor's counter.
pub(crate) fn counter_is_a_clock() -> bool {
    false
}

/// What the clock says at the first call, in ns: an hour. Elsewhere the clock counts from the start of the
/// machine. So what happened shortly before has a number here, too, and no moment is zero.
const FIRST: u64 = 3_600_000_000_000;

/// Returns the time since the first call, and [`FIRST`] more, in ns.
pub(crate) fn monotonic() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let elapsed = ORIGIN.get_or_init(Instant::now).elapsed().as_nanos();
    u64::try_from(elapsed).unwrap_or(u64::MAX).saturating_add(FIRST)
}
