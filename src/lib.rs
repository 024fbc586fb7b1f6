//! Selvedge: two interchangeable thread runtimes behind one trait.
mod arch;
pub mod mxn;
pub mod onetoone;
mod park;
mod runtime;
mod select;
mod shim;
pub mod sync;
mod sys;
pub mod thread;
mod time;
