//! The part of the benches' support that the report needs.

#[path = "../../benches/support/affinity.rs"]
pub(crate) mod affinity;
#[path = "../../benches/support/harness/failure.rs"]
mod failure;
#[path = "../../benches/support/harness/summary.rs"]
mod summary;

/// Of the harness, how it fails, and how it sums figures up.
pub(crate) mod harness {
    pub(crate) use super::failure::Failure;
    pub(crate) use super::summary::Summary;
}
