//! Requests to end threads that C code has started. `preload/tests/c/cancels.c` has those that wait.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::mem;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use crate::c_threads::{create, join};
use crate::std_threads::green;

unsafe extern "C-unwind" {
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
}

const ASYNCHRONOUS: c_int = 1;
/// `PTHREAD_CANCELED`.
const CANCELED: usize = usize::MAX;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Computes without an end, and calls nothing. It has nothing to drop.
extern "C-unwind" fn computes(_: *mut c_void) -> *mut c_void {
    // SAFETY: what it asks for is kept: the thread has nothing to drop from here on.
    assert_eq!(unsafe { pthread_setcanceltype(ASYNCHRONOUS, ptr::null_mut()) }, 0);
    STARTED.fetch_add(1, SeqCst);
    let mut n = 0_u64;
    loop {
        n = black_box(n.wrapping_mul(3) + 1);
    }
}

fn start() -> libc::pthread_t {
    type Function = extern "C" fn(*mut c_void) -> *mut c_void;
    // SAFETY: the C library calls it in the same way, and unwinds it.
    create(None, unsafe { mem::transmute::<*const (), Function>(computes as *const ()) }, 0)
}

fn cancel(id: libc::pthread_t) {
    // SAFETY: a thread that is not joined yet.
    assert_eq!(unsafe { pthread_cancel(id) }, 0);
}

#[test]
fn c_threads_that_compute_end_anywhere() {
    green("C threads that compute end anywhere", || {
        for _ in 0..20 {
            let before = STARTED.load(SeqCst);
            let id = start();
            while STARTED.load(SeqCst) == before {
                thread::yield_now();
            }
            cancel(id);
            assert_eq!(join(id), Ok(CANCELED));
        }
    });
}

/// More threads than there are LWPs, all of which compute: some run, and others have lost their slice.
#[test]
fn all_c_threads_that_compute_end_anywhere() {
    green("all C threads that compute end anywhere", || {
        let before = STARTED.load(SeqCst);
        let ids: Vec<_> = (0..7).map(|_| start()).collect();
        while STARTED.load(SeqCst) < before + ids.len() {
            thread::yield_now();
        }
        ids.iter().for_each(|&id| cancel(id));
        ids.into_iter().for_each(|id| assert_eq!(join(id), Ok(CANCELED)));
    });
}
