//! Selvedge: two interchangeable thread runtimes behind one trait.
//!
//! [`Mxn`] multiplexes green threads with their own stacks over a pool of kernel threads; [`OneToOne`] gives
//! each thread a kernel thread. Locks, condition variables, sleeping and joining are the same on both, and
//! work across them. The [`guide`] explains how programs run on them.
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
//! # Porting a program from std
//!
//! To port a program, change its `use` lines:
//!
//! | std | Selvedge |
//! |---|---|
//! | `std::thread` | [`selvedge::thread`](thread) |
//! | `std::sync` | [`selvedge::sync::poison`](sync::poison), or [`selvedge::sync`](sync) |
//! | `std::sync::mpsc` | [`selvedge::sync::mpsc`](sync::mpsc), also as `sync::poison::mpsc` |
//! | `std::sync::atomic` | `selvedge::sync::atomic`, also as `sync::poison::atomic` |
//! | `std::net` | [`selvedge::net`](net) |
//! | `std::os::unix::net` | [`selvedge::os::unix::net`](os::unix::net) |
//! | `std::os::unix::thread` | [`selvedge::os::unix::thread`](os::unix::thread) |
//!
//! [`sync::poison`] has std's signatures. In [`sync`], `lock()` returns the guard itself.
//!
//! `thread_local!` needs no change. Under these paths, `Arc`, `Weak`, `atomic`, the error types and the types
//! of `thread_local!` are std's own. Every stable item of `std::thread`, `std::sync` and `std::sync::mpsc` is
//! present, with these exceptions:
//!
//! | what is not there | why | instead |
//! |---|---|---|
//! | arguments of type `std::sync::Mutex`, `std::thread::JoinHandle`, ... | 1 | a generic function |
//! | `std::os::unix::thread::JoinHandleExt` for each thread | 2 | [`JoinHandleExt`](os::unix::thread::JoinHandleExt) |
//! | a green thread's name in `std::thread::current().name()` | 3 | [`thread::current()`] |
//!
//! 1. Selvedge's locks, channels and handles are other types. std's locks work in green threads, but block
//!    the kernel thread.
//! 2. A green thread has no `pthread_t` of its own. The methods of Selvedge's trait return an `Option` and a
//!    `Result`.
//! 3. std sets the name, and prints it in panic messages, only for its own threads. The kernel (`ps -L`) has
//!    one name for the LWP.
//!
//! [`thread`] and [`sync::poison`] list what behaves differently from std.
//!
//! Programs with parking_lot's locks use [`sync`](sync#porting-a-program-from-parking_lot), and those with
//! crossbeam-channel's channels use [`channel`].

// The pages link to `net`, too. All links are checked with it.
#![cfg_attr(not(feature = "net"), allow(rustdoc::broken_intra_doc_links))]
// In programs with debug information, gdb loads this by itself.
#![debugger_visualizer(gdb_script_file = "gdb/selvedge.py")]
// Elsewhere `mxn` is compiled, and parts of it have no caller: `build` returns an error, or preempts no
// thread. Without the features, no code asks for what they are made of.
#![cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", feature = "backtraces", feature = "interpose")),
    allow(dead_code)
)]
// In the models of programs, what `shim/model` stands in for has no use.
#![cfg_attr(all(loom, not(test)), allow(dead_code, unreachable_pub))]

// Before the modules that use its macro.
#[macro_use]
mod stand_in;

mod arch;
mod backtrace;
pub mod channel;
mod fatal;
mod fiber;
pub mod future;
pub mod guide;
#[cfg_attr(
    not(all(feature = "interpose", target_os = "linux", target_env = "gnu", not(loom))),
    path = "interpose_absent.rs"
)]
mod interpose;
#[cfg(all(feature = "net", unix))]
pub mod io;
pub mod mxn;
#[cfg(all(feature = "net", unix))]
pub mod net;
mod observe;
pub mod onetoone;
#[cfg(unix)]
pub mod os;
mod park;
mod process_default;
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu", not(loom)))]
#[doc(hidden)]
pub mod pthreads;
mod reactor;
mod recorder;
mod runtime;
mod select;
mod settings;
mod shim;
mod shown;
#[cfg(all(feature = "signal", target_os = "linux"))]
pub mod signal;
pub mod sync;
mod sys;
pub mod thread;
#[cfg(unix)]
pub mod threadmon;
mod time;
pub mod trace;
pub mod tsd;

pub use crate::fiber::ThreadRegister;
pub use crate::mxn::Mxn;
pub use crate::onetoone::OneToOne;
pub use crate::park::wait::{Wait, WaitError};
pub use crate::runtime::{
    HelperStats, LatencyHistogram, LwpState, LwpStats, RunQueueLength, Runtime, RuntimeInfo, RuntimeStats,
};
pub use crate::select::{run, try_run};

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
