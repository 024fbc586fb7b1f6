//! What programs have that were not written for Selvedge, in its green threads: std's locks, parking and
//! sockets. The builds have their calls come to Selvedge first (feature `interpose`).

use std::io;
use std::time::Duration;

use super::contender::{Contender, Scene};
use super::harness::Case;
use super::library::{Attributes, Guard, Library, Std};
use super::ours;
use super::parking::Parking;
use super::selvedge::Private;
use super::sockets::KernelThreads;

/// The name of the contender.
pub(crate) const NAME: &str = "mxn, unmodified";

/// Threads of Selvedge, with all else of std.
#[derive(Debug)]
pub(crate) enum Unmodified {}

impl Library for Unmodified {
    type Mutex<T: Send + 'static> = std::sync::Mutex<T>;
    type Condvar = std::sync::Condvar;
    type Thread = <Private as Library>::Thread;

    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        Std::wait(condvar, guard)
    }

    fn notify_one(condvar: &Self::Condvar) {
        Std::notify_one(condvar);
    }

    fn notify_all(condvar: &Self::Condvar) {
        Std::notify_all(condvar);
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        Private::spawn(attributes, body)
    }

    fn join(thread: Self::Thread) {
        Private::join(thread);
    }

    fn sleep(time: Duration) {
        Std::sleep(time);
    }
}

impl Parking for Unmodified {
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

impl KernelThreads for Unmodified {}

impl Contender for Unmodified {
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread {
        Private::start(body)
    }
}

/// The contender, in builds that have it.
pub(crate) fn case(scene: impl Scene) -> Option<Case> {
    cfg!(feature = "interpose").then(|| ours::mxn_of::<Unmodified>(NAME, scene, |builder| builder))
}
