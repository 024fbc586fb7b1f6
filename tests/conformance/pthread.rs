//! The `pthread_t` of threads that own a kernel thread, through `JoinHandleExt`.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use selvedge::os::unix::thread::{JoinHandleExt, RawPthread};
use selvedge::sync::mpsc::channel;
use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    owners_of_a_kernel_thread_have_one,
    what_was_given_away_can_be_joined,
    a_thread_that_has_ended_can_be_given_away,
    green_threads_have_none,
}

fn bound() -> thread::Builder {
    thread::Builder::new().bound(true)
}

fn myself() -> RawPthread {
    // SAFETY: no conditions.
    unsafe { libc::pthread_self() as RawPthread }
}

/// Waits for the end of a kernel thread.
fn join(thread: RawPthread) {
    // SAFETY: `into_pthread_t` gave us the right to join it, and this is the last use.
    let code = unsafe { libc::pthread_join(thread as libc::pthread_t, ptr::null_mut()) };
    assert_eq!(code, 0);
}

fn owners_of_a_kernel_thread_have_one<L: Leg>() {
    let rt = L::new();
    let (tell, told) = channel();
    let handle = rt.spawn_with(bound(), move || {
        tell.send(myself()).unwrap();
        thread::park();
    });
    let handle = handle.unwrap();
    let theirs = told.recv().unwrap();
    assert_ne!(theirs, myself());
    assert_eq!(handle.as_pthread_t(), Some(theirs));
    handle.thread().unpark();
    while !handle.is_finished() {
        std::thread::yield_now();
    }
    // It stays valid as long as the handle exists.
    assert_eq!(handle.as_pthread_t(), Some(theirs));
    handle.join().unwrap();
}

fn what_was_given_away_can_be_joined<L: Leg>() {
    let rt = L::new();
    let ended = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&ended);
    let handle = rt.spawn_with(bound(), move || {
        thread::park();
        theirs.store(true, SeqCst);
    });
    let handle = handle.unwrap();
    let thread = handle.thread().clone();
    let kernel = handle.into_pthread_t().expect("a kernel thread");
    thread.unpark();
    join(kernel);
    assert!(ended.load(SeqCst));
    // The runtime does not wait for the thread, and does not join it again.
    drop(rt);
}

fn a_thread_that_has_ended_can_be_given_away<L: Leg>() {
    let rt = L::new();
    let dropped = Arc::new(());
    let result = Arc::clone(&dropped);
    let handle = rt.spawn_with(bound(), move || result).unwrap();
    while !handle.is_finished() {
        std::thread::yield_now();
    }
    join(handle.into_pthread_t().expect("a kernel thread"));
    assert_eq!(Arc::strong_count(&dropped), 1, "no handle can ask for the result");
}

fn green_threads_have_none<L: Leg>() {
    let rt = L::new();
    let handle = rt.spawn(|| 7);
    let green = rt.info().model == "mxn";
    assert_eq!(handle.as_pthread_t().is_none(), green);
    match handle.into_pthread_t() {
        Ok(kernel) => join(kernel),
        Err(handle) => assert_eq!(handle.join().unwrap(), 7),
    }
}
