//! The properties that the compiler knows of std's types hold for ours. These are which types are `Send`,
//! `Sync`, `Unpin` and unwind-safe, which are covariant, and what they may hold. Also the additional items of
//! parking_lot.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use selvedge::sync::{FairMutex, Once, OnceLock, OncePhase, Semaphore, poison};
use selvedge::{channel, sync, thread};

/// Expands to `true` if a type has a trait.
macro_rules! has {
    ($type:ty, $($bound:tt)+) => {{
        struct Probe<T: ?Sized>(PhantomData<T>);
        #[allow(dead_code, reason = "of the two one is not used")]
        trait Has {
            const IT: bool = false;
        }
        impl<T: ?Sized> Has for Probe<T> {}
        #[allow(dead_code, reason = "of the two one is not used")]
        impl<T: ?Sized + $($bound)+> Probe<T> {
            const IT: bool = true;
        }
        <Probe<$type>>::IT
    }};
}

/// Adds the traits that the second type has and the first lacks.
macro_rules! compare {
    ($lacks:ident, $ours:ty, $stds:ty) => {
        compare!(@each $lacks, $ours, $stds, Send, Sync, Unpin, UnwindSafe, RefUnwindSafe, Clone, Copy, std::fmt::Debug);
    };
    (@each $lacks:ident, $ours:ty, $stds:ty, $($bound:path),+) => {
        $(if has!($stds, $bound) && !has!($ours, $bound) {
            $lacks.push(format!("{}: {}", stringify!($ours), stringify!($bound)));
        })+
    };
}

#[test]
fn auto_traits_are_those_of_std() {
    let mut lacks: Vec<String> = vec![];
    macro_rules! around {
        ($($value:ty),+) => {
            $(
                compare!(lacks, poison::Mutex<$value>, std::sync::Mutex<$value>);
                compare!(lacks, poison::RwLock<$value>, std::sync::RwLock<$value>);
                compare!(lacks, poison::MutexGuard<'static, $value>, std::sync::MutexGuard<'static, $value>);
                compare!(lacks, poison::RwLockReadGuard<'static, $value>, std::sync::RwLockReadGuard<'static, $value>);
                compare!(lacks, poison::RwLockWriteGuard<'static, $value>, std::sync::RwLockWriteGuard<'static, $value>);
                compare!(lacks, sync::OnceLock<$value>, std::sync::OnceLock<$value>);
                compare!(lacks, sync::LazyLock<$value>, std::sync::LazyLock<$value>);
                compare!(lacks, thread::JoinHandle<$value>, std::thread::JoinHandle<$value>);
                compare!(lacks, thread::ScopedJoinHandle<'static, $value>, std::thread::ScopedJoinHandle<'static, $value>);
                compare!(lacks, channel::Sender<$value>, std::sync::mpsc::SyncSender<$value>);
                compare!(lacks, channel::Receiver<$value>, std::sync::mpsc::Receiver<$value>);
                compare!(lacks, channel::SendError<$value>, std::sync::mpsc::SendError<$value>);
                compare!(lacks, channel::TrySendError<$value>, std::sync::mpsc::TrySendError<$value>);
            )+
        };
    }
    around!(u8, String, Cell<u8>, Rc<u8>, &'static mut u8, &'static Cell<u8>);
    compare!(lacks, poison::Condvar, std::sync::Condvar);
    compare!(lacks, poison::WaitTimeoutResult, std::sync::WaitTimeoutResult);
    compare!(lacks, sync::Condvar, std::sync::Condvar);
    compare!(lacks, sync::Barrier, std::sync::Barrier);
    compare!(lacks, sync::BarrierWaitResult, std::sync::BarrierWaitResult);
    compare!(lacks, sync::Once, std::sync::Once);
    compare!(lacks, sync::OnceState, std::sync::OnceState);
    compare!(lacks, thread::Thread, std::thread::Thread);
    compare!(lacks, thread::ThreadId, std::thread::ThreadId);
    compare!(lacks, thread::Builder, std::thread::Builder);
    compare!(lacks, channel::RecvError, std::sync::mpsc::RecvError);
    compare!(lacks, channel::TryRecvError, std::sync::mpsc::TryRecvError);
    compare!(lacks, channel::RecvTimeoutError, std::sync::mpsc::RecvTimeoutError);
    assert!(lacks.is_empty(), "{lacks:#?}");
}

#[cfg(all(unix, feature = "net"))]
#[test]
fn auto_traits_of_sockets_are_those_of_std() {
    use selvedge::{net, os::unix::net as unix};
    let mut lacks: Vec<String> = vec![];
    compare!(lacks, net::TcpStream, std::net::TcpStream);
    compare!(lacks, net::TcpListener, std::net::TcpListener);
    compare!(lacks, net::Incoming<'static>, std::net::Incoming<'static>);
    compare!(lacks, net::UdpSocket, std::net::UdpSocket);
    compare!(lacks, unix::UnixStream, std::os::unix::net::UnixStream);
    compare!(lacks, unix::UnixListener, std::os::unix::net::UnixListener);
    compare!(lacks, unix::UnixDatagram, std::os::unix::net::UnixDatagram);
    compare!(lacks, selvedge::io::Async<std::fs::File>, std::fs::File);
    assert!(lacks.is_empty(), "{lacks:#?}");
}

/// Functions that compile only if the types are covariant.
mod covariant {
    use super::{poison, thread};

    pub(super) fn in_the_value<'a>(
        guard: poison::RwLockReadGuard<'a, &'static str>,
    ) -> poison::RwLockReadGuard<'a, &'a str> {
        guard
    }

    pub(super) fn in_the_lock<'a>(guard: poison::MutexGuard<'static, u8>) -> poison::MutexGuard<'a, u8> {
        guard
    }

    pub(super) fn of_a_writer<'a>(
        guard: poison::RwLockWriteGuard<'static, u8>,
    ) -> poison::RwLockWriteGuard<'a, u8> {
        guard
    }

    pub(super) fn in_the_scope<'a>(
        handle: thread::ScopedJoinHandle<'static, u8>,
    ) -> thread::ScopedJoinHandle<'a, u8> {
        handle
    }
}

#[test]
fn guards_are_covariant() {
    static LOCK: poison::RwLock<&str> = poison::RwLock::new("static");
    static MUTEX: poison::Mutex<u8> = poison::Mutex::new(1);
    static BYTE: poison::RwLock<u8> = poison::RwLock::new(2);
    fn longer<'a>(guard: poison::RwLockReadGuard<'a, &'static str>, other: &'a str) -> usize {
        let guard = covariant::in_the_value(guard);
        [*guard, other].iter().map(|text| text.len()).max().unwrap()
    }
    assert_eq!(longer(LOCK.read().unwrap(), &String::from("no more than this")), 17);
    assert_eq!(*covariant::in_the_lock(MUTEX.lock().unwrap()), 1);
    assert_eq!(*covariant::of_a_writer(BYTE.write().unwrap()), 2);
    let _ = covariant::in_the_scope;
    assert!(LOCK.try_write().is_ok(), "the reader has left");
}

/// Each read guard leaves the lock once, also one that was a write guard before.
#[test]
fn a_read_guard_leaves_once() {
    let lock = poison::RwLock::new(vec![1]);
    let (one, two) = (lock.read().unwrap(), lock.read().unwrap());
    assert_eq!((one.len(), format!("{two:?}").as_str()), (1, "[1]"));
    drop(one);
    assert!(lock.try_write().is_err());
    drop(two);
    let read = poison::RwLockWriteGuard::downgrade(lock.write().unwrap());
    assert!(lock.try_write().is_err() && lock.try_read().is_ok());
    drop(read);
    assert!(lock.try_write().is_ok());
}

/// The borrow checker once required the value of a cell to outlive the cell.
#[test]
fn a_cell_may_hold_what_ends_with_it() {
    let cell = OnceLock::new();
    {
        let text = String::from("text");
        cell.set(&text).unwrap();
        assert_eq!(cell.get().map(|text| text.as_str()), Some("text"));
    }
}

/// Each value is dropped exactly once.
#[test]
fn a_cell_drops_its_value_once() {
    let value = Rc::new(());
    let mut cell = OnceLock::from(Rc::clone(&value));
    assert!(cell.set(Rc::clone(&value)).is_err());
    assert_eq!(Rc::strong_count(&value), 2);
    assert!(cell.take().is_some() && cell.take().is_none());
    assert_eq!(Rc::strong_count(&value), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| cell.get_or_init(|| panic!("on purpose")))).is_err());
    assert!(cell.get().is_none() && cell.get_mut().is_none());
    cell.set(Rc::clone(&value)).unwrap();
    assert!(cell.get_mut().is_some());
    drop(cell);
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn a_once_says_how_it_stands() {
    #[allow(deprecated, reason = "std has it")]
    static ONCE: Once = sync::ONCE_INIT;
    assert_eq!(ONCE.state(), OncePhase::New);
    assert!(!ONCE.state().poisoned() && !ONCE.state().done());
    let panics = || ONCE.call_once(|| panic!("on purpose"));
    assert!(catch_unwind(panics).is_err());
    assert!(ONCE.state().poisoned() && !ONCE.state().done());
    ONCE.call_once_force(|_| assert_eq!(ONCE.state(), OncePhase::InProgress));
    assert!(ONCE.state().done() && !ONCE.state().poisoned());
    assert_eq!(Once::new_completed().state(), OncePhase::Done);
    let text = format!("{:?} {:?} {:?}", Once::new(), OnceLock::<u8>::new(), OnceLock::from(1));
    assert_eq!(text, "Once { .. } OnceLock(<uninit>) OnceLock(1)");
}

#[test]
fn locks_are_made_by_constants() {
    static MUTEX: sync::Mutex<u8> = sync::const_mutex(1);
    static FAIR: FairMutex<u8> = sync::const_fair_mutex(2);
    static RW: sync::RwLock<u8> = sync::const_rwlock(3);
    static REENTRANT: sync::ReentrantMutex<u8> = sync::const_reentrant_mutex(4);
    assert_eq!(*MUTEX.lock() + *FAIR.lock() + *RW.read() + *REENTRANT.lock(), 10);
}

#[test]
fn errors_can_be_keys_and_permits_know_their_semaphore() {
    let errors = std::collections::HashSet::from([
        channel::TrySendError::Full(1),
        channel::TrySendError::Disconnected(1),
    ]);
    assert_eq!(errors.len(), 2);
    let semaphore = Semaphore::default();
    assert_eq!(semaphore.available_permits(), 0);
    semaphore.add_permits(1);
    assert!(std::ptr::eq(semaphore.acquire().semaphore(), &semaphore));
}

#[test]
fn guards_of_parts_unlock_once() {
    use selvedge::sync::{CheckedMutex, CheckedMutexGuard, RobustMutex, RobustMutexGuard};

    let checked = CheckedMutex::new((1, 2));
    let mut part = CheckedMutexGuard::map(checked.lock().unwrap(), |pair| &mut pair.1);
    *part += 1;
    assert!(checked.lock().is_err(), "the running thread owns it");
    drop(part);
    let whole = CheckedMutexGuard::try_map(checked.lock().unwrap(), |_| None::<&mut u32>).unwrap_err();
    assert_eq!((whole.1, checked.is_locked()), (3, true));
    drop(whole);
    assert!(!checked.is_locked());

    let robust = RobustMutex::new((1, 2));
    let mut part = RobustMutexGuard::map(robust.lock().unwrap().unwrap(), |pair| &mut pair.1);
    *part += 1;
    drop(part);
    assert!(!robust.is_locked());
    let panics = || {
        let _part = RobustMutexGuard::map(robust.lock().unwrap().unwrap(), |pair| &mut pair.1);
        panic!("on purpose");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(robust.lock().unwrap().condition(), sync::Condition::OwnerPanicked);
}

#[test]
fn guards_of_parts_poison() {
    use poison::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    let mutex = poison::Mutex::new((1, 2));
    let mut part = MutexGuard::map(mutex.lock().unwrap(), |pair| &mut pair.1);
    *part += 1;
    assert!(mutex.try_lock().is_err());
    drop(part);
    let whole = MutexGuard::filter_map(mutex.lock().unwrap(), |_| None::<&mut u32>).unwrap_err();
    assert_eq!(whole.1, 3);
    drop(whole);
    let panics = || {
        let _part = MutexGuard::map(mutex.lock().unwrap(), |pair| &mut pair.1);
        panic!("on purpose");
    };
    assert!(catch_unwind(panics).is_err() && mutex.is_poisoned());
    assert!(matches!(mutex.try_lock(), Err(poison::TryLockError::Poisoned(_))), "it is unlocked");

    let lock = poison::RwLock::new((1, 2));
    let part = RwLockReadGuard::map(lock.read().unwrap(), |pair| &pair.1);
    assert!(*part == 2 && lock.try_read().is_ok() && lock.try_write().is_err());
    drop(part);
    let mut part = RwLockWriteGuard::map(lock.write().unwrap(), |pair| &mut pair.1);
    *part += 1;
    assert!(lock.try_read().is_err());
    drop(part);
    assert_eq!(*lock.try_write().unwrap(), (1, 3));
    let panics = || {
        let _part = RwLockWriteGuard::filter_map(lock.write().unwrap(), |pair| Some(&mut pair.1)).unwrap();
        panic!("on purpose");
    };
    assert!(catch_unwind(panics).is_err() && lock.is_poisoned());
    assert!(matches!(lock.try_write(), Err(poison::TryLockError::Poisoned(_))), "it is unlocked");
}

#[test]
#[allow(deprecated, reason = "std has it")]
fn a_wait_in_milliseconds_says_whether_it_was_notified() {
    let (mutex, condvar) = (poison::Mutex::new(false), poison::Condvar::new());
    let (mut guard, notified) = condvar.wait_timeout_ms(mutex.lock().unwrap(), 1).unwrap();
    assert!(!notified);
    std::thread::scope(|s| {
        s.spawn(|| {
            *mutex.lock().unwrap() = true;
            condvar.notify_one();
        });
        while !*guard {
            let notified;
            (guard, notified) = condvar.wait_timeout_ms(guard, 60_000).unwrap();
            assert!(notified);
        }
        drop(guard);
        let panics = || {
            let _guard = mutex.lock().unwrap();
            std::panic::resume_unwind(Box::new(()));
        };
        assert!(s.spawn(panics).join().is_err());
    });
    let guard = mutex.lock().unwrap_or_else(poison::PoisonError::into_inner);
    let (guard, notified) = condvar.wait_timeout_ms(guard, 1).unwrap_err().into_inner();
    assert!(*guard && !notified);
}

#[test]
#[allow(deprecated, reason = "std has it")]
fn a_park_in_milliseconds_lasts_so_long() {
    let parked = || {
        let begin = Instant::now();
        thread::park_timeout_ms(20);
        begin.elapsed()
    };
    assert!(std::thread::spawn(parked).join().unwrap() >= Duration::from_millis(20));
}
