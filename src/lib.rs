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
//!
//! # A program of std, ported
//!
//! A port is a change of `use` lines:
//!
//! | std | here |
//! |---|---|
//! | `std::thread` | [`selvedge::thread`](thread) |
//! | `std::sync`, with the modules `mpsc` and `atomic` | [`selvedge::sync::poison`](sync::poison), with std's signatures; or [`selvedge::sync`](sync), whose `lock()` returns the guard itself |
//! | `std::sync::mpsc` | [`selvedge::sync::mpsc`](sync::mpsc); also as `sync::poison::mpsc` |
//! | `std::os::unix::thread` | [`selvedge::os::unix::thread`](os::unix::thread) |
//!
//! `thread_local!` stays as it is. `Arc`, `Weak`, `atomic`, the errors and what belongs to `thread_local!` are std's own
//! types under these paths. Every stable item of the first three modules is there, but for this:
//!
//! | what is not there | why | instead |
//! |---|---|---|
//! | std's own locks, handles and channels as arguments: a function that wants a `std::sync::Mutex` or a `std::thread::JoinHandle` | these are other types; a green thread has no `std::thread::JoinHandle` | make the function generic, or port it too; std's locks work in green threads, and block the kernel thread |
//! | an answer of `std::os::unix::thread::JoinHandleExt` for each thread | a green thread has no `pthread_t` of its own | the methods of [`JoinHandleExt`](os::unix::thread::JoinHandleExt) return an `Option` and a `Result` |
//! | a green thread's name in `std::thread::current().name()`, in panic messages, and from the kernel (`ps -L`) | std lets only its own threads set the first two; the kernel has one for the LWP | [`thread::current`] |
//!
//! What is there and differs: [`thread`] has a list; so has [`sync::poison`].

mod arch;
pub mod channel;
mod fatal;
pub mod mxn;
pub mod onetoone;
#[cfg(unix)]
pub mod os;
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
