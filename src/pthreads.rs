//! Threads that are started by std or the C library, as green threads (feature `interpose`).
//!
//! **Problem.** `std::thread::spawn` and C programs call `pthread_create`, and give what it returns to other
//! functions of the C library: to join, to name, to ask for the stack. A green thread is nothing that these
//! know.
//!
//! **Rejected.** *A `struct pthread` for each green thread, as the C library has it*: each block has one
//! (`sys/tcb`), but the library's functions would follow its lists, free its stack, and wait for the kernel
//! to clear its number. *To start a kernel thread that does nothing but wait*: it costs what green threads
//! save.
//!
//! **Shape.** A green thread that is started here has a [`Record`](record::Record). Its `pthread_t` is the
//! record's address with the lowest bit set, which is in no address of the C library's. Each function here
//! looks at that bit. If it is not set, it calls the C library's function of the same name.
//!
//! | file | functions |
//! |---|---|
//! | [`start`] | `pthread_create` |
//! | [`end`] | `pthread_join` and its like, `pthread_detach` |
//! | [`about`] | `pthread_self`, names, stacks, priorities, processors, signals |
//!
//! A new thread is green if the runtime of the calling thread takes it ([`Spawner::takes_pthreads`]). If the
//! calling thread belongs to no runtime, the process default is asked, but only if `SELVEDGE_STD_THREADS`
//! says so. What only kernel threads have (a scheduling policy, processors, a stack of the program's) makes
//! the new thread one.
//!
//! [`Spawner::takes_pthreads`]: crate::park::backend::Spawner::takes_pthreads

mod about;
mod end;
mod record;
mod start;
