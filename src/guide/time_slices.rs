//! Chapter: how threads that compute share the CPUs.
//!
//! A green thread that computes for longer than its *time slice*, while others wait, is preempted: it
//! gives its LWP up. The slice is 10 ms. [`mxn::Builder::time_slice`](crate::mxn::Builder::time_slice)
//! sets another for the runtime, and [`thread::Builder::time_slice`](crate::thread::Builder::time_slice)
//! for one thread. It is at least 50 us; `None` turns preemption off.
//!
//! ```
//! use selvedge::{Mxn, Runtime, thread};
//! use std::time::Duration;
//!
//! let rt = Mxn::builder().time_slice(Some(Duration::from_millis(2))).build()?;
//! rt.run(|| {
//!     // No other thread runs on this LWP during the section.
//!     thread::no_preempt(|| { /* a few instructions */ });
//! });
//! # std::io::Result::Ok(())
//! ```
//!
//! # Which thread is next
//!
//! Threads that woke or yielded go first. Such a thread waits for at most 1 ms of another thread's slice,
//! once the monitor has noticed that a thread computes. It notices within 1 ms if threads wait (3 ms if
//! many come and go), and within 10 ms if none did. It takes up to 15 ms if many have come and gone beside
//! another process that computes, and none has lost its slice lately.
//!
//! Preempted threads share the CPU in turn; the one with the least run time goes first. When more than
//! one such thread is waiting per CPU, slices get shorter. A new thread counts as having had its fair
//! share so far. So short threads that arrive and end all the time do not starve long ones.
//!
//! # How a thread is preempted
//!
//! A monitor sends a signal (SIGURG), and only to a kernel thread that is running. The handler makes the
//! thread call the scheduler as if it had done so by itself. All registers of the thread, vectors and
//! tiles included, are kept on its own stack.
//!
//! Some threads cannot be preempted: in a handler of the program's, at a stack's end, with signals blocked,
//! or with scalable vectors in use on aarch64 (SVE). The same holds on riscv64 for vectors of more than 1,024
//! bits, from the kernel thread's first use on. Some runtimes cannot use signals: with
//! [`preemption_signal(None)`](crate::mxn::Builder::preemption_signal), on musl, on rung `pinned`, under
//! valgrind, in a `cdylib`. There, the *slot* is handed to another kernel thread. The thread goes on as one
//! among the kernel's threads.
//!
//! If other processes want the CPUs too, threads that compute become kernel threads of their own, up to six
//! for each slot. The process then gets the share that it would get with [`OneToOne`](crate::OneToOne).
//!
//! # Locks that a preempted thread holds
//!
//! A thread in the C library, in the loader, or in a shared library that has `malloc` is not preempted
//! there. It is asked again a moment later, so it keeps none of their locks while it waits. The
//! exceptions are locks under which these call back: the loader's around constructors and
//! `dl_iterate_phdr`, and stdio's around cookies.
//!
//! A preempted thread may hold a lock of std or of the program's own. Threads that want such a lock block
//! in the kernel, each on a kernel thread. Kernel threads for them stand by before the first preemption,
//! and the preempted thread goes first on each.
//!
//! If `max_lwps` is reached, or no more kernel threads can be made, the threads that sleep take turns
//! until the owner of the lock runs. That is slow, but it ends. It needs slices and signals, and a
//! process that may read `/proc/self/task/*/syscall`. It works for the calls listed below that begin
//! again by themselves.
//!
//! # Signal handlers of the program
//!
//! A handler of the program's for SIGURG gets every SIGURG that is not Selvedge's. No handler is preempted,
//! whatever signals it blocks, and a handler may leave by `siglongjmp`. In two cases the slot is handed off
//! instead:
//!
//! - The signal's frame lies on the thread's own stack, because a handler was installed later without
//!   `SA_ONSTACK`, or because there is no alternate stack.
//! - More than 1 MiB of stack is in use. The runtime would have to search it for a handler's frame.
//!
//! # System calls and `EINTR`
//!
//! A signal is sent only to a kernel thread that is seen to run. Its CPU clock shows that, or its state in
//! `/proc`. If neither can be read, no signal is sent, and the slot goes to another kernel thread.
//!
//! System calls are restarted (`SA_RESTART`). So `read`, `write`, `accept`, `connect`, `wait`, and all of
//! std and Selvedge do not show `EINTR`. Calls that never restart can return it if they begin to sleep at
//! just that moment: `poll`, `select`, `epoll_wait`, `nanosleep` by hand, a `read` with `SO_RCVTIMEO`.
//! Retry them, as std does.
//!
//! If all kernel threads that may exist sleep while others wait, some threads are taken out of their
//! waits, and begin them again. These are waits at a futex without a time limit, and in `read`, `recv`,
//! `accept` and `flock`. One with `SO_RCVTIMEO` then returns `EINTR`.
