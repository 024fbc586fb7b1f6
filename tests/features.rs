//! What features add to the locks: guards that own a share of their lock, serde, and lock_api 0.5.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use selvedge::sync::{
    ArcMutexGuard, ArcReentrantMutexGuard, CheckedMutex, Condition, Legacy, Mutex, RawMutex, RawRwLock,
    RawThreadId, ReentrantMutex, RobustMutex, RwLock, lock_api_05, poison, shared,
};
use selvedge::{Mxn, Runtime, thread};
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
        lock_api_05::RwLock<Vec<u8>>,
        shared::Mutex<[u8; 2]>,
        lock_api_05::Mutex<Vec<u8>>,
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
    let Ok(Legacy::Panicked(mut guard)) = robust.lock() else { panic!("no news") };
    assert!(guard.mark_sound());
    drop(guard);
    assert_eq!(serde_json::to_string(&robust).unwrap(), "1");
    assert_eq!(robust.lock().unwrap().condition(), Condition::Sound);
}

#[test]
fn both_versions_stand_side_by_side() {
    const ROUNDS: u32 = 500;
    let _watchdog = Watchdog::start("both versions stand side by side");
    let rt = Mxn::builder().concurrency(2).build().expect("the runtime starts");
    let shared = Arc::new((lock_api_05::Mutex::new(0), lock_api_05::Condvar::new()));
    let players: Vec<_> = (0..2)
        .map(|mine| {
            let shared = Arc::clone(&shared);
            let play = move || {
                for _ in 0..ROUNDS {
                    let mut turn = shared.0.lock();
                    shared.1.wait_while(&mut turn, |turn| *turn % 2 != mine);
                    *turn += 1;
                    shared.1.notify_one();
                }
            };
            rt.spawn_with(thread::Builder::new().bound(mine == 0), play).unwrap()
        })
        .collect();
    players.into_iter().for_each(|player| player.join().unwrap());
    let mut guard = shared.0.lock();
    assert_eq!(*guard, 2 * ROUNDS);
    assert!(shared.1.wait_for(&mut guard, SHORT).timed_out());
    assert!(shared.0.try_lock().is_none() && shared.0.try_lock_for(SHORT).is_none());
    lock_api_05::MutexGuard::unlock_fair(guard);
    let part = lock_api_05::MutexGuard::map(shared.0.lock(), |value| value);
    assert!(shared.0.is_locked());
    drop(part);

    let reentrant = lock_api_05::ReentrantMutex::new(Cell::new(0));
    let (first, second) = (reentrant.lock(), reentrant.lock());
    first.set(1);
    assert_eq!(second.get(), 1);
    std::thread::scope(|s| assert!(s.spawn(|| reentrant.try_lock().is_none()).join().unwrap()));
    drop((first, second));
    std::thread::scope(|s| assert!(s.spawn(|| reentrant.try_lock().is_some()).join().unwrap()));

    // One raw lock has the traits of both.
    fn both<R: ::lock_api::RawMutexTimed + ::lock_api_05::RawMutexTimed>() {}
    both::<RawMutex>();
    fn both_rw<R: ::lock_api::RawRwLockUpgradeTimed + ::lock_api_05::RawRwLockUpgradeTimed>() {}
    both_rw::<RawRwLock>();

    use lock_api_05::{RwLockUpgradableReadGuard as Upgradable, RwLockWriteGuard as Writer};
    let lock = lock_api_05::RwLock::new(1);
    let reader = lock.upgradable_read();
    assert_eq!(*lock.read() + *reader, 2);
    assert!(lock.try_write().is_none() && lock.try_write_for(SHORT).is_none());
    let other = lock.read();
    let Err(reader) = Upgradable::try_upgrade(reader) else { panic!("somebody reads") };
    let Err(reader) = Upgradable::try_upgrade_for(reader, SHORT) else { panic!("somebody reads") };
    drop(other);
    let mut writer = Upgradable::upgrade(reader);
    *writer += 1;
    assert!(lock.try_read().is_none());
    let upgradable = Writer::downgrade_to_upgradable(writer);
    assert!(lock.try_upgradable_read().is_none() && lock.try_upgradable_read_for(SHORT).is_none());
    let reader = Upgradable::downgrade(upgradable);
    assert_eq!(*reader, 2);
    drop(reader);
    let mut writer = lock.write();
    Writer::bump(&mut writer);
    let reader = Writer::downgrade(writer);
    assert!(lock.try_read_for(SHORT).is_some());
    lock_api_05::RwLockReadGuard::unlock_fair(reader);
    assert!(!lock.is_locked());
    fn name<G: ::lock_api::GetThreadId + ::lock_api_05::GetThreadId>() {}
    name::<RawThreadId>();
}
