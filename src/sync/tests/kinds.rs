//! What may be sent and shared, how large it is, and what can be made in a constant.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use crate::sync::{
    CheckedMutex, CheckedMutexGuard, Mutex, RawCheckedMutex, RawMutex, RawRobustMutex, ReentrantMutex,
    ReentrantMutexGuard, RobustMutex, RobustMutexGuard, poison, shared, stats,
};

/// Whether a type has a trait, found out by which of two methods of the same name is nearer.
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
        A in CheckedMutex, B in RobustMutex, C in ReentrantMutex, D in poison::Mutex, E in shared::Mutex, F in Mutex
    );
    assert!(!has!(poison::RwLock<Rc<u8>>: Send) && !has!(poison::RwLock<Rc<u8>>: Sync));
    // Readers share it.
    assert!(has!(poison::RwLock<u8>: Sync) && !has!(poison::RwLock<Cell<u8>>: Sync));
    assert!(has!(RawCheckedMutex: Send + Sync) && has!(RawRobustMutex: Send + Sync));
    assert!(has!(shared::RawMutex: Send + Sync) && has!(poison::Condvar: Send + Sync));
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
        E in shared::MutexGuard, F in poison::RwLockReadGuard, G in poison::RwLockWriteGuard
    );
    assert!(!has!(shared::Orphan<'static, u8>: Send) && !has!(shared::Legacy<'static, u8>: Send));
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
    static SHARED: shared::Mutex<u8> = shared::Mutex::new(1);
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
