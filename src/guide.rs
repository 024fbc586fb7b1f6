//! The guide: how programs run on Selvedge, and what to know before tuning one.
//!
//! It has documentation only. Read the chapters in any order:
//!
//! | chapter | question |
//! |---|---|
//! | [`choosing`] | Which runtime, how is it set up, and how does it end? |
//! | [`blocking`] | What happens to the other threads when one blocks? |
//! | [`unmodified`] | How do std's locks, sockets and threads, other crates, and finished programs, run on green threads? |
//! | [`servers`] | How does a server have a thread for each connection? |
//! | [`memory`] | What does a thread take, and what comes back? |
//! | [`time_slices`] | How do threads that compute share the CPUs? |
//! | [`priorities`] | What goes first, and why does no thread starve? |
//! | [`debugging`] | How does one look at green threads with gdb, perf and heap profilers? |
//! | [`thread_register`] | Why do `thread_local!` and C libraries work in green threads? |
//!
//! The README lists the limits of soundness. The crate's front page tells how to port a program from std.
//!
//! # Words
//!
//! - A *green thread* is a thread of the M:N runtime [`Mxn`](crate::Mxn). It has a stack of its own.
//! - An *LWP* is a kernel thread that runs green threads (Solaris: lightweight process).
//! - A *slot* is the right to run green threads. A runtime has as many slots as threads can run at once.
//!   An LWP without a slot is a spare, or blocks in the kernel.
//! - A *bound thread* has a kernel thread of its own for its whole life.
//! - A *foreign thread* is a kernel thread that Selvedge did not start. It can use all locks and channels.

pub mod blocking;
pub mod choosing;
pub mod debugging;
pub mod memory;
pub mod priorities;
pub mod servers;
pub mod thread_register;
pub mod time_slices;
pub mod unmodified;
