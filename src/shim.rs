//! The one place that says `cfg(loom)`: the same names over std, and over loom's model.
//!
//! Every file in the `models` list of `ARCHITECTURE.md` takes its atomics, cells, locks and thread-locals
//! from here and from nowhere else. So the code that ships is the code that is model-checked.

#[cfg(not(loom))]
#[path = "shim/std.rs"]
mod imp;

#[cfg(loom)]
#[path = "shim/loom.rs"]
mod imp;

pub(crate) use imp::*;

#[cfg(all(loom, not(test)))]
pub(crate) mod model;

/// Keeps the first import in programs and in this crate's own models, and the second in the models of
/// programs that use the crate.
#[cfg(not(all(loom, not(test))))]
macro_rules! swap {
    ($real:item $model:item) => {
        $real
    };
}
#[cfg(all(loom, not(test)))]
macro_rules! swap {
    ($real:item $model:item) => {
        $model
    };
}
pub(crate) use swap;

/// `true` if the crate was compiled for the models of programs that use it. Then its locks are loom's, and
/// other waits do not work, in a model or outside.
pub(crate) const FOR_MODELS: bool = cfg!(all(loom, not(test)));
