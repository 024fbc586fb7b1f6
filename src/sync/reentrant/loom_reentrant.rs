//! Models of the reservation: a thread that has waited interruptibly gets the lock by it, once, and no
//! other thread does.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use lock_api::RawMutex as _;

use super::{LockWith, RawReservableMutex, ReentrantMutex, ReentrantMutexGuard, Wait};
use crate::park::tests::loom_model::{Letter, body, model, together};

#[derive(Default)]
#[repr(align(2048))]
struct Reentrant {
    lock: ReentrantMutex<Letter>,
}

impl Reentrant {
    fn raw(&self) -> &RawReservableMutex {
        // SAFETY: the models lock and unlock it as a guard would.
        unsafe { self.lock.raw() }
    }
}

/// Counts the entry. A thread that finds that it is not alone leaves without unlocking.
fn enter(entries: ReentrantMutexGuard<'_, Letter>) {
    let entries = ManuallyDrop::new(entries);
    entries.add_one();
    drop(ManuallyDrop::into_inner(entries));
}

/// One thread waits for the lock, and takes it twice; it `leaves` something behind, or nothing. Then both
/// threads try to take it.
fn a_wait_and_two_attempts(leaves: fn(&RawReservableMutex)) {
    let this = Arc::new(Reentrant::default());
    // Creates all of loom's objects before the threads start.
    let raw = this.raw();
    assert!(!raw.is_locked() && raw.reserved.0.load(super::Ordering::Relaxed) == 0);
    assert!(raw.mutex.try_lock());
    // SAFETY: this thread has just locked it.
    unsafe { raw.mutex.unlock() };
    let attempt = |this: &Reentrant| this.lock.try_lock().into_iter().for_each(enter);
    let waits = move |this: &Reentrant| {
        let lock = || this.lock.lock_with(Wait::forever().interruptible()).expect("no interrupt");
        let outer = ManuallyDrop::new(lock());
        enter(lock());
        leaves(this.raw());
        enter(ManuallyDrop::into_inner(outer));
        attempt(this);
    };
    together([body(&this, waits), body(&this, attempt)]);
    let entries = this.lock.data_ptr();
    // SAFETY: the model's threads have ended.
    assert!(unsafe { &*entries }.read() >= 3, "the lock was free for one of the attempts");
}

#[test]
fn a_reservation_is_for_one_thread_and_one_attempt() {
    model(|| a_wait_and_two_attempts(|_| ()));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_not_used_up() {
    model(|| a_wait_and_two_attempts(|raw| raw.reserved.set(super::me())));
}
