//! Tests with kernel threads, and what the models share.

pub(crate) mod heap;
#[cfg(all(test, loom))]
pub(crate) mod loom_model;
mod permit;
mod queue;
#[path = "../../tests/support/random.rs"]
pub(crate) mod random;

use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

/// Runs `f`, and ends the process if that takes longer than a minute. So a lost wake-up fails instead of
/// hanging.
pub(crate) fn watched<R>(f: impl FnOnce() -> R) -> R {
    let (done, watch) = std::sync::mpsc::channel::<()>();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let dog = std::thread::spawn(move || {
        if watch.recv_timeout(Duration::from_secs(60)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs");
            std::process::abort();
        }
    });
    let result = f();
    drop(done);
    dog.join().unwrap();
    result
}

/// Returns a waker that cannot be cloned: the clone panics.
pub(crate) fn unclonable() -> Waker {
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("as the test wants"), |_| (), |_| (), |_| ());
    // SAFETY: its functions do not use the pointer.
    unsafe { Waker::from_raw(RawWaker::new(ptr::null(), &VTABLE)) }
}
