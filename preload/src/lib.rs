//! `libselvedge_preload.so`: finished programs on the threads of Selvedge.
//!
//! ```text
//! LD_PRELOAD=libselvedge_preload.so SELVEDGE_RUNTIME=mxn program
//! ```
//!
//! **Shape.** The crate `selvedge` has the functions of the C library that wait, or start threads, under
//! their own names (feature `interpose`). In this library they come before the C library's for a program that
//! never heard of them, and for all libraries that it has. What is here besides is what such programs use and
//! std does not: the locks of `pthread.h` and `semaphore.h`.
//!
//! | file | what |
//! |---|---|
//! | [`mutex`] | `pthread_mutex_lock` and its like, for all types |
//! | [`condvar`] | `pthread_cond_wait` and its like |
//! | [`rwlock`], [`barrier`], [`spin`] | the same for those |
//! | [`semaphore`] | `sem_wait` and its like |
//! | [`owner`] | numbers of threads, for locks that know their owner |
//! | [`clock`] | moments of the system's clocks |
//! | [`layout`] | where the C library keeps the kinds of its objects |
//! | [`next`] | the C library's functions of the same names |
//!
//! **The objects.** A lock lives in the program's memory, where the C library's own initializers have left
//! it, static ones and functions. So a lock here lies over the first bytes of the C library's, which are zero
//! in a free one. The kind of a lock is read where the C library keeps it. The functions that set attributes
//! and initialize are the C library's. `barrier` and `semaphore` have no static initializers, so those are
//! initialized here. Memory that a program destroys, it may use for something else at once. So to destroy a
//! barrier or a condition variable is to wait until the threads have left it that have passed it.
//!
//! **No protocol is here.** What threads do with a word of a lock is in the crate `selvedge`, under models.
//! Two words are not:
//!
//! - The number of a lock's owner. A thread that has the lock writes its own number, or zero. Each thread
//!   compares the word with its own number only, so none depends on what another has written. (The same
//!   stands in `sync/checked/raw.rs`, under a model.)
//! - The spin lock. It is swapped, and no thread sleeps there.
//!
//! **What stays the C library's**: locks that are shared between processes, or robust. There, a green thread
//! blocks its LWP, and says so.
//!
//! **Taken together.** The C library's condition variables call its own mutex functions, past any library in
//! front of it. So either both are here, or neither.

#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

mod barrier;
mod clock;
mod condvar;
mod layout;
mod mutex;
mod next;
mod owner;
mod rwlock;
mod semaphore;
mod spin;

/// Runs before the program's `main`, when the loader has this library.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    layout::find();
    selvedge::pthreads::are_green();
}
