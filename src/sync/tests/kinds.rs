//! Which types may be sent and shared, how large they are, and which can be made in a constant.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::sync::{
    CheckedMutex, CheckedMutexGuard, Mutex, RawCheckedMutex, RawFairMutex, RawMutex, RawRobustMutex,
    RawRwLock, ReentrantMutex, ReentrantMutexGuard, RobustMutex, RobustMutexGuard, poison, process_shared,
    stats,
};

/// Expands to `true` if a type has a trait: the nearer of two methods of the same name tells.
macro_rules! has {
    ($ty:ty: $($bound:tt)+) => {{
        struct Asked<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "of the two one is not called")]
        impl<T: ?Sized + $($bound)+> Asked<T> {
            fn answer(&self) -> bool {
                true
            }
        }
        #[allow(dead_code, reason = "of the two one is not called")]
        trait Otherwise {
            fn answer(&self) -> bool {
                false
            }
        }
        impl<T: ?Sized> Otherwise for Asked<T> {}
        Asked::<$ty>(std::marker::PhantomData).answer()
    }};
}

#[test]
fn locks_share_what_may_be_sent() {
    macro_rules! each {
        ($($lock:ident in $path:path),*) => {$({
            use $path as $lock;
            assert!(has!($lock<Cell<u8>>: Send + Sync), "one thread at a time");
            assert!(!has!($lock<Rc<u8>>: Send) && !has!($lock<Rc<u8>>: Sync));
        })*};
    }
    each!(
        A in CheckedMutex, B in RobustMutex, C in ReentrantMutex, D in poison::Mutex, E in process_shared::Mutex, F in Mutex
    );
    assert!(!has!(poison::RwLock<Rc<u8>>: Send) && !has!(poison::RwLock<Rc<u8>>: Sync));
    // Readers share the value.
    assert!(has!(poison::RwLock<u8>: Sync) && !has!(poison::RwLock<Cell<u8>>: Sync));
    assert!(has!(RawCheckedMutex: Send + Sync) && has!(RawRobustMutex: Send + Sync));
    assert!(has!(process_shared::RawMutex: Send + Sync) && has!(poison::Condvar: Send + Sync));
}

#[test]
fn guards_stay_with_their_thread() {
    macro_rules! each {
        ($($guard:ident in $path:path),*) => {$({
            use $path as $guard;
            assert!(!has!($guard<'static, u8>: Send) && has!($guard<'static, u8>: Sync));
            assert!(!has!($guard<'static, Cell<u8>>: Sync), "shared access is shared access");
        })*};
    }
    each!(
        A in CheckedMutexGuard, B in RobustMutexGuard, C in ReentrantMutexGuard, D in poison::MutexGuard,
        E in process_shared::MutexGuard, F in poison::RwLockReadGuard, G in poison::RwLockWriteGuard
    );
    assert!(
        !has!(process_shared::Abandoned<'static, u8>: Send)
            && !has!(process_shared::Acquired<'static, u8>: Send)
    );
}

#[test]
fn what_is_poisoned_may_pass_a_panic() {
    assert!(has!(poison::Mutex<Cell<u8>>: UnwindSafe + RefUnwindSafe));
    assert!(has!(poison::RwLock<Cell<u8>>: UnwindSafe + RefUnwindSafe));
    assert!(has!(poison::Condvar: UnwindSafe + RefUnwindSafe));
}

#[test]
fn all_are_made_in_constants_and_have_names() {
    static CHECKED: CheckedMutex<u8> = CheckedMutex::new(1);
    static ROBUST: RobustMutex<u8> = RobustMutex::new(1);
    static REENTRANT: ReentrantMutex<u8> = ReentrantMutex::new(1);
    static POISONED: poison::Mutex<u8> = poison::Mutex::new(1);
    static SHARED: process_shared::Mutex<u8> = process_shared::Mutex::new(1);
    static CHANGED: poison::Condvar = poison::Condvar::new();
    stats::name(&CHECKED, "checked");
    stats::name(&ROBUST, "robust");
    stats::name(&REENTRANT, "reentrant");
    stats::name(&POISONED, "poisoned");
    CHANGED.notify_all();
    let sum = *CHECKED.lock().unwrap()
        + *ROBUST.lock().unwrap().unwrap()
        + *REENTRANT.lock()
        + *POISONED.lock().unwrap()
        + *SHARED.lock().unwrap().unwrap();
    assert_eq!(sum, 5);
    stats::unname(&CHECKED);
    stats::unname(&ROBUST);
    stats::unname(&REENTRANT);
    stats::unname(&POISONED);
}

#[test]
fn sizes_are_what_they_should_be() {
    assert_eq!(size_of::<RawMutex>(), 4);
    assert_eq!(size_of::<poison::Mutex<[u8; 3]>>(), 8);
    assert_eq!(size_of::<RawCheckedMutex>(), 16);
    assert_eq!(size_of::<RawRobustMutex>(), 16);
}

/// Checks raw locks by the traits of `lock_api`.
#[test]
fn raw_locks_say_whether_they_are_locked() {
    fn check<R: lock_api::RawMutexTimed<Duration = Duration, Instant = Instant>>() {
        let lock = R::INIT;
        let unlock = |lock: &R| {
            // SAFETY: this thread has just locked it.
            unsafe { lock.unlock() };
        };
        assert!(!lock.is_locked());
        assert!(lock.try_lock() && lock.is_locked() && !lock.try_lock());
        assert!(!lock.try_lock_for(Duration::ZERO) && !lock.try_lock_until(Instant::now()));
        unlock(&lock);
        assert!(!lock.is_locked());
        assert!(lock.try_lock_for(Duration::ZERO) && lock.is_locked());
        unlock(&lock);
        assert!(lock.try_lock_until(Instant::now()) && lock.is_locked());
        unlock(&lock);
        lock.lock();
        assert!(lock.is_locked());
        unlock(&lock);
        assert!(!lock.is_locked());
    }
    check::<RawMutex>();
    check::<RawFairMutex>();
}

#[test]
fn guards_show_what_they_guard() {
    let checked = CheckedMutex::new((1, 2));
    let part = CheckedMutexGuard::map(checked.lock().unwrap(), |pair| &mut pair.0);
    assert_eq!(format!("{part} {part:?}"), "1 1");
    drop(part);
    let (checked, robust, reentrant) = (CheckedMutex::new(1), RobustMutex::new(2), ReentrantMutex::new(3));
    let guards = (checked.lock().unwrap(), robust.lock().unwrap().unwrap(), reentrant.lock());
    assert_eq!(format!("{} {} {}", guards.0, guards.1, guards.2), "1 2 3");
    let (poisoned, rwlock) = (poison::Mutex::new(4), poison::RwLock::new(5));
    assert_eq!(format!("{} {}", poisoned.lock().unwrap(), rwlock.read().unwrap()), "4 5");
    assert_eq!(format!("{}", rwlock.write().unwrap()), "5");
    drop(guards);
    let part = RobustMutexGuard::map(robust.lock().unwrap().unwrap(), |value| value);
    assert_eq!(format!("{part}"), "2");
    let part = poison::MutexGuard::map(poisoned.lock().unwrap(), |value| value);
    assert_eq!(format!("{part}"), "4");
    let part = poison::RwLockReadGuard::map(rwlock.read().unwrap(), |value| value);
    assert_eq!(format!("{part}"), "5");
    drop(part);
    let part = poison::RwLockWriteGuard::map(rwlock.write().unwrap(), |value| value);
    assert_eq!(format!("{part}"), "5");
}

#[test]
fn readers_and_writers_of_a_raw_lock_wait_until_a_deadline() {
    use lock_api::{
        RawRwLock as _, RawRwLockRecursiveTimed as _, RawRwLockTimed as _, RawRwLockUpgrade as _,
        RawRwLockUpgradeTimed as _,
    };
    let lock = RawRwLock::INIT;
    let now = Instant::now();
    assert!(lock.try_lock_shared_until(now) && lock.try_lock_shared_recursive_until(now));
    assert!(lock.try_lock_upgradable_until(now) && !lock.try_lock_upgradable_until(now));
    assert!(!lock.try_lock_exclusive_until(now));
    // SAFETY: locked above.
    unsafe { lock.unlock_upgradable() };
    for _ in 0..2 {
        // SAFETY: locked above, twice.
        unsafe { lock.unlock_shared() };
    }
    assert!(lock.try_lock_exclusive_until(now) && !lock.try_lock_shared_until(now));
    assert!(!lock.try_lock_shared_recursive_until(now));
    // SAFETY: locked above.
    unsafe { lock.unlock_exclusive() };
    assert!(!lock.is_locked());
}

#[test]
fn what_is_not_locked_cannot_be_unlocked() {
    use lock_api::{RawRwLock as _, RawRwLockUpgrade as _};
    type Unlock = fn(&RawRwLock);
    let unlocks: [Unlock; 3] = [
        // SAFETY: broken on purpose: the lock is not locked like that; here and below.
        |lock| unsafe { lock.unlock_shared() },
        // SAFETY: broken on purpose.
        |lock| unsafe { lock.unlock_upgradable() },
        // SAFETY: broken on purpose.
        |lock| unsafe { lock.unlock_exclusive() },
    ];
    let is_refused =
        |lock: &RawRwLock, unlock: Unlock| catch_unwind(AssertUnwindSafe(|| unlock(lock))).is_err();
    for unlock in unlocks {
        let lock = RawRwLock::INIT;
        assert!(is_refused(&lock, unlock) && !lock.is_locked());
    }
    let lock = RawRwLock::INIT;
    lock.lock_shared();
    assert!(is_refused(&lock, unlocks[1]) && is_refused(&lock, unlocks[2]));
    unlocks[0](&lock);
    assert!(!lock.is_locked());
}
