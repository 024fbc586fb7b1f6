//! Tests with kernel threads, and what the models share.

pub(crate) mod heap;
#[cfg(all(test, loom))]
pub(crate) mod loom_model;
mod permit;
mod queue;
#[path = "../../tests/support/random.rs"]
pub(crate) mod random;

use std::ptr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends the process if the result lives longer than a minute. So a lost wake-up fails instead of hanging.
#[must_use]
pub(crate) fn watched() -> impl Drop {
    struct Watched(Option<(Sender<()>, JoinHandle<()>)>);

    impl Drop for Watched {
        fn drop(&mut self) {
            let (done, dog) = self.0.take().expect("dropped once");
            drop(done);
            dog.join().unwrap();
        }
    }

    let (done, watch) = channel();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let dog = std::thread::spawn(move || {
        if watch.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs");
            std::process::abort();
        }
    });
    Watched(Some((done, dog)))
}

/// Lets others run until `condition` holds.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Returns a waker that cannot be cloned: the clone panics.
pub(crate) fn unclonable() -> Waker {
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("as the test wants"), |_| (), |_| (), |_| ());
    // SAFETY: its functions do not use the pointer.
    unsafe { Waker::from_raw(RawWaker::new(ptr::null(), &VTABLE)) }
}
