//! The clock as a number, where the kernel says nothing of the processor's counter.

use std::sync::OnceLock;
use std::time::Instant;

/// Returns `false`: nothing is known of the processor's counter.
pub(crate) fn counter_is_a_clock() -> bool {
    false
}

/// Returns the time since the first call, in ns.
pub(crate) fn monotonic() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}
