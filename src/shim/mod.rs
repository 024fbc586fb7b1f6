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

#[cfg(all(loom, not(test)))]
pub(crate) mod model;

/// The first items in programs and in this crate's own models, the second in the models of programs that use the crate.
#[cfg(not(all(loom, not(test))))]
macro_rules! swap {
    ({ $($real:item)* } { $($model:item)* }) => { $($real)* };
}
#[cfg(all(loom, not(test)))]
macro_rules! swap {
    ({ $($real:item)* } { $($model:item)* }) => { $($model)* };
}
pub(crate) use swap;

/// Whether the crate was compiled for the models of programs that use it: then its locks are loom's, and what waits otherwise does not work,
/// in a model or outside.
pub(crate) const FOR_MODELS: bool = cfg!(all(loom, not(test)));
