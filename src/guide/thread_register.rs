//! Chapter: why `thread_local!` and C libraries work in green threads.
//!
//! # The problem
//!
//! Compilers find thread-local variables by way of a *thread register*: FS base on x86-64, `TPIDR_EL0` on
//! aarch64, `tp` on riscv64. A compiler may keep an address that it has derived from the register across any
//! call. If a green thread migrated to another kernel thread within such a call, it would then use the
//! other's variables. A `RefCell` that is borrowed there, `errno`, and the caches of an allocator would be
//! those of two threads at once.
//!
//! # The answer
//!
//! Each green thread has a thread register of its own for its whole life. It also has a thread control block
//! made by the C library's own functions. The context switch changes the register together with the stack
//! pointer. So a thread finds the same variables on whichever kernel thread it runs. That holds for
//! `thread_local!`, `errno`, `std::thread::current().id()`, the lock of standard output, and C libraries.
//! That is why `spawn` is safe.
//!
//! # Three ways
//!
//! | [`ThreadRegister`](crate::ThreadRegister) | where | threads migrate |
//! |---|---|---|
//! | `switched` | x86-64 with FSGSBASE, aarch64, riscv64 | yes |
//! | `syscall` | x86-64 without it, also under valgrind: some 90 ns more for each switch | yes |
//! | `pinned` | an `unsafe` choice, for C libraries that cannot make control blocks | no |
//!
//! On `pinned`, a thread stays on the kernel thread where it first ran, and shares its thread-locals with the
//! other threads there. While one of them sleeps in the kernel, the others wait.
//!
//! At start, the runtime looks glibc's functions up by name (on musl, a real thread makes each block),
//! calibrates against real threads, and tests a block before it relies on any.
//! [`build`](crate::mxn::Builder::build) takes the best way that passes these tests. If none does, it returns
//! an error that says what is missing, and names [`OneToOne`](crate::OneToOne).
//! [`thread_register`](crate::mxn::Builder::thread_register) forces one way; if that is missing, `build`
//! fails.
//!
//! ```
//! use selvedge::{Mxn, Runtime};
//!
//! let rt = Mxn::new()?;
//! println!("{:?}", rt.info().thread_register);
//! # std::io::Result::Ok(())
//! ```
