//! Chapter: what goes first, and why no thread starves.
//!
//! [`Priority`](crate::thread::Priority) has three levels. A thread is `Normal` unless
//! [`Builder::priority`](crate::thread::Builder::priority) or
//! [`Thread::set_priority`](crate::thread::Thread::set_priority) says otherwise. A new thread does not
//! inherit the level of its creator.
//!
//! ```
//! use selvedge::thread::{Builder, Priority};
//! use selvedge::{Mxn, Runtime};
//!
//! let rt = Mxn::new()?;
//! let logger = rt.spawn_with(Builder::new().priority(Priority::Low), || "written at leisure")?;
//! logger.thread().set_priority(Priority::High);
//! logger.join().unwrap();
//! # std::io::Result::Ok(())
//! ```
//!
//! # Order
//!
//! - An LWP takes `High` green threads first and `Low` ones last.
//! - If a `High` thread becomes runnable while all LWPs run lower ones, the lowest of these gives way
//!   before the end of its time slice.
//! - If a thread is raised while it waits in a run queue, it moves to the front.
//! - Of the threads that wait for a lock or a condition variable, the highest is served first. It does not
//!   matter what kind of thread it is.
//!
//! The kernel schedules kernel threads, which are bound threads and those of the 1:1 runtime. Selvedge
//! does not change their kernel priorities. [`Builder::affinity`](crate::thread::Builder::affinity) binds
//! such a thread to CPUs.
//!
//! # No thread starves
//!
//! - Threads that compute get equal shares of the LWPs, even if others arrive and end all the time.
//! - A `Low` thread gets a turn some 60 ms after the last one had its turn. The same holds for `Normal`
//!   threads beside `High` ones.
//! - If 16 waiters of a lock have been served before others of lower level, the lowest of these is next. If
//!   there are several, it is the one that has waited for longest.
//! - Of a lock's waiters at one level, the last to come is served first as a rule. But every 16th queues
//!   behind all others. So a waiter lets some 16 others pass for each thread in the queue, at most.
//!
//! # Priority inversion
//!
//! There is no priority inheritance: a `High` thread that waits for a lock waits for the lock's owner, at the
//! owner's level.
