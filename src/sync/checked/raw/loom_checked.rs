//! Models of the owner of a checked lock: each thread finds itself there only while it has the lock.

use std::sync::Arc;

use lock_api::RawMutex as _;

use super::{LockError, RawCheckedMutex, me};
use crate::park::tests::loom_model::{Letter, body, model, together};

#[repr(align(2048))]
struct Checked {
    lock: RawCheckedMutex,
    entries: Letter,
}

/// Two threads have the lock one after the other, and leave it by `unlock`.
fn two_owners(unlock: fn(&RawCheckedMutex)) {
    let this = Arc::new(Checked { lock: RawCheckedMutex::new(), entries: Letter::default() });
    // Creates all of loom's objects before the threads start.
    assert!(this.lock.mutex.try_lock() && this.lock.owner.look() == 0);
    // SAFETY: this thread has just locked it.
    unsafe { this.lock.mutex.unlock() };
    assert_eq!(this.entries.read(), 0);
    let owns = move |this: &Checked| {
        assert!(this.lock.unlock().is_err(), "not mine");
        this.lock.lock().unwrap();
        this.entries.add_one();
        let known = this.lock.owner.look() == me() && this.lock.try_lock() == Err(LockError::Deadlock);
        unlock(&this.lock);
        assert!(known, "not known");
    };
    together([body(&this, owns), body(&this, owns)]);
    assert_eq!(this.entries.read(), 2);
    assert_eq!(this.lock.owner.look(), 0);
}

#[test]
fn the_owner_is_known_to_itself() {
    model(|| two_owners(|lock| lock.unlock().unwrap()));
}

#[test]
#[should_panic(expected = "not known")]
fn negative_forgotten_after_the_unlock() {
    model(|| {
        two_owners(|lock| {
            // SAFETY: the calling thread has locked it.
            unsafe { lock.mutex.unlock() };
            lock.owner.clear();
        });
    });
}
