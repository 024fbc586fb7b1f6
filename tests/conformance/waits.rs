//! What a list of threads says of each reason to wait. It has the reason, and the address of the object or
//! the thread that is awaited. For locks with owners, it also has the owner.
//!
//! The reasons come from `docs/api.txt`, which `tests/api.rs` keeps complete. So a reason that is added fails
//! here until it has its wait.

use std::future::poll_fn;
#[cfg(all(unix, feature = "net"))]
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::mpsc;
use std::task::{Poll, Waker};

use selvedge::channel::{bounded, select, unbounded};
use selvedge::future::block_on;
#[cfg(unix)]
use selvedge::sync::process_shared;
use selvedge::sync::{Barrier, Condvar, Mutex, Once, ReentrantMutex, RwLock, Semaphore, WaitGroup};
use selvedge::thread::{self, Builder, Thread, ThreadId, ThreadState, WaitReason};
use selvedge::{Runtime, Wait};

use crate::legs::Leg;
use crate::threads::{LONG, seen, waits_for};

both! {
    each_reason_is_seen,
    reentrant_locks_and_initializations_name_their_owners,
}

/// What a thread waits for.
enum Awaited {
    /// Something without an address that the program knows.
    Nothing,
    Thread(ThreadId),
    /// An object that stands there.
    At(Range<usize>),
    /// An object that the library has put somewhere.
    Somewhere,
}

impl Awaited {
    fn object<T>(object: &'static T) -> Self {
        let from = std::ptr::from_ref(object).addr();
        Self::At(from..from + size_of::<T>())
    }
}

/// A wait: its reason, what is awaited, what the thread does, and how it ends.
struct Staged {
    reason: WaitReason,
    awaited: Awaited,
    wait: Box<dyn FnOnce() + Send>,
    end: Box<dyn FnOnce(&Thread)>,
}

/// Returns the names of all reasons, as the list of the public items has them.
fn reasons() -> Vec<&'static str> {
    let api = include_str!("../../docs/api.txt");
    let line = api.lines().find(|line| line.starts_with("thread::WaitReason | ")).expect("it is public");
    let (_, body) = line.split_once('{').expect("an enumeration");
    let variants = body.trim_end_matches('}').split(',');
    variants.filter_map(|variant| variant.split_whitespace().next()).collect()
}

fn leak<T>(object: T) -> &'static T {
    Box::leak(Box::new(object))
}

/// Returns the wait of this reason, for a thread that is bound or not; `None` if there is none here.
fn stage<R: Runtime>(rt: &R, bound: bool, reason: &str) -> Option<Staged> {
    let staged = |reason, awaited, wait: Box<dyn FnOnce() + Send>, end: Box<dyn FnOnce(&Thread)>| {
        Some(Staged { reason, awaited, wait, end })
    };
    match reason {
        "Park" => {
            staged(WaitReason::Park, Awaited::Nothing, Box::new(thread::park), Box::new(|it| it.unpark()))
        }
        "Sleep" => staged(
            WaitReason::Sleep,
            Awaited::Nothing,
            Box::new(|| _ = thread::sleep_with(Wait::timeout(LONG).interruptible())),
            Box::new(|it| it.interrupt()),
        ),
        "Join" => {
            let last = rt.spawn(thread::park);
            let other = last.thread().clone();
            staged(
                WaitReason::Join,
                Awaited::Thread(other.id()),
                Box::new(move || last.join().unwrap()),
                Box::new(move |_| other.unpark()),
            )
        }
        "Mutex" => {
            let lock = leak(Mutex::new(()));
            let held = lock.lock();
            let wait = Box::new(|| drop(lock.lock()));
            staged(WaitReason::Mutex, Awaited::object(lock), wait, Box::new(|_| drop(held)))
        }
        "Condvar" => {
            let (lock, changed) = leak((Mutex::new(false), Condvar::new()));
            let wait = || {
                let mut over = lock.lock();
                while !*over {
                    changed.wait(&mut over);
                }
            };
            let end = |_: &Thread| {
                *lock.lock() = true;
                changed.notify_all();
            };
            staged(WaitReason::Condvar, Awaited::object(changed), Box::new(wait), Box::new(end))
        }
        "Barrier" => {
            let two = leak(Barrier::new(2));
            let (wait, end) = (|| _ = two.wait(), |_: &Thread| _ = two.wait());
            staged(WaitReason::Barrier, Awaited::object(two), Box::new(wait), Box::new(end))
        }
        "Scope" => {
            let (over, is_over) = unbounded::<()>();
            let wait = move || thread::scope(|s| drop(s.spawn(move || _ = is_over.recv())));
            staged(WaitReason::Scope, Awaited::Nothing, Box::new(wait), Box::new(|_| drop(over)))
        }
        "RwLock" => {
            let lock = leak(RwLock::new(()));
            let held = lock.write();
            let wait = Box::new(|| drop(lock.read()));
            staged(WaitReason::RwLock, Awaited::object(lock), wait, Box::new(|_| drop(held)))
        }
        "Semaphore" => {
            let none = leak(Semaphore::new(0));
            let wait = Box::new(|| drop(none.acquire()));
            staged(WaitReason::Semaphore, Awaited::object(none), wait, Box::new(|_| none.add_permits(1)))
        }
        "Once" => {
            let once = leak(Once::new());
            let ((over, is_over), (began, has_begun)) = (mpsc::channel::<()>(), mpsc::channel());
            let first = std::thread::spawn(move || {
                once.call_once(|| {
                    began.send(()).unwrap();
                    _ = is_over.recv();
                });
            });
            has_begun.recv().unwrap();
            let end = |_: &Thread| {
                drop(over);
                first.join().unwrap();
            };
            let wait = Box::new(|| once.call_once(|| unreachable!()));
            staged(WaitReason::Once, Awaited::object(once), wait, Box::new(end))
        }
        "Send" => {
            let (sender, receiver) = bounded(1);
            sender.send(1).unwrap();
            let wait = Box::new(move || sender.send(2).unwrap());
            let end = move |_: &Thread| assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Ok(2)));
            staged(WaitReason::Send, Awaited::Somewhere, wait, Box::new(end))
        }
        "Receive" => {
            let (sender, receiver) = unbounded::<()>();
            let wait = Box::new(move || assert!(receiver.recv().is_err()));
            staged(WaitReason::Receive, Awaited::Somewhere, wait, Box::new(|_| drop(sender)))
        }
        "Select" => {
            let ((one, two), (first, second)) = (unbounded::<()>(), unbounded::<()>());
            let wait = move || {
                select! {
                    recv(two) -> got => assert!(got.is_ok()),
                    recv(second) -> _ => unreachable!(),
                }
            };
            let end = move |_: &Thread| {
                one.send(()).unwrap();
                drop(first);
            };
            staged(WaitReason::Select, Awaited::Nothing, Box::new(wait), Box::new(end))
        }
        "WaitGroup" => {
            let group = WaitGroup::new();
            let member = group.clone();
            let wait = Box::new(move || group.wait());
            staged(WaitReason::WaitGroup, Awaited::Somewhere, wait, Box::new(|_| drop(member)))
        }
        #[cfg(all(unix, feature = "net"))]
        "Readable" => {
            let (mut one, mut other) = crate::net::pair();
            let wait = Box::new(move || assert_eq!(other.read(&mut [0]).unwrap(), 1));
            let end = move |_: &Thread| one.write_all(&[1]).unwrap();
            staged(WaitReason::Readable, Awaited::Nothing, wait, Box::new(end))
        }
        #[cfg(all(unix, feature = "net"))]
        "Writable" => {
            let (mut one, mut other) = crate::net::pair();
            let wait = Box::new(move || one.write_all(&vec![7; 8 << 20]).unwrap());
            let end = move |_: &Thread| assert_eq!(other.read_to_end(&mut Vec::new()).unwrap(), 8 << 20);
            staged(WaitReason::Writable, Awaited::Nothing, wait, Box::new(end))
        }
        #[cfg(not(all(unix, feature = "net")))]
        "Readable" | "Writable" => None,
        "Future" => {
            let event = leak(std::sync::Mutex::new((false, None::<Waker>)));
            let wait = || {
                block_on(poll_fn(|context| {
                    let mut event = event.lock().unwrap();
                    event.1 = Some(context.waker().clone());
                    if event.0 { Poll::Ready(()) } else { Poll::Pending }
                }));
            };
            let end = |_: &Thread| {
                let mut event = event.lock().unwrap();
                event.0 = true;
                event.1.take().expect("it was polled").wake();
            };
            staged(WaitReason::Future, Awaited::Nothing, Box::new(wait), Box::new(end))
        }
        // Kernel threads, and the first of the green ones, wait in the kernel.
        "Futex" if bound || R::NAME != "mxn" => None,
        #[cfg(not(unix))]
        "Futex" => None,
        #[cfg(unix)]
        "Futex" => {
            let lock = leak(process_shared::Mutex::new(()));
            let held = lock.lock().expect("it is sound").unwrap();
            let wait = || drop(lock.lock().expect("it is sound").unwrap());
            let first = rt.spawn(wait);
            seen(rt, first.thread().id(), |it| matches!(it.state(), ThreadState::InKernel { .. }));
            let end = move |_: &Thread| {
                drop(held);
                first.join().unwrap();
            };
            staged(WaitReason::Futex, Awaited::object(lock), Box::new(wait), Box::new(end))
        }
        other => panic!("no test shows a wait of the reason {other}"),
    }
}

fn each_reason_is_seen<L: Leg>() {
    let rt = L::new();
    let reasons = reasons();
    assert!(reasons.len() >= 18, "{reasons:?}");
    for bound in [false, true] {
        for name in &reasons {
            let Some(Staged { reason, awaited, wait, end }) = stage(&rt, bound, name) else { continue };
            assert_eq!(format!("{reason:?}"), *name);
            let waiter = Builder::new().bound(bound).spawn_on(&rt, wait).unwrap();
            let there = seen(&rt, waiter.thread().id(), |thread| waits_for(thread, reason));
            let ThreadState::Waiting { at, thread, .. } = there.state() else { unreachable!() };
            let fits = match awaited {
                Awaited::Nothing => (at, thread) == (None, None),
                Awaited::Thread(id) => (at, thread) == (None, Some(id)),
                Awaited::At(place) => at.is_some_and(|at| place.contains(&at)) && thread.is_none(),
                Awaited::Somewhere => at.is_some_and(|at| at != 0) && thread.is_none(),
            };
            assert!(fits, "bound: {bound}: {there}");
            end(waiter.thread());
            waiter.join().unwrap();
        }
    }
}

/// What waits for one of them.
type Waits = fn(&Both);

/// Two objects with owners.
type Both = (ReentrantMutex<()>, Once);

fn reentrant_locks_and_initializations_name_their_owners<L: Leg>() {
    thread::record_owners();
    let rt = L::new();
    let both: &Both = leak((ReentrantMutex::new(()), Once::new()));
    let holder = Builder::new()
        .name("holder".into())
        .spawn_on(&rt, || {
            let _held = (both.0.lock(), both.0.lock());
            both.1.call_once(thread::park);
        })
        .unwrap();
    seen(&rt, holder.thread().id(), |thread| waits_for(thread, WaitReason::Park));
    let owner = Some((holder.thread().id(), Some("holder")));
    let waits: [(WaitReason, Waits); 2] = [
        (WaitReason::Mutex, |both| drop(both.0.lock())),
        (WaitReason::Once, |both| both.1.call_once(|| unreachable!())),
    ];
    let waiters = waits.map(|(reason, wait)| {
        let builder = Builder::new().bound(reason == WaitReason::Once);
        let waiter = builder.spawn_on(&rt, move || wait(both)).unwrap();
        let there = seen(&rt, waiter.thread().id(), |thread| waits_for(thread, reason));
        assert_eq!(there.owner(), owner, "{there}");
        waiter
    });
    holder.thread().unpark();
    holder.join().unwrap();
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}
