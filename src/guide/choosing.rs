//! Chapter: which runtime, how it is set up, and how it ends.
//!
//! # Two runtimes
//!
//! - [`OneToOne`](crate::OneToOne) gives each thread a kernel thread. The kernel schedules. Choose it for
//!   a few threads that compute, and on platforms other than Linux.
//! - [`Mxn`](crate::Mxn) runs green threads on a pool of kernel threads. A switch takes some nanoseconds,
//!   and a million threads fit into memory. Choose it for many threads that wait for each other.
//!
//! Locks, channels, sleeping and joining are the same on both, and they work across both. A program can
//! choose by type, by value, for each thread, or leave the choice to its user:
//!
//! ```
//! use selvedge::{Mxn, OneToOne, Runtime, thread};
//!
//! fn serve<R: Runtime>(rt: &R) -> u32 {
//!     rt.spawn(|| 42).join().unwrap()
//! }
//!
//! // By value. A process may have several runtimes.
//! let green = Mxn::builder().concurrency(2).stack_size(128 << 10).build()?;
//! assert_eq!(serve(&green), 42);
//! assert_eq!(serve(&OneToOne::new()?), 42);
//!
//! // In a runtime's thread, `selvedge::thread` means that runtime.
//! assert_eq!(green.run(|| thread::spawn(|| 7).join().unwrap()), 7);
//!
//! // A thread of the M:N runtime with a kernel thread of its own.
//! let bound = thread::Builder::new().bound(true).spawn_on(&green, || "bound")?;
//! assert_eq!(bound.join().unwrap(), "bound");
//!
//! // The user chooses, by `SELVEDGE_RUNTIME`.
//! assert_eq!(selvedge::run(|| thread::spawn(|| 7).join().unwrap()), 7);
//! # std::io::Result::Ok(())
//! ```
//!
//! # The environment
//!
//! [`run`](crate::run) chooses by `SELVEDGE_RUNTIME`. If that is not set, it takes `mxn`, and `onetoone` on
//! musl and on targets without green threads. The other variables replace a builder's *default*, never what
//! the program set.
//!
//! | variable | values | sets |
//! |---|---|---|
//! | `SELVEDGE_RUNTIME` | `mxn`, `onetoone` | the runtime of [`run`](crate::run) |
//! | `SELVEDGE_CONCURRENCY` | a number | [`concurrency`](crate::mxn::Builder::concurrency) |
//! | `SELVEDGE_CPUS` | `0-3,8` | [`cpus`](crate::mxn::Builder::cpus) |
//! | `SELVEDGE_MAX_LWPS` | a number | [`max_lwps`](crate::mxn::Builder::max_lwps) |
//! | `SELVEDGE_STACK_SIZE` | `65536`, `256K`, `8M` | [`stack_size`](crate::mxn::Builder::stack_size) |
//! | `SELVEDGE_TIME_SLICE` | `10ms`, `500us`, `off` | [`time_slice`](crate::mxn::Builder::time_slice) |
//! | `SELVEDGE_THREAD_REGISTER` | `auto`, `switched`, `syscall` | [the rung](super::thread_register) |
//! | `SELVEDGE_STD_THREADS` | `green`, `kernel` | [`green_std_threads`](super::unmodified#threads-of-std) |
//! | `SELVEDGE_DEADLOCK` | `off`, `report`, `abort` | [`on_deadlock`](crate::mxn::Builder::on_deadlock) |
//! | `SELVEDGE_LOCK_STATS` | `on`, `off` | [`sync::stats`](crate::sync::stats) |
//! | `SELVEDGE_MON` | `on`, `off` | [`threadmon::serve`](crate::threadmon::serve) |
//! | `SELVEDGE_DUMP` | `on`, `off` | [`threadmon::dump_on_quit`](crate::threadmon::dump_on_quit) |
//! | `SELVEDGE_TRACE` | a file, with `1/16:` before it for a sample | [the trace](crate::trace) |
//! | `SELVEDGE_TRACE_EVENTS` | a number | [`set_ring_events`](crate::trace::set_ring_events) |
//!
//! An invalid value is an error, which names the variable and the values it may have. `onetoone` has a stack
//! size, too, and reports and records as `mxn` does. It does not read the variables that only `mxn` has a use
//! for. If a name is nearly one of these, the first runtime of the process says so on standard error. A
//! set-user-id program, or one that gains rights in another way, ignores all of these variables.
//!
//! # CPUs
//!
//! Several `mxn` runtimes of a process can have CPUs of their own:
//!
//! ```
//! use selvedge::{Mxn, Runtime};
//!
//! let start = |cpus: &[usize]| Mxn::builder().cpus(cpus.iter().copied()).build();
//! if let (Ok(front), Ok(back)) = (start(&[0]), start(&[1, 2, 3])) {
//!     let answer = back.spawn(|| 42);
//!     front.run(|| assert_eq!(answer.join().unwrap(), 42));
//! }
//! ```
//!
//! Each LWP may run on all CPUs of its runtime. The chapter on [blocking](super::blocking) tells how many
//! threads run at once. For `onetoone`, `taskset` does the same for the process, and
//! [`Builder::affinity`](crate::thread::Builder::affinity) for a thread.
//!
//! # Stacks
//!
//! Green threads have stacks of 256 KiB by default; std's have 2 MiB. Only the pages that a thread touches
//! take [memory](super::memory). An overflow hits a guard of 128 KiB. The message names the thread, its stack
//! size, and how to raise it.
//!
//! # Start and end
//!
//! No kernel thread starts before `build()`, or before the first use of the process default. An idle
//! runtime uses no CPU. A runtime is also idle if all its threads have slept in the kernel for some 1.2 s. An
//! example is a sleep in `accept`, or at a lock of std.
//!
//! Dropping a runtime waits for its threads, and joins its kernel threads.
//!
//! `shutdown(timeout)` waits up to `timeout`. Halfway through, it interrupts every thread. When the timeout
//! expires, it returns an error that lists the threads still running and what each is waiting for.
//! [`Thread::interrupt`](crate::thread::Thread::interrupt) does that to one thread: its
//! [interruptible](crate::Wait::interruptible) waits return an error.
//!
//! # What a runtime tells
//!
//! [`Runtime::info`](crate::Runtime::info) has the model, the concurrency, the CPUs, and the number of
//! threads. `println!("{}", rt.stats())` prints a table of all kernel threads of the runtime, with what each
//! does and has done. [`Runtime::threads`](crate::Runtime::threads) lists the threads: what each does, on
//! which LWP, and what it waits for. [`Runtime::deadlocks`](crate::Runtime::deadlocks) tells which threads
//! wait for each other.
