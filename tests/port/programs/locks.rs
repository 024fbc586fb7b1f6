// Mutexes and read-write locks: exclusion, sharing, poison, and the values that they return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{
    Arc, LockResult, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};
use std::thread;

static TOTAL: Mutex<usize> = Mutex::new(0);

fn exclusion() {
    let threads: Vec<_> =
        (0..8).map(|_| thread::spawn(|| (0..500).for_each(|_| *TOTAL.lock().unwrap() += 1))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{}", TOTAL.lock().unwrap());

    let table = Arc::new(RwLock::new(vec![0; 4]));
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                for _ in 0..100 {
                    table.write().unwrap()[n] += 1;
                    assert!(table.read().unwrap()[n] <= 100);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{table:?}");
}

fn tries() {
    let mutex = Mutex::new(1);
    let guard = mutex.lock().unwrap();
    println!("{:?}", mutex.try_lock().map(drop));
    drop(guard);
    println!("{:?}", mutex.try_lock());
    println!("{mutex:?}");

    let lock = RwLock::new(1);
    let reads = (lock.read().unwrap(), lock.try_read().unwrap());
    println!("{:?} {:?} {:?}", reads, lock.try_write().map(drop), lock);
    drop(reads);
    let write = lock.write().unwrap();
    println!("{:?} {:?}", lock.try_read().map(drop), lock.try_write().map(drop));
    let mut write = write;
    *write += 1;
    let read = RwLockWriteGuard::downgrade(write);
    println!("{read} {}", lock.try_read().unwrap());
    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
}

/// Panics with the lock held.
fn fail<G>(lock: impl FnOnce() -> G) {
    assert!(
        catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock();
            panic!("on purpose");
        }))
        .is_err()
    );
}

fn poison() {
    let mut mutex = Mutex::new(String::from("value"));
    fail(|| mutex.lock().unwrap());
    println!("{} {mutex:?}", mutex.is_poisoned());
    println!("{:?}", mutex.lock());
    println!("{:?}", mutex.try_lock());
    println!("{}", mutex.lock().unwrap_err());
    println!("{}", mutex.try_lock().unwrap_err());
    println!("{:?}", mutex.get_mut().map_err(|error| error.into_inner().len()));
    let guard: MutexGuard<'_, _> = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{guard} {guard:?}");
    drop(guard);
    mutex.clear_poison();
    println!("{:?} {}", mutex.lock(), mutex.is_poisoned());
    fail(|| mutex.lock().unwrap());
    println!("{:?}", mutex.into_inner().map_err(PoisonError::into_inner));

    let mut lock = RwLock::new(1);
    fail(|| lock.read().unwrap());
    println!("readers do not poison: {}", !lock.is_poisoned());
    fail(|| lock.write().unwrap());
    println!("{} {lock:?} {:?} {:?}", lock.is_poisoned(), lock.read().is_err(), lock.try_write().is_err());
    *lock.get_mut().unwrap_or_else(PoisonError::into_inner) += 1;
    lock.clear_poison();
    println!("{:?}", lock.into_inner());

    // A guard that exists before the panic and is dropped after it does not poison.
    let mutex = Mutex::new(1);
    let guard = mutex.lock().unwrap();
    assert!(catch_unwind(|| panic!("on purpose")).is_err());
    drop(guard);
    println!("{}", mutex.is_poisoned());
}

fn shapes() {
    let slice: &Mutex<[u8]> = &Mutex::new([1, 2, 3]);
    slice.lock().unwrap()[1] = 7;
    println!("{slice:?}");
    let object: Box<RwLock<dyn Fn() -> u8 + Send + Sync>> = Box::new(RwLock::new(|| 9));
    println!("{}", object.read().unwrap()());
    let (mutex, lock): (Mutex<u8>, RwLock<String>) = (Mutex::from(1), RwLock::default());
    println!("{mutex:?} {lock:?} {:?}", Mutex::<Option<u8>>::default());
    let result: LockResult<u8> = mutex.into_inner();
    println!("{result:?}");
}

// A guard of a value with a longer lifetime is also a guard of a value with a shorter one.
fn shorten<'a>(guard: RwLockReadGuard<'a, &'static str>) -> RwLockReadGuard<'a, &'a str> {
    guard
}

fn main() {
    exclusion();
    tries();
    poison();
    shapes();
    println!("{}", shorten(RwLock::new("longer").read().unwrap()));
}
