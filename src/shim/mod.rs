//! The one place that says `cfg(loom)`: the same names over std, and over loom's model.
//!
//! Every file marked `L` in `ARCHITECTURE.md` takes its atomics, cells, locks and thread-locals from here and from
//! nowhere else, so that the very code that ships is the code that is model-checked.

#[cfg(not(loom))]
#[path = "std.rs"]
mod imp;

#[cfg(loom)]
#[path = "loom.rs"]
mod imp;

pub(crate) use imp::*;
