//! Waits in a forked child whose last other thread ends them, and is gone, after the waiter has looked.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;

use crate::channel::{Select, bounded, unbounded};
use crate::future::block_on;
use crate::park::current::current;
use crate::park::tests::until;
use crate::park::wait::{Wait, WaitError, meanwhile};
use crate::shim::fork;
use crate::sync::{
    Barrier, LockWith, Mutex, Once, OnceLock, RwLock, RwLockUpgradableReadGuard, Semaphore, WaitGroup,
};
use crate::sys::child_tests as child;

/// Starts a thread that does `first` at once. It does `last`, and ends, after the next look of this thread at
/// what it waits for.
fn last_thread<T: 'static>(
    first: impl FnOnce() -> T + Send + 'static,
    last: impl FnOnce(T) + Send + 'static,
) {
    let (done, is_done) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let other = thread::spawn(move || {
        let held = first();
        done.send(()).unwrap();
        goes.recv().unwrap();
        last(held);
    });
    is_done.recv().unwrap();
    meanwhile::do_once(move || {
        go.send(()).unwrap();
        other.join().unwrap();
        until(fork::is_alone);
    });
}

/// Leaks a value, so that threads may borrow it.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Runs each of `waits` in a child. They are not refused.
fn in_child(test: &str, waits: &[fn()]) {
    child::isolated(&format!("{}::{test}", module_path!()), || {
        // From here on, a fork is noticed.
        current();
        for wait in waits {
            child::forked(|| {
                if fork::is_alone() {
                    wait();
                } else {
                    println!("skipped: a child has other threads from the beginning");
                }
            });
        }
    });
}

#[test]
fn a_lock_that_the_last_other_thread_leaves_is_had() {
    in_child(
        "a_lock_that_the_last_other_thread_leaves_is_had",
        &[
            || {
                let lock = leak(Mutex::new(1));
                last_thread(|| lock.lock(), drop);
                assert_eq!(*lock.lock(), 1);
                let held = lock.lock();
                assert!(catch_unwind(AssertUnwindSafe(|| lock.lock())).is_err());
                drop(held);
                assert!(lock.try_lock().is_some());
            },
            || {
                let lock = leak(RwLock::new(1));
                last_thread(|| lock.write(), drop);
                assert_eq!(*lock.read(), 1);
            },
            || {
                let lock = leak(RwLock::new(1));
                last_thread(|| lock.read(), drop);
                assert_eq!(*lock.write(), 1);
            },
            || {
                let lock = leak(RwLock::new(1));
                let guard = lock.upgradable_read();
                last_thread(|| lock.read(), drop);
                drop(RwLockUpgradableReadGuard::upgrade(guard));
            },
            || {
                let permits = leak(Semaphore::new(1));
                last_thread(|| permits.acquire(), drop);
                drop(permits.acquire());
                assert_eq!(permits.available_permits(), 1);
            },
        ],
    );
}

#[test]
fn what_the_last_other_thread_has_done_is_waited_for() {
    in_child(
        "what_the_last_other_thread_has_done_is_waited_for",
        &[
            || {
                let barrier = leak(Barrier::new(2));
                last_thread(|| (), |()| _ = barrier.wait());
                assert!(!barrier.wait().is_leader());
            },
            || {
                let group = WaitGroup::new();
                let member = group.clone();
                last_thread(|| member, drop);
                group.wait();
            },
            || {
                let cell = leak(OnceLock::new());
                last_thread(|| (), |()| cell.set(7).unwrap());
                assert_eq!(*cell.wait(), 7);
            },
            || {
                let (once, (go, goes)) = (leak(Once::new()), mpsc::channel());
                let (begin, begun) = mpsc::channel();
                let runs = move || {
                    thread::spawn(move || {
                        once.call_once(|| {
                            begin.send(()).unwrap();
                            goes.recv().unwrap();
                        });
                    })
                };
                let end = move |other: thread::JoinHandle<()>| {
                    go.send(()).unwrap();
                    other.join().unwrap();
                };
                last_thread(runs, end);
                begun.recv().unwrap();
                once.call_once(|| unreachable!());
            },
        ],
    );
}

#[test]
fn a_message_of_the_last_other_thread_arrives() {
    in_child(
        "a_message_of_the_last_other_thread_arrives",
        &[
            || {
                let (sender, receiver) = unbounded();
                let kept = sender.clone();
                last_thread(|| sender, |sender| sender.send(3).unwrap());
                assert_eq!(receiver.recv(), Ok(3));
                let alone = catch_unwind(AssertUnwindSafe(|| receiver.recv()));
                assert!(alone.is_err());
                drop(kept);
            },
            || {
                let (sender, receiver) = bounded(1);
                sender.send(1).unwrap();
                let kept = receiver.clone();
                last_thread(|| receiver, |receiver| assert_eq!(receiver.recv(), Ok(1)));
                sender.send(2).unwrap();
                assert!(catch_unwind(AssertUnwindSafe(|| sender.send(3))).is_err());
                assert_eq!(kept.try_recv(), Ok(2));
            },
            || {
                let (sender, receiver) = unbounded::<u8>();
                last_thread(|| sender, drop);
                assert!(receiver.recv().is_err());
            },
            || {
                let (sender, receiver) = unbounded();
                let kept = sender.clone();
                last_thread(|| sender, |sender| sender.send(3).unwrap());
                let mut select = Select::new();
                select.recv(&receiver);
                assert_eq!(select.select().recv(&receiver), Ok(3));
                assert!(catch_unwind(AssertUnwindSafe(|| select.ready())).is_err());
                drop(kept);
            },
            || {
                let (tell, told) = mpsc::channel::<std::task::Waker>();
                let done = Arc::new(Semaphore::new(0));
                let theirs = Arc::clone(&done);
                last_thread(
                    || (),
                    move |()| {
                        theirs.add_permits(1);
                        told.recv().unwrap().wake();
                    },
                );
                block_on(pin!(poll_fn(|task| {
                    let _ = tell.send(task.waker().clone());
                    if done.available_permits() == 1 { Poll::Ready(()) } else { Poll::Pending }
                })));
            },
        ],
    );
}

/// An interrupt of the last other thread ends a wait that may be interrupted.
#[test]
fn an_interrupt_by_the_last_other_thread_is_heard() {
    in_child(
        "an_interrupt_by_the_last_other_thread_is_heard",
        &[|| {
            let (lock, me) = (leak(Mutex::new(())), current());
            let held = lock.lock();
            meanwhile::do_once(move || me.interrupt());
            let interrupted = lock.lock_with(Wait::forever().interruptible());
            assert_eq!(interrupted.map(drop), Err(WaitError::Interrupted));
            drop(held);
        }],
    );
}
