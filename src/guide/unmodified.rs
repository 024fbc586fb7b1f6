//! Programs that never heard of Selvedge: std's locks and sockets, and other crates, in green threads.
//!
//! A green thread that waits at a lock of std, or reads from a socket of std, blocks its LWP. The runtime
//! then starts another in its place. With the feature `interpose` it blocks only itself. Neither std nor the
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
//! | `poll`, `ppoll`, `select`, `pselect`, `epoll_wait`, `epoll_pwait`, without a mask of signals | waits alone |
//! | `nanosleep`, `clock_nanosleep`, `usleep`, `sleep` | sleeps alone |
//! | `sched_yield` | lets another green thread run |
//! | `waitpid`, `wait4`, `waitid` for the end of one child | waits alone |
//! | files; `getaddrinfo`, `getnameinfo`, `flock`, `fsync`, `fdatasync` | blocks its LWP, announced |
//! | `recvmmsg`, `sendmmsg`; `MSG_WAITALL`, `MSG_FASTOPEN`, `MSG_ZEROCOPY`; `SO_RCVLOWAT` | blocks its LWP, announced |
//! | `connect` of a Unix socket; an `accept` where another thread was faster | blocks its LWP, announced |
//! | `pthread_join`, and with it `join` of std's threads: of green ones | waits alone |
//! | the same, of kernel threads | blocks its LWP, announced |
//! | `sigwait`, `sigwaitinfo`, `sigtimedwait`, `pause`, `sigsuspend`, `sigpause` | blocks its LWP, announced |
//! | `msgrcv`, `msgsnd`, `lockf`, `fcntl` with `F_SETLKW`, `tcdrain`, `system` | blocks its LWP, announced |
//! | futexes that are shared between processes, or pass on priorities | blocks its LWP, announced |
//! | calls with a mask of signals (`ppoll`, `pselect`, `epoll_pwait`) | blocks its LWP, announced |
//! | `wait`, `wait3`; `waitpid` for any child of several, or for a change other than its end | blocks its LWP, announced |
//! | any call in a handler of a signal | blocks its LWP |
//! | the C library's streams; its locks (`pthread_mutex_lock`), but see [below](#finished-programs) | blocks its LWP, noticed |
//! | system calls as instructions, such as those of `rustix` | blocks its LWP, noticed |
//!
//! *Announced* is as in [`thread::blocking`](crate::thread::blocking): the slot may go at once. *Noticed* is
//! what the monitor does with any call ([`blocking`](super::blocking)).
//!
//! # What is the same, and what is not
//!
//! - A descriptor keeps its mode. If calls on it do not block, they return `WouldBlock` as always. Timeouts
//!   of sockets (`set_read_timeout`) end waits, and count for the whole call. The mode of a TCP socket is
//!   changed for the moment of its `connect`.
//! - Errors are the kernel's. A signal for the process ends no wait with `EINTR`, because the kernel may give
//!   it to any thread. [One for a thread](#signals-for-one-thread) does.
//! - If green threads and others wait for one futex, green ones are woken first, except at every 64th wake-up
//!   of each waker.
//! - If the clock of the day is set during a wait by it, the wait ends as if it had not been set.
//! - On the rung [`Pinned`](crate::ThreadRegister::Pinned), all calls go to the C library.
//!
//! - If a call sends in parts, and the connection breaks after some, it returns their number, and the next
//!   call an error. That may be another than the kernel's: it has been told.
//! - After a handler of a signal was installed with `SA_NODEFER` and without `SA_ONSTACK`, all calls go to
//!   the C library. Nothing tells whether such a handler runs. C programs that are compiled for a standard
//!   (`-std=c99`) do that with each `signal`. The same holds after a handler without `SA_ONSTACK` has let its
//!   own signal through, by `pthread_sigmask`.
//!
//! # Threads of std
//!
//! [`std::thread::spawn`], and `pthread_create` of C code, make kernel threads. `SELVEDGE_STD_THREADS=green`
//! makes them green threads of the process default: all that std or C code starts, from then on. The waits in
//! the table above are then theirs, too.
//!
//! [`Builder::green_std_threads`](crate::mxn::Builder::green_std_threads) does the same for the threads that
//! threads of one runtime start, and they belong to that runtime. It must then wait for them when it is
//! dropped, also for pools of threads that never end.
//!
//! std's handles, names, scopes, parking, thread-locals and panics work, and a stack overflow is reported
//! with the thread's name. A stack is as large as was asked for: std asks for 2 MiB. C code that asks for
//! nothing gets what the C library would give it, as a rule 8 MiB, or `SELVEDGE_STACK_SIZE`. What is not
//! touched costs no memory.
//!
//! | what | a green thread of std or C |
//! |---|---|
//! | `pthread_self`, `join`, `tryjoin`, `timedjoin`, `detach`, `exit`, names, `pthread_getattr_np`, keys | as always |
//! | a stack of the program's own, processors, a policy of the scheduler (in the attributes) | becomes a kernel thread |
//! | `pthread_kill`, `pthread_sigqueue` to another thread | the handler runs [in that thread](#signals-for-one-thread) in finished programs; otherwise, the signal goes to the process |
//! | `pthread_cancel` | ends the thread [in a call that waits](#requests-to-end-a-thread) |
//! | `pthread_setaffinity_np`, another policy by `pthread_setschedparam` | `ENOTSUP` |
//! | `pthread_getcpuclockid` | `ENOENT` |
//! | the signal mask | as always. If `siglongjmp` or `setcontext` restores another than the thread's last, that is not seen |
//! | `sigaltstack` | is noted; handlers run on the alternate stack of the LWP, which has 256 KiB |
//! | an overflow of its stack | goes to a handler of SIGSEGV, if a finished program has one; in a function of this crate, it ends the process |
//! | a signal for the process | if all threads of a finished program block it, it waits (`sigwait`) |
//! | a signal that a thread has blocked, and sends to itself by `raise` | waits on its LWP |
//! | a handler of a signal | may run on an LWP that runs no thread, with thread-locals of its own, if any thread does not block the signal |
//! | C11's `thrd_create` | makes a kernel thread |
//!
//! The kernel does not know these threads. So `ps -L` has no names of theirs, but `threadmon` does.
//!
//! # Requests to end a thread
//!
//! `pthread_cancel` ends a green thread at its next cancellation point, or ends its wait in one. The thread
//! runs what it has pushed by `pthread_cleanup_push`, and destructors of C++. `pthread_setcancelstate`,
//! `pthread_setcanceltype` and `pthread_testcancel` work as always.
//!
//! | cancellation point | a request |
//! |---|---|
//! | what waits alone in the [first table](#what-waits-how), but for futexes; `pthread_cond_wait`, `sem_wait` and their like | ends the wait |
//! | what blocks its LWP, announced, but for futexes, `getaddrinfo`, `getnameinfo`, `flock` | ends the thread in the call |
//! | `open`, `openat`, `creat`, `close`, `pread`, `pwrite` and their like, `msync` | the same; `close`: before the call |
//! | `system`, `pthread_join` of a kernel thread | the same, with glibc up to 2.40, but for 2.34 and 2.35; otherwise before the call |
//! | other calls of the C library that wait (its streams, `aio_suspend`) | ends the thread if it waits there, with the same versions |
//! | system calls of the program's own, as instructions or by `syscall` | none |
//!
//! In a call, the preemption signal ends the thread. While that signal is blocked, the thread goes on. In
//! finished programs that ask threads to end, or send them signals, no mask of a green thread blocks it. A
//! thread that handles a signal goes on, too.
//!
//! A thread may allow to be ended anywhere (`PTHREAD_CANCEL_ASYNCHRONOUS`). The preemption signal then ends
//! it while it computes, or is in a system call. In a lock of pthread it waits on.
//!
//! # Signals for one thread
//!
//! In finished programs that mention `pthread_kill` or `pthread_sigqueue`, a signal for a green thread is
//! handled in that thread, with its thread-locals and its `pthread_self`.
//!
//! | the thread | the signal |
//! |---|---|
//! | computes, or is in a call that blocks its LWP | interrupts it; ends the call (`EINTR`), or not, as the kernel does |
//! | waits in a lock, at a barrier, in `pthread_join` | is handled, and the wait goes on |
//! | waits at a condition variable | is handled, and the thread is woken for nothing |
//! | sleeps, or waits in `poll` and its like | is handled, and ends the call (`EINTR`) |
//! | waits for a semaphore, a futex, a descriptor, a child | the same, if the handler was installed without `SA_RESTART` |
//! | blocks it | waits, until the thread unblocks it, or asks for it: `sigwait`, `sigtimedwait`, `sigsuspend`, `pause`, the mask of `ppoll` and its like |
//!
//! `sigpending` shows it. From `SIGRTMIN`, each waits; 512 of these and of signals with values may wait in
//! the process. If the kernel has no memory for one more (`RLIMIT_SIGPENDING`), the sender gets `EAGAIN`,
//! too. What a thread does not take ends with it. A `signalfd` does not find a signal for one green thread.
//!
//! A helper of the process tells the threads, with the preemption signal. If a thread is in code of this
//! crate at that moment, tries follow, in the end every 32 milliseconds. They also follow while a handler
//! blocks that signal. If a thread is in a call that no handler restarts (`msgrcv`, `sigtimedwait`), a try
//! that comes late ends the call, too. The helper looks in `/proc/self/task` if a thread is in a call. If it
//! may not, the calls go on that `SA_RESTART` is for.
//!
//! Only what is loaded when the first thread starts is asked. If a library that is loaded later is the
//! first that mentions these functions, its signals go to the process, and any thread handles them.
//!
//! # Finished programs
//!
//! `libselvedge_preload.so`, the package `selvedge-preload` of this repository, is all of this for programs
//! that are compiled already, in any language:
//!
//! ```text
//! LD_PRELOAD=libselvedge_preload.so SELVEDGE_RUNTIME=mxn program
//! ```
//!
//! It also has the locks of `pthread.h` and `semaphore.h`: mutexes of all types, condition variables,
//! read-write locks, barriers, spin locks, semaphores. They are Selvedge's own, over the program's memory.
//! With `SELVEDGE_RUNTIME=onetoone`, the program has kernel threads, and these locks.
//!
//! Locks that are shared between processes, or robust, stay the C library's. A green thread blocks its LWP
//! there, announced. If it ends with a robust mutex held, the next owner is told (`EOWNERDEAD`). If the whole
//! process ends, the other processes are not told of the mutexes that its green threads hold. Mutexes that
//! pass on priorities are as all others. A wait with a private mutex at a shared condition variable is
//! `EINVAL`.
//!
//! Sanitizers bring functions of these names themselves. Under one, building a runtime of green threads
//! returns an error.
//!
//! # What it costs
//!
//! A call from a thread that is not green takes two to four nanoseconds more. A wait of a green thread for a
//! socket of std takes two system calls more than one for a socket of `selvedge::net`.
