//! Selvedge as a [`Library`]: threads of the caller's runtime, with mutexes of either visibility.

use std::io;
use std::time::Duration;

use selvedge::sync::{self, process_shared};
use selvedge::thread::{self, Builder, JoinHandle, Thread};

use crate::support::library::{Attributes, Guard, Library, Lock};
use crate::support::parking::{Named, Parking};

/// With locks that are private to the process.
#[derive(Debug)]
pub(crate) enum Private {}

/// With locks that processes can share.
#[derive(Debug)]
pub(crate) enum Shared {}

impl Library for Private {
    type Mutex<T: Send + 'static> = sync::Mutex<T>;
    type Condvar = sync::Condvar;
    type Thread = JoinHandle<()>;

    fn wait<'a, T: Send + 'static>(
        condvar: &Self::Condvar,
        mut guard: Guard<'a, Self, T>,
    ) -> Guard<'a, Self, T> {
        condvar.wait(&mut guard);
        guard
    }

    fn notify_one(condvar: &Self::Condvar) {
        condvar.notify_one();
    }

    fn notify_all(condvar: &Self::Condvar) {
        condvar.notify_all();
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        let builder = Builder::new().bound(attributes.bound);
        match attributes.stack_size {
            Some(bytes) => builder.stack_size(bytes),
            None => builder,
        }
        .spawn(body)
    }

    fn join(thread: Self::Thread) {
        thread.join().unwrap();
    }

    fn sleep(time: Duration) {
        thread::sleep(time);
    }
}

impl Parking for Private {
    type Handle = Thread;

    fn current() -> Self::Handle {
        thread::current()
    }

    fn park() {
        thread::park();
    }

    fn park_timeout(time: Duration) {
        thread::park_timeout(time);
    }

    fn unpark(thread: &Self::Handle) {
        thread.unpark();
    }

    fn yield_now() {
        thread::yield_now();
    }
}

impl Named for Private {
    fn wake(thread: &Self::Thread) {
        thread.thread().unpark();
    }
}

impl Library for Shared {
    type Mutex<T: Send + 'static> = process_shared::Mutex<T>;
    type Condvar = process_shared::Condvar;
    type Thread = JoinHandle<()>;

    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        condvar.wait(guard).expect("no owner dies").unwrap()
    }

    fn notify_one(condvar: &Self::Condvar) {
        condvar.notify_one();
    }

    fn notify_all(condvar: &Self::Condvar) {
        condvar.notify_all();
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        Private::spawn(attributes, body)
    }

    fn join(thread: Self::Thread) {
        Private::join(thread);
    }

    fn sleep(time: Duration) {
        Private::sleep(time);
    }
}

impl<T: Send + 'static> Lock<T> for sync::Mutex<T> {
    type Guard<'a> = sync::MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        Self::lock(self)
    }
}

impl<T: Send + 'static> Lock<T> for process_shared::Mutex<T> {
    type Guard<'a> = process_shared::MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        Self::lock(self).expect("no owner dies").unwrap()
    }
}
