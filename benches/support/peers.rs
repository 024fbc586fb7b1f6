//! Peers from other crates: parking_lot's locks over std's threads, and may's coroutines.

use std::io;
use std::time::Duration;

use super::contender::Contender;
use super::library::{Attributes, Guard, Library, Lock, Std};
use super::parking::Parking;
use super::sockets::KernelThreads;

/// `std::thread` with the locks of `parking_lot`.
#[derive(Debug)]
pub(crate) enum ParkingLot {}

impl Library for ParkingLot {
    type Mutex<T: Send + 'static> = parking_lot::Mutex<T>;
    type Condvar = parking_lot::Condvar;
    type Thread = <Std as Library>::Thread;

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
        Std::spawn(attributes, body)
    }

    fn join(thread: Self::Thread) {
        Std::join(thread);
    }

    fn sleep(time: Duration) {
        Std::sleep(time);
    }
}

impl KernelThreads for ParkingLot {}

impl Contender for ParkingLot {
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread {
        Std::start(body)
    }
}

/// std's, for its threads: parking_lot has no permits.
impl Parking for ParkingLot {
    type Handle = <Std as Parking>::Handle;

    fn current() -> Self::Handle {
        Std::current()
    }

    fn park() {
        Std::park();
    }

    fn park_timeout(time: Duration) {
        Std::park_timeout(time);
    }

    fn unpark(thread: &Self::Handle) {
        Std::unpark(thread);
    }

    fn yield_now() {
        Std::yield_now();
    }
}

impl<T: Send + 'static> Lock<T> for parking_lot::Mutex<T> {
    type Guard<'a> = parking_lot::MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        Self::lock(self)
    }
}

/// may's stackful coroutines and their locks.
#[derive(Debug)]
pub(crate) enum May {}

impl May {
    /// Runs `main` as a coroutine. The scheduler belongs to the process, so that the first call sets its
    /// workers.
    pub(crate) fn run<T: Send + 'static>(
        workers: Option<usize>,
        main: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        may::config().set_workers(workers.unwrap_or(cpus));
        // SAFETY: the bodies keep no thread-local across a call into may, and are shallow.
        unsafe { may::coroutine::spawn(main) }.join().unwrap()
    }
}

impl Library for May {
    type Mutex<T: Send + 'static> = may::sync::Mutex<T>;
    type Condvar = may::sync::Condvar;
    type Thread = may::coroutine::JoinHandle<()>;

    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        condvar.wait(guard).unwrap()
    }

    fn notify_one(condvar: &Self::Condvar) {
        condvar.notify_one();
    }

    fn notify_all(condvar: &Self::Condvar) {
        condvar.notify_all();
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        let builder = may::coroutine::Builder::new();
        let builder = match attributes.stack_size {
            // It counts in words.
            Some(bytes) => builder.stack_size(bytes / size_of::<usize>()),
            None => builder,
        };
        // SAFETY: the bodies keep no thread-local across a call into may, and are shallow.
        unsafe { builder.spawn(body) }
    }

    fn join(thread: Self::Thread) {
        thread.join().unwrap();
    }

    fn sleep(time: Duration) {
        may::coroutine::sleep(time);
    }
}

impl Contender for May {
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread {
        // SAFETY: a coroutine must not touch thread-locals across a switch, nor outgrow its stack. The
        // bodies of the benches keep no thread-local across a call into may, and are shallow.
        unsafe { may::coroutine::spawn(body) }
    }
}

impl Parking for May {
    type Handle = may::coroutine::Coroutine;

    fn current() -> Self::Handle {
        may::coroutine::current()
    }

    fn park() {
        may::coroutine::park();
    }

    fn park_timeout(time: Duration) {
        may::coroutine::park_timeout(time);
    }

    fn unpark(thread: &Self::Handle) {
        thread.unpark();
    }

    fn yield_now() {
        may::coroutine::yield_now();
    }
}

impl<T: Send + 'static> Lock<T> for may::sync::Mutex<T> {
    type Guard<'a> = may::sync::MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        Self::lock(self).unwrap()
    }
}
