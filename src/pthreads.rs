//! Threads that are started by std or the C library, as green threads (feature `interpose`).
//!
//! **Problem.** `std::thread::spawn` and C programs call `pthread_create`. They give what it returns to other
//! functions of the C library: to join, to name, to ask for the stack. A green thread is nothing that these
//! know.
//!
//! **Rejected.** *A `struct pthread` for each green thread, as the C library has it*. Each block has one
//! (`sys/tcb`). But the library's functions would follow its lists, free its stack, and wait for the kernel
//! to clear its number. *To start a kernel thread that does nothing but wait*: it costs what green threads
//! save.
//!
//! **Shape.** A green thread that is started here has a `Record`. Its `pthread_t` is the
//! record's address with the lowest bit set, which is in no address of the C library's. Each function here
//! looks at that bit. If it is not set, it calls the C library's function of the same name. It asks of its
//! caller what that one asks: that is its safety contract.
//!
//! | file | functions |
//! |---|---|
//! | `start` | `pthread_create` |
//! | `end` | `pthread_exit`, `pthread_join` and its like, `pthread_detach` |
//! | `cancel` | `pthread_cancel` and its like |
//! | `about` | `pthread_self`, names, stacks, priorities, processors |
//! | `kill` | `pthread_kill`, `pthread_sigqueue` |
//! | `kernel` | the kernel threads of finished programs, which `cancel` finds |
//! | `masks` | `pthread_sigmask`, `sigprocmask` |
//! | `altstack` | `sigaltstack` |
//! | `semaphore`, `barrier`, `gate` | what the locks of `libselvedge_preload.so` are made of |
//!
//! A new thread is green if the builder of the calling thread's runtime has said so. Then it belongs to that
//! runtime. If no builder has said anything, `SELVEDGE_STD_THREADS` decides, and the thread belongs to the
//! process default. (Many programs keep pools of threads forever, and whichever thread needs a pool first
//! makes it. A runtime that had such threads could never be dropped. The process default never is.) What only
//! kernel threads have makes the new thread one: a scheduling policy, processors, a stack of the program's.
//!
//! What is public here is for that library.

mod about;
mod altstack;
mod barrier;
mod cancel;
mod end;
mod gate;
mod kernel;
mod kill;
mod masks;
mod record;
mod semaphore;
mod start;

pub use crate::interpose::cancel::{
    handles_signals, in_marked_call, lock, point, point_of_code, undisturbed, wait,
};
pub use barrier::Barrier;
pub use gate::{Gate, wait_apart};
pub use semaphore::Semaphore;
pub use start::{announced, are_green, can_wait, may_be_green};
