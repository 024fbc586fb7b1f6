//! What a program has beside the usual locks: traits and names for all of them, and other kinds of locks.

use std::ops::Deref;
use std::sync::Arc;

use selvedge::sync::{
    FairMutex, LockWith, Mutex, MutexGuard, RawMutex, RawRwLock, ReentrantMutex, RwLock, poison, stats,
};

use super::{SOON, Wait, WaitError, count, start};

/// A program's own function, for mutexes of all kinds.
fn seen<'a, L>(lock: &'a L) -> Result<u32, WaitError>
where
    L: LockWith<Guard<'a>: Deref<Target = u32>>,
{
    let seen = match lock.lock_with(Wait::timeout(SOON).interruptible()) {
        Err(WaitError::TimedOut) => 0,
        guard => *guard?,
    };
    Ok(seen + *lock.lock_with(Wait::forever().interruptible())?)
}

/// A program's own type, which names what it gets.
struct Account(Mutex<u32>);

impl Account {
    fn enter(&self) -> <Mutex<u32> as LockWith>::Guard<'_> {
        self.0.lock_with(Wait::forever().interruptible()).expect("a model is not interrupted")
    }
}

#[test]
fn all_mutexes_are_locked_by_one_trait() {
    count(|| {
        let account = Account(Mutex::new(1));
        let guard: MutexGuard<'_, u32> = account.enter();
        drop(guard);
        assert_eq!(seen(&account.0), Ok(2));
    });
    // It is not for models, but a program that has one compiles.
    let _: fn(&ReentrantMutex<u32>) -> Result<u32, WaitError> = |lock| {
        let _outer = lock.lock_with(Wait::forever().interruptible())?;
        seen(lock)
    };
}

#[test]
fn all_locks_can_have_a_name() {
    count(|| {
        stats::name(&Mutex::new(()), "mutex");
        stats::name(&RwLock::new(()), "lock");
        stats::name(&RawMutex::new(), "raw mutex");
        stats::name(&RawRwLock::new(), "raw lock");
        stats::name(&ReentrantMutex::new(()), "reentrant");
        let poison = poison::RwLock::new(());
        stats::name(&poison, "poison");
        stats::unname(&poison);
    });
}

#[test]
#[should_panic(expected = "channels do not work with --cfg loom")]
fn channels_say_that_they_are_not_for_models() {
    count(|| drop(selvedge::channel::unbounded::<u32>()));
}

#[test]
fn locks_that_can_be_poisoned_are_for_models() {
    count(|| {
        let lock = poison::RwLock::new(1);
        *lock.write().unwrap() += 1;
        let reader = lock.read().unwrap();
        assert!(lock.try_write().is_err() && *reader == 2);
    });
}

/// Two threads share a number and a condition variable of the kind that can be poisoned.
type Shared = (poison::Mutex<u32>, poison::Condvar);

fn waits(after_a_look: fn(&Shared)) -> impl Fn() + Send + Sync + 'static {
    move || {
        let shared = Arc::new((poison::Mutex::new(0), poison::Condvar::new()));
        let other = start(&shared, |(number, changed)| {
            *number.lock().unwrap() += 1;
            changed.notify_one();
        });
        after_a_look(&shared);
        assert_eq!(*shared.0.lock().unwrap(), 1);
        other.join().unwrap();
    }
}

#[test]
fn a_notification_with_poison_is_waited_for() {
    count(waits(|(number, changed)| {
        drop(changed.wait_while(number.lock().unwrap(), |number| *number == 0).unwrap());
    }));
}

/// A mistake: the look and the wait are two critical sections.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_notification_with_poison_lost() {
    loom::model(waits(|(number, changed)| {
        let seen = *number.lock().unwrap();
        if seen == 0 {
            drop(changed.wait(number.lock().unwrap()).unwrap());
        }
    }));
}

#[test]
fn a_fair_mutex_orders_what_it_guards() {
    count(|| {
        let total = Arc::new(FairMutex::new(0));
        let other = start(&total, |total| *total.lock() += 1);
        *total.lock() += 2;
        other.join().unwrap();
        assert_eq!(*total.lock(), 3);
    });
}
