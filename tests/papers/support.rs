//! The part of the benches' support that the report needs.

#[path = "../../benches/support/affinity.rs"]
pub(crate) mod affinity;
/// Of the harness, how it fails.
#[path = "../../benches/support/harness/failure.rs"]
pub(crate) mod harness;
