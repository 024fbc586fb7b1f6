// Every function and method of `std::sync`, with its signature.

use std::sync::{
    Barrier, BarrierWaitResult, Condvar, LazyLock, LockResult, Mutex, MutexGuard, ONCE_INIT, Once, OnceLock,
    OnceState, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
    WaitTimeoutResult,
};
use std::time::Duration;

type Make = fn() -> u8;
type Lazy = LazyLock<u8, Make>;
type Waited<'a, R> = LockResult<(MutexGuard<'a, u8>, R)>;
type While = fn(&mut u8) -> bool;

fn locks() {
    const { assert!(size_of::<Mutex<u8>>() > 0) };
    let _: fn(u8) -> Mutex<u8> = Mutex::new;
    let _: fn(&Mutex<u8>) -> LockResult<MutexGuard<'_, u8>> = Mutex::lock;
    let _: fn(&Mutex<u8>) -> TryLockResult<MutexGuard<'_, u8>> = Mutex::try_lock;
    let _: fn(&Mutex<u8>) -> bool = Mutex::is_poisoned;
    let _: fn(&Mutex<u8>) = Mutex::clear_poison;
    let _: fn(Mutex<u8>) -> LockResult<u8> = Mutex::into_inner;
    let _: fn(&mut Mutex<u8>) -> LockResult<&mut u8> = Mutex::get_mut;

    let _: fn(u8) -> RwLock<u8> = RwLock::new;
    let _: fn(&RwLock<u8>) -> LockResult<RwLockReadGuard<'_, u8>> = RwLock::read;
    let _: fn(&RwLock<u8>) -> TryLockResult<RwLockReadGuard<'_, u8>> = RwLock::try_read;
    let _: fn(&RwLock<u8>) -> LockResult<RwLockWriteGuard<'_, u8>> = RwLock::write;
    let _: fn(&RwLock<u8>) -> TryLockResult<RwLockWriteGuard<'_, u8>> = RwLock::try_write;
    let _: fn(&RwLock<u8>) -> bool = RwLock::is_poisoned;
    let _: fn(&RwLock<u8>) = RwLock::clear_poison;
    let _: fn(RwLock<u8>) -> LockResult<u8> = RwLock::into_inner;
    let _: fn(&mut RwLock<u8>) -> LockResult<&mut u8> = RwLock::get_mut;
    let _: for<'a> fn(RwLockWriteGuard<'a, u8>) -> RwLockReadGuard<'a, u8> =
        |guard| RwLockWriteGuard::downgrade(guard);
}

fn conditions() {
    let _: fn() -> Condvar = Condvar::new;
    let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>) -> LockResult<MutexGuard<'a, u8>> = Condvar::wait;
    let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>, While) -> LockResult<MutexGuard<'a, u8>> =
        Condvar::wait_while;
    let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>, u32) -> Waited<'a, bool> = Condvar::wait_timeout_ms;
    let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>, Duration) -> Waited<'a, WaitTimeoutResult> =
        Condvar::wait_timeout;
    let _: for<'a> fn(&Condvar, MutexGuard<'a, u8>, Duration, While) -> Waited<'a, WaitTimeoutResult> =
        Condvar::wait_timeout_while;
    let _: fn(&Condvar) = Condvar::notify_one;
    let _: fn(&Condvar) = Condvar::notify_all;
    let _: fn(&WaitTimeoutResult) -> bool = WaitTimeoutResult::timed_out;

    let _: fn(usize) -> Barrier = Barrier::new;
    let _: fn(&Barrier) -> BarrierWaitResult = Barrier::wait;
    let _: fn(&BarrierWaitResult) -> bool = BarrierWaitResult::is_leader;
}

fn once() {
    static OLD: Once = ONCE_INIT;
    OLD.call_once(|| println!("once"));

    let _: fn() -> Once = Once::new;
    let _: fn(&Once, fn()) = Once::call_once;
    let _: fn(&Once, fn(&OnceState)) = Once::call_once_force;
    let _: fn(&Once) -> bool = Once::is_completed;
    let _: fn(&Once) = Once::wait;
    let _: fn(&Once) = Once::wait_force;
    let _: fn(&OnceState) -> bool = OnceState::is_poisoned;

    let _: fn() -> OnceLock<u8> = OnceLock::new;
    let _: fn(&OnceLock<u8>) -> Option<&u8> = OnceLock::get;
    let _: fn(&mut OnceLock<u8>) -> Option<&mut u8> = OnceLock::get_mut;
    let _: fn(&OnceLock<u8>) -> &u8 = OnceLock::wait;
    let _: fn(&OnceLock<u8>, u8) -> Result<(), u8> = OnceLock::set;
    let _: fn(&OnceLock<u8>, Make) -> &u8 = OnceLock::get_or_init;
    let _: fn(OnceLock<u8>) -> Option<u8> = OnceLock::into_inner;
    let _: fn(&mut OnceLock<u8>) -> Option<u8> = OnceLock::take;

    let _: fn(Make) -> Lazy = LazyLock::new;
    let _: fn(&mut Lazy) -> &mut u8 = LazyLock::force_mut;
    let _: fn(&Lazy) -> &u8 = LazyLock::force;
    let _: fn(&mut Lazy) -> Option<&mut u8> = LazyLock::get_mut;
    let _: fn(&Lazy) -> Option<&u8> = LazyLock::get;
}

fn errors() {
    let _: fn(u8) -> PoisonError<u8> = PoisonError::new;
    let _: fn(PoisonError<u8>) -> u8 = PoisonError::into_inner;
    let _: fn(&PoisonError<u8>) -> &u8 = PoisonError::get_ref;
    let _: fn(&mut PoisonError<u8>) -> &mut u8 = PoisonError::get_mut;
    let all = [TryLockError::WouldBlock, TryLockError::Poisoned(PoisonError::new(1))];
    println!("{all:?}");
}

// A type with a `const` constructor can be a static.
static MUTEX: Mutex<u8> = Mutex::new(1);
static RWLOCK: RwLock<u8> = RwLock::new(2);
static CONDVAR: Condvar = Condvar::new();
static BARRIER: Barrier = Barrier::new(1);
static ONCE: Once = Once::new();
static ONCE_LOCK: OnceLock<u8> = OnceLock::new();
static LAZY: LazyLock<u8> = LazyLock::new(|| 3);

fn main() {
    locks();
    conditions();
    once();
    errors();
    ONCE.call_once(|| ());
    CONDVAR.notify_all();
    assert!(BARRIER.wait().is_leader());
    println!(
        "{} {} {} {}",
        MUTEX.lock().unwrap(),
        RWLOCK.read().unwrap(),
        *LAZY,
        ONCE_LOCK.get_or_init(|| 4)
    );
}
