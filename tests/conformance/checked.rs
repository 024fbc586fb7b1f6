//! The checked mutex: what it refuses, to which threads, and that it is a mutex otherwise.

use std::sync::Arc;
use std::time::Duration;

use selvedge::sync::{CheckedMutex, CheckedMutexGuard, LockError, RawCheckedMutex, UnlockError};
use selvedge::{Runtime, Wait, thread};

use crate::legs::Leg;
use crate::mixed::everywhere;
use crate::mutexes::relock;
use crate::waiting::until_waits;

both! {
    a_relock_is_refused_in_every_form,
    the_raw_lock_knows_its_owner,
    a_leaked_guard_is_unlocked_by_its_owner,
    the_dead_own_it_for_ever,
    a_fair_unlock_hands_over,
}

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(
        LockError::Deadlock.to_string(),
        "the thread owns the lock already, and would wait for itself"
    );
    assert_eq!(LockError::TimedOut.to_string(), "the wait timed out");
    assert_eq!(LockError::Interrupted.to_string(), "the wait was interrupted");
    assert_eq!(UnlockError::NotLocked.to_string(), "the lock is not locked");
    assert_eq!(UnlockError::NotOwner.to_string(), "another thread owns the lock");
}

fn a_relock_is_refused_in_every_form<L: Leg>() {
    everywhere::<L, _>(2, || {
        let mutex = CheckedMutex::new(1);
        let mut guard = mutex.lock().unwrap();
        thread::yield_now();
        assert_eq!(relock(&mutex), [(); 7].map(|()| Err(LockError::Deadlock.to_string())));
        // An interrupt is left for a wait.
        thread::current().interrupt();
        assert_eq!(mutex.lock_with(Wait::forever().interruptible()).unwrap_err(), LockError::Deadlock);
        assert!(thread::take_interrupt());
        assert!(mutex.is_locked() && mutex.is_owned_by_current_thread());
        assert_eq!(format!("{mutex:?}"), "CheckedMutex { data: <locked> }");
        *guard = 2;
        drop(guard);
        assert!(!mutex.is_locked() && !mutex.is_owned_by_current_thread());
        assert_eq!(format!("{mutex:?}"), "CheckedMutex { data: 2 }");
        assert_eq!(mutex.into_inner(), 2);
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
            assert_eq!(got.join().unwrap(), Ok(false), "no thread is taken for it");
        }
    });
}

fn a_fair_unlock_hands_over<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let mutex = Arc::new(CheckedMutex::new(0));
        for round in 1..=20 {
            let guard = mutex.lock().unwrap();
            let theirs = Arc::clone(&mutex);
            let waiter = thread::spawn(move || *theirs.lock().unwrap() = round);
            until_waits(&rt, &waiter);
            CheckedMutexGuard::unlock_fair(guard);
            waiter.join().unwrap();
            assert_eq!(*mutex.lock().unwrap(), round);
        }
    });
}
