//! Chapter: what many threads take in memory, and what comes back.
//!
//! # What a green thread takes
//!
//! A thread that has started and waits takes some 9.8 KB on x86-64, whatever the size of its stack:
//!
//! | bytes | for |
//! |---|---|
//! | 4,096 | the C library's thread block with the program's thread-locals: the top page of the stack |
//! | 4,096 | the first frames; 512 bytes of them, for a thread that parks at once |
//! | about 790 | the kernel's page tables, for 256 KiB of stack and the guard below it |
//! | 448 | this crate's records of it and of its stack |
//! | 304 | the C library's vector of modules with thread-locals |
//!
//! A deeper call takes another page for each 4 KiB, and keeps it. So does a thread that computes and is
//! preempted, for the registers. The closure, what it owns, and what the thread allocates are as everywhere.
//!
//! - Page tables are in proportion to the size of the stack: with
//!   [`stack_size`](crate::mxn::Builder::stack_size) 16 KiB they are some 300 bytes.
//! - On the rung [`Pinned`](crate::ThreadRegister::Pinned), which is `unsafe`, threads have no block: 5.4 KB,
//!   and 4.9 KB with stacks of 16 KiB.
//! - Memory comes with the first touch. For threads that are made by the hundred, the kernel is asked for the
//!   first two pages of 64 stacks at once.
//!
//! # How many there can be
//!
//! Address space is the first limit: 392 KiB a thread by default, so a million threads need 374 GiB of it.
//! That costs nothing, but `ulimit -v` counts it. The number of threads is not limited by `vm.max_map_count`
//! since Linux 6.13. Before, each guard splits a mapping, and 65,530 mappings are 32,000 threads.
//!
//! If a limit is reached, [`Builder::spawn`](crate::thread::Builder::spawn) returns an error that names it.
//!
//! # How deep a stack was
//!
//! [`ThreadInfo::stack`](crate::thread::ThreadInfo::stack) tells how much of its stack a thread has used:
//!
//! ```
//! use selvedge::{Mxn, Runtime, thread};
//!
//! let rt = Mxn::new()?;
//! let worker = rt.spawn(thread::park);
//! for info in rt.threads() {
//!     if let Some(stack) = info.stack() {
//!         println!("{:?}: {stack}", info.id());
//!     }
//! }
//! # worker.thread().unpark();
//! # worker.join().unwrap();
//! # std::io::Result::Ok(())
//! ```
//!
//! # What comes back
//!
//! The stack of a thread that has ended goes to a pool of the process, with its memory. The next thread finds
//! it warm. Of each size, up to 16,384 warm stacks are kept, but no more than would have 4 GiB. The runtime
//! gives the memory of the others back in the background: 64 stacks a millisecond, in a tenth of a CPU. What
//! is left when the runtime ends is given back then. [`mxn::trim_stacks`](crate::mxn::trim_stacks) gives back
//! the rest.
//!
//! Two things never come back. This crate's records and the address space stay with the process. What the C
//! library allocated for thread blocks is free for the program, but glibc keeps it: `malloc_trim` returns it
//! to the system.
