//! Selvedge: two interchangeable thread runtimes behind one trait.
//!
//! [`Mxn`] multiplexes green threads with their own stacks over a pool of kernel threads; [`OneToOne`] gives each thread a
//! kernel thread. Locks, condition variables, sleeping and joining are the same on both, and work across them.
//!
//! # Examples
//!
//! Green threads:
//!
//! ```
//! use selvedge::{Mxn, Runtime, thread};
//!
//! let rt = Mxn::builder().concurrency(2).build()?;
//! let n = rt.run(|| thread::spawn(|| 7).join().unwrap());
//! assert_eq!(n, 7);
//! # std::io::Result::Ok(())
//! ```
//!
//! Kernel threads, by changing one word:
//!
//! ```
//! use selvedge::{OneToOne, Runtime, thread};
//!
//! let rt = OneToOne::new()?;
//! let n = rt.run(|| thread::spawn(|| 7).join().unwrap());
//! assert_eq!(n, 7);
//! # std::io::Result::Ok(())
//! ```
//!
//! The one that the user of the program chooses, by `SELVEDGE_RUNTIME=mxn|onetoone`:
//!
//! ```
//! use selvedge::thread;
//!
//! let n = selvedge::run(|| thread::spawn(|| 7).join().unwrap());
//! assert_eq!(n, 7);
//! ```

mod arch;
pub mod channel;
pub mod mxn;
pub mod onetoone;
mod park;
mod runtime;
mod select;
mod settings;
mod shim;
#[cfg(all(feature = "signal", target_os = "linux"))]
pub mod signal;
pub mod sync;
mod sys;
pub mod thread;
mod time;
pub mod tsd;

pub use crate::mxn::{Mxn, ThreadRegister};
pub use crate::onetoone::OneToOne;
pub use crate::runtime::{HelperStats, LwpState, LwpStats, Rung, Runtime, RuntimeInfo, RuntimeStats};
pub use crate::select::{run, try_run};

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
