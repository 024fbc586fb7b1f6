//! Waiting for descriptors: how a thread sleeps until its socket is readable, without its kernel thread.
//!
//! **Problem.** A thread that blocks in `read` takes its LWP along. A thousand connections then need a
//! thousand LWPs, and each message costs two wake-ups of kernel threads.
//!
//! **Rejected.**
//!
//! - A library for polling. `mio` and `polling` count in milliseconds, and an LWP that sleeps for descriptors
//!   and for its next deadline at once needs nanoseconds.
//! - io_uring: a ring belongs to a kernel thread, while threads move. If a wait is given up, the kernel still
//!   writes into a buffer on the thread's stack. Containers forbid it.
//! - A kernel thread of its own that waits for all descriptors: one more wake-up, 12 us, for each message.
//!
//! **Shape.** A [`source`] tries first, and waits only if the system call would block. For that, its
//! descriptor has an entry in a table ([`entries`]), with one word for each direction ([`readiness`]). Each
//! runtime of green threads has a set of descriptors ([`poller`]). Whichever of its kernel threads has
//! nothing else to do sleeps in the set, and makes threads runnable (`mxn/sched/poll.rs`). Kernel threads
//! block in their own call ([`kernel_wait`]).
//!
//! A runtime adds a descriptor to its set when one of its threads first waits for it, by
//! [`Backend::watch`](crate::park::backend::Backend::watch). So a descriptor may be in the sets of several
//! runtimes. All of them report to the same entry.

#[cfg(unix)]
pub(crate) mod by_number;
pub(crate) mod entries;
#[cfg(unix)]
pub(crate) mod kernel_wait;
#[cfg(unix)]
mod numbers;
pub(crate) mod poller;
pub(crate) mod readiness;
#[cfg(unix)]
pub(crate) mod source;
