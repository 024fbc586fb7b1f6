//! Kernel threads that are kept on two CPUs in turn.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::affinity;
use super::library::{Attributes, Guard, Library};
use super::parking::Parking;

/// `L`, with each new thread on the other CPU of two.
pub(crate) struct Split<L>(PhantomData<L>);

impl<L: Library> Library for Split<L> {
    type Mutex<T: Send + 'static> = L::Mutex<T>;
    type Condvar = L::Condvar;
    type Thread = L::Thread;

    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        L::wait(condvar, guard)
    }

    fn notify_one(condvar: &Self::Condvar) {
        L::notify_one(condvar);
    }

    fn notify_all(condvar: &Self::Condvar) {
        L::notify_all(condvar);
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: one thread counts.
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        L::spawn(attributes, move || {
            affinity::pin(affinity::allowed()[turn % 2]);
            body();
        })
    }

    fn join(thread: Self::Thread) {
        L::join(thread);
    }

    fn sleep(time: Duration) {
        L::sleep(time);
    }
}

impl<L: Parking> Parking for Split<L> {
    type Handle = L::Handle;

    fn current() -> Self::Handle {
        L::current()
    }

    fn park() {
        L::park();
    }

    fn park_timeout(time: Duration) {
        L::park_timeout(time);
    }

    fn unpark(thread: &Self::Handle) {
        L::unpark(thread);
    }

    fn yield_now() {
        L::yield_now();
    }
}
