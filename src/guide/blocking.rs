//! Chapter: what happens to the other threads when one blocks.
//!
//! # Waits of Selvedge
//!
//! A lock, a condition variable, a barrier, a channel, `park`, `sleep` and `join` of Selvedge block the green
//! thread only. Its LWP runs another thread at once. So does a socket of [`net`](crate::net).
//!
//! # Waits in the kernel
//!
//! A call that blocks in the kernel (a `read` of std, a lock of std, a page fault) blocks the LWP. The
//! monitor, a kernel thread of the runtime, notices within milliseconds. It takes the slot from the blocked
//! LWP and gives it to a spare one, which runs the other threads.
//!
//! [`thread::blocking`](crate::thread::blocking) announces such a call. The slot is released immediately,
//! unless the thread's recent blocking calls were short. In that case it is released only if this one
//! turns out to be long.
//!
//! ```
//! use selvedge::{Mxn, Runtime, thread};
//!
//! let rt = Mxn::new()?;
//! let hosts = rt.run(|| thread::blocking(|| std::fs::read_to_string("/etc/hosts")));
//! # let _ = hosts;
//! # std::io::Result::Ok(())
//! ```
//!
//! # How many kernel threads
//!
//! A runtime has at most [`max_lwps`](crate::mxn::Builder::max_lwps) LWPs; the default is 1,024. If it
//! needs more, it counts that in its statistics, and writes one message to standard error. Its other
//! threads run again when a blocked one returns.
//!
//! A lock of std works in green threads, but each waiter occupies a kernel thread. So `max_lwps` must
//! exceed the number of threads that can wait for one such lock at once.
//!
//! An LWP that has had nothing to do for 5 s ends ([`lwp_age`](crate::mxn::Builder::lwp_age)). A small
//! reserve stays, and so do LWPs with child processes.
//!
//! # How many threads run at once
//!
//! The number of slots is the number of CPUs that the process may use. These are the CPUs of its affinity
//! mask, but no more than the control group's quota allows, rounded up. If the runtime has [CPUs of its
//! own](crate::mxn::Builder::cpus), only these count. While a runtime is in use, the number follows changes
//! of the mask and of the quota. (Not before Linux 5.9, or where a sandbox refuses `close_range`: the monitor
//! then has no descriptors of its own to look with.) [`concurrency`](crate::mxn::Builder::concurrency) sets
//! another number, and [`set_concurrency`](crate::Mxn::set_concurrency) changes it at any time.
//!
//! If the number follows the CPUs, the runtime may use fewer slots for a second at a time. It does so if its
//! threads run for microseconds, other processes have a part of the CPUs, and a trial of 0.1 s has shown that
//! threads have more turns then. That is so for a server whose clients run on the same machine.
