//! The part of the benches' support that the report needs.

#[path = "../../benches/support/affinity.rs"]
pub(crate) mod affinity;
