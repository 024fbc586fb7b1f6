//! What a program has beside the locks that are loom's: it compiles, and is the real thing.

use std::ops::Deref;

use selvedge::sync::{
    LockWith, Mutex, MutexGuard, RawMutex, RawRwLock, ReentrantMutex, RwLock, poison, real, stats,
};

use super::{SOON, Wait, WaitError, count};

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
fn locks_that_can_be_poisoned_are_real() {
    let flags = [
        size_of::<poison::Mutex<()>>() - size_of::<real::Mutex<()>>(),
        size_of::<poison::RwLock<()>>() - size_of::<real::RwLock<()>>(),
    ];
    assert_eq!(flags[0], flags[1], "each is a real lock and a flag");
    count(|| {
        let lock = poison::RwLock::new(1);
        *lock.write().unwrap() += 1;
        let reader = lock.read().unwrap();
        assert!(lock.try_write().is_err() && *reader == 2);
    });
}
