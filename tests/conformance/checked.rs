//! The checked mutex: what it refuses, to whom, and that it is a mutex otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::sync::{CheckedMutex, CheckedMutexGuard, LockError, RawCheckedMutex, UnlockError};
use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::mixed::{KINDS, everywhere};

both! {
    a_relock_is_refused_in_every_form,
    the_raw_lock_knows_its_owner,
    all_kinds_of_threads_exclude_each_other,
    deadlines_pass,
    interrupts_end_waits,
    a_leaked_guard_is_unlocked_by_its_owner,
    the_dead_own_it_for_ever,
    a_fair_unlock_hands_over,
}

const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(1000);

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(
        LockError::Deadlock.to_string(),
        "the thread owns the lock already, and would wait for itself"
    );
    assert_eq!(LockError::Interrupted.to_string(), "the wait was interrupted");
    assert_eq!(UnlockError::NotLocked.to_string(), "nobody has locked the lock");
    assert_eq!(UnlockError::NotOwner.to_string(), "another thread owns the lock");
}

fn a_relock_is_refused_in_every_form<L: Leg>() {
    everywhere::<L, _>(2, || {
        let mutex = CheckedMutex::new(vec![1]);
        let mut guard = mutex.lock().unwrap();
        thread::yield_now();
        let again = [
            mutex.lock().map(drop),
            mutex.try_lock().map(drop),
            mutex.try_lock_for(LONG).map(drop),
            mutex.try_lock_until(Instant::now() + LONG).map(drop),
            mutex.lock_interruptible().map(drop),
            mutex.lock_interruptible_for(LONG).map(drop),
            mutex.lock_interruptible_until(Instant::now() + LONG).map(drop),
        ];
        assert_eq!(again, [Err(LockError::Deadlock); 7]);
        assert!(mutex.is_locked() && mutex.is_owned_by_current_thread());
        assert_eq!(format!("{mutex:?}"), "CheckedMutex { data: <locked> }");
        guard.push(2);
        drop(guard);
        assert!(!mutex.is_locked() && !mutex.is_owned_by_current_thread());
        assert_eq!(format!("{mutex:?}"), "CheckedMutex { data: [1, 2] }");
        assert_eq!(mutex.into_inner(), [1, 2]);
    });
}

fn the_raw_lock_knows_its_owner<L: Leg>() {
    let lock = Arc::new(RawCheckedMutex::new());
    assert_eq!(lock.unlock(), Err(UnlockError::NotLocked));
    assert_eq!(lock.unlock_fair(), Err(UnlockError::NotLocked));
    lock.lock().unwrap();
    let theirs = Arc::clone(&lock);
    everywhere::<L, _>(1, move || {
        assert_eq!(theirs.unlock(), Err(UnlockError::NotOwner));
        assert_eq!(theirs.unlock_fair(), Err(UnlockError::NotOwner));
        assert_eq!(theirs.try_lock(), Ok(false));
        assert!(!theirs.is_owned_by_current_thread());
    });
    assert!(lock.is_owned_by_current_thread());
    assert_eq!(lock.lock(), Err(LockError::Deadlock));
    assert_eq!(lock.unlock(), Ok(()));
    assert_eq!(lock.unlock(), Err(UnlockError::NotLocked));
    L::new().run(move || {
        assert_eq!(lock.try_lock_for(SHORT), Ok(true));
        thread::yield_now();
        assert_eq!(lock.unlock(), Ok(()));
    });
}

fn all_kinds_of_threads_exclude_each_other<L: Leg>() {
    const ROUNDS: usize = 400;
    let mutex = Arc::new(CheckedMutex::new(0));
    let theirs = Arc::clone(&mutex);
    everywhere::<L, _>(2, move || {
        for round in 0..ROUNDS {
            let mut guard = theirs.lock().unwrap();
            let before = *guard;
            if round % 50 == 0 {
                thread::yield_now();
                assert_eq!(theirs.lock().unwrap_err(), LockError::Deadlock);
            }
            *guard = before + 1;
        }
    });
    assert_eq!(*mutex.lock().unwrap(), 2 * KINDS * ROUNDS);
}

fn deadlines_pass<L: Leg>() {
    L::new().run(|| {
        let mutex = Arc::new(CheckedMutex::new(()));
        let guard = mutex.lock().unwrap();
        let theirs = Arc::clone(&mutex);
        let waited = thread::spawn(move || {
            let start = Instant::now();
            assert!(theirs.try_lock().unwrap().is_none());
            assert!(theirs.try_lock_for(SHORT).unwrap().is_none());
            assert!(theirs.try_lock_until(Instant::now() + SHORT).unwrap().is_none());
            assert!(theirs.lock_interruptible_for(SHORT).unwrap().is_none());
            assert!(theirs.lock_interruptible_until(Instant::now() + SHORT).unwrap().is_none());
            start.elapsed()
        });
        assert!(waited.join().unwrap() >= 4 * SHORT);
        drop(guard);
        assert!(mutex.try_lock_for(SHORT).unwrap().is_some());
    });
}

fn interrupts_end_waits<L: Leg>() {
    L::new().run(|| {
        let mutex = Arc::new(CheckedMutex::new(()));
        let guard = mutex.lock().unwrap();
        for wait in 0..3 {
            let theirs = Arc::clone(&mutex);
            let waiter = thread::spawn(move || match wait {
                0 => theirs.lock_interruptible().map(drop),
                1 => theirs.lock_interruptible_for(LONG).map(drop),
                _ => theirs.lock_interruptible_until(Instant::now() + LONG).map(drop),
            });
            thread::yield_now();
            waiter.thread().interrupt();
            assert_eq!(waiter.join().unwrap(), Err(LockError::Interrupted));
        }
        // A deadlock is a deadlock, and the interrupt is left for a wait.
        thread::current().interrupt();
        assert_eq!(mutex.lock_interruptible().unwrap_err(), LockError::Deadlock);
        assert!(thread::interrupted());
        drop(guard);
    });
}

fn a_leaked_guard_is_unlocked_by_its_owner<L: Leg>() {
    L::new().run(|| {
        let mutex = Arc::new(CheckedMutex::new(1));
        std::mem::forget(mutex.lock().unwrap());
        assert_eq!(mutex.lock().unwrap_err(), LockError::Deadlock);
        let theirs = Arc::clone(&mutex);
        // SAFETY: refused; and the guard was forgotten.
        let refused = thread::spawn(move || unsafe { theirs.force_unlock() }).join().unwrap();
        assert_eq!(refused, Err(UnlockError::NotOwner));
        // SAFETY: the guard was forgotten.
        assert_eq!(unsafe { mutex.force_unlock() }, Ok(()));
        // SAFETY: refused.
        assert_eq!(unsafe { mutex.force_unlock() }, Err(UnlockError::NotLocked));
        assert_eq!(*mutex.lock().unwrap(), 1);
    });
}

fn the_dead_own_it_for_ever<L: Leg>() {
    L::new().run(|| {
        let mutex = Arc::new(CheckedMutex::new(()));
        let theirs = Arc::clone(&mutex);
        thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
        for _ in 0..50 {
            let theirs = Arc::clone(&mutex);
            let got = thread::spawn(move || theirs.try_lock_for(SHORT / 8).map(|got| got.is_some()));
            assert_eq!(got.join().unwrap(), Ok(false), "nobody is taken for it");
        }
    });
}

fn a_fair_unlock_hands_over<L: Leg>() {
    L::new().run(|| {
        let mutex = Arc::new(CheckedMutex::new(0));
        for round in 1..=20 {
            let guard = mutex.lock().unwrap();
            let theirs = Arc::clone(&mutex);
            let waiter = thread::spawn(move || *theirs.lock().unwrap() = round);
            thread::sleep(Duration::from_micros(100));
            CheckedMutexGuard::unlock_fair(guard);
            waiter.join().unwrap();
            assert_eq!(*mutex.lock().unwrap(), round);
        }
    });
}
