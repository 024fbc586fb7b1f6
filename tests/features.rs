//! What features add to the locks: guards that own a share of their lock, and serde.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use selvedge::sync::{
    Acquired, ArcMutexGuard, ArcReentrantMutexGuard, CheckedMutex, Condition, Mutex, ReentrantMutex,
    RobustMutex, RwLock, poison, process_shared,
};
use watchdog::Watchdog;

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn guards_own_a_share() {
    let _watchdog = Watchdog::start("guards own a share");
    let mutex = Arc::new(Mutex::new(1));
    let mut guard: ArcMutexGuard<i32> = mutex.lock_arc();
    *guard += 1;
    assert!(mutex.try_lock_arc_for(SHORT).is_none());
    drop(mutex);
    assert_eq!(*guard, 2);
    let lock = Arc::new(RwLock::new(1));
    let reader = lock.read_arc();
    let upgradable = lock.upgradable_read_arc();
    assert!(lock.try_write_arc().is_none());
    drop((lock, reader));
    let mut writer = lock_api::ArcRwLockUpgradableReadGuard::upgrade(upgradable);
    *writer += 1;
    assert_eq!(*writer, 2);
    let reentrant = Arc::new(ReentrantMutex::new(Cell::new(1)));
    let first: ArcReentrantMutexGuard<Cell<i32>> = reentrant.lock_arc();
    let second = reentrant.try_lock_arc().expect("the same thread");
    drop(reentrant);
    second.set(2);
    assert_eq!(first.get(), 2);
}

#[test]
fn values_are_written_and_read() {
    let _watchdog = Watchdog::start("values are written and read");
    macro_rules! there_and_back {
        ($($lock:ty),*) => {$({
            let lock: $lock = serde_json::from_str("[1,2]").expect("two numbers");
            assert_eq!(serde_json::to_string(&lock).expect("they are written"), "[1,2]");
            assert!(serde_json::from_str::<$lock>("[1,\"two\"]").is_err());
        })*};
    }
    there_and_back!(
        Mutex<Vec<u8>>,
        CheckedMutex<Vec<u8>>,
        RobustMutex<Vec<u8>>,
        poison::Mutex<Vec<u8>>,
        poison::RwLock<Vec<u8>>,
        RwLock<Vec<u8>>,
        process_shared::Mutex<[u8; 2]>,
        ReentrantMutex<Vec<u8>>
    );
}

#[test]
fn what_cannot_be_vouched_for_is_not_written() {
    let _watchdog = Watchdog::start("what cannot be vouched for is not written");
    let checked = CheckedMutex::new(1);
    let guard = checked.lock().unwrap();
    assert!(serde_json::to_string(&checked).unwrap_err().to_string().contains("owns the lock"));
    drop(guard);
    let (robust, poisoned) = (RobustMutex::new(1), poison::Mutex::new(1));
    std::thread::scope(|s| {
        let panics = s.spawn(|| {
            let _guards = (robust.lock(), poisoned.lock());
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
    });
    assert!(serde_json::to_string(&poisoned).unwrap_err().to_string().contains("poisoned"));
    assert!(serde_json::to_string(&robust).unwrap_err().to_string().contains("panicked"));
    // The news is still there.
    let Ok(Acquired::OwnerPanicked(mut guard)) = robust.lock() else { panic!("no news") };
    assert!(guard.mark_consistent());
    drop(guard);
    assert_eq!(serde_json::to_string(&robust).unwrap(), "1");
    assert_eq!(robust.lock().unwrap().condition(), Condition::Consistent);
}
