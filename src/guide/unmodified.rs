//! Programs that never heard of Selvedge: std's locks and sockets, and other crates, in green threads.
//!
//! A green thread that waits at a lock of std, or reads from a socket of std, blocks its LWP, and the runtime
//! starts another in its place. With the feature `interpose` it blocks only itself, and neither std nor the
//! crates that use it are changed:
//!
//! ```toml
//! selvedge = { version = "0.1", features = ["interpose"] }
//! ```
//!
//! The feature works on Linux with glibc, and does nothing elsewhere.
//! [`RuntimeInfo::interposed`](crate::RuntimeInfo::interposed) tells. The executable then has functions with
//! the names of the C library's, and the linker binds std and all crates to them. In a thread that is not
//! green, they call the C library's at once.
//!
//! # What waits how
//!
//! | call | a green thread |
//! |---|---|
//! | `std::sync`, `std::thread::park`, `mpsc`; parking_lot, crossbeam, flume (`futex`) | waits alone |
//! | sockets: `recv`, `send`, `recvfrom`, `sendto`, `recvmsg`, `sendmsg`, `accept`, `accept4` | waits alone |
//! | `connect` over the Internet | waits alone |
//! | pipes, terminals, counters: `read`, `write`, `readv`, `writev` | waits alone |
//! | `poll`, `ppoll`, `select`, `epoll_wait`, `epoll_pwait`, without a mask of signals | waits alone |
//! | `nanosleep`, `clock_nanosleep`, `usleep`, `sleep` | sleeps alone |
//! | `sched_yield` | lets another green thread run |
//! | `waitpid`, `wait4`, `waitid` for the end of one child | waits alone |
//! | files; `getaddrinfo`, `getnameinfo`, `flock`, `fsync`, `fdatasync` | blocks its LWP, announced |
//! | `recvmmsg`, `sendmmsg`; `MSG_WAITALL`, `MSG_FASTOPEN`, `MSG_ZEROCOPY` | blocks its LWP, announced |
//! | `connect` of a Unix socket; an `accept` where another thread was faster | blocks its LWP, announced |
//! | `pthread_join`, and with it `join` of std's threads | blocks its LWP, announced |
//! | futexes that are shared between processes, or pass on priorities | blocks its LWP, announced |
//! | calls with a mask of signals (`ppoll`, `epoll_pwait`) | blocks its LWP, announced |
//! | `waitpid` for any child of several, or for a change other than its end | blocks its LWP, announced |
//! | any call in a handler of a signal | blocks its LWP |
//! | the C library's own locks (`pthread_mutex_lock`) and streams | blocks its LWP, noticed |
//! | system calls as instructions, such as those of `rustix` | blocks its LWP, noticed |
//!
//! *Announced* is as in [`thread::blocking`](crate::thread::blocking): the slot may go at once. *Noticed* is
//! what the monitor does with any call ([`blocking`](super::blocking)).
//!
//! # What is the same, and what is not
//!
//! - A descriptor keeps its mode. If calls on it do not block, they return `WouldBlock` as always. Timeouts
//!   of sockets (`set_read_timeout`) end waits. The mode of a TCP socket is changed for the moment of its
//!   `connect`.
//! - Errors are the kernel's. No wait ends with `EINTR`, because the kernel may give a signal to any thread.
//! - If green threads and others wait for one futex, green ones are woken first, except at every 64th wake-up
//!   of each waker.
//! - If the clock of the day is set during a wait by it, the wait ends as if it had not been set.
//! - [`std::thread::spawn`] makes kernel threads. Their waits are the kernel's.
//! - On the rung [`Pinned`](crate::ThreadRegister::Pinned), all calls go to the C library.
//!
//! - If a call sends in parts, and the connection breaks after some, it returns their number, and the next
//!   call an error. That may be another than the kernel's: it has been told.
//! - After a handler of a signal was installed with `SA_NODEFER` and without `SA_ONSTACK`, all calls go to
//!   the C library: nothing tells whether such a handler runs.
//!
//! Sanitizers bring functions of these names themselves. Under one, building a runtime of green threads
//! returns an error.
//!
//! # What it costs
//!
//! A call from a thread that is not green takes two or three nanoseconds more. A wait of a green thread for a
//! socket of std takes two system calls more than one for a socket of `selvedge::net`.
