//! When a thread has ended: after its last destructor.

use std::cell::RefCell;

use selvedge::sync::{Acquired, RobustMutex, RobustMutexGuard};
use selvedge::{Runtime, thread};

use super::{SHORT, adopt};
use crate::legs::Leg;

both! {
    own locals:
    destructors_come_first,
}

/// A thread-local's destructor unlocks: that is no death. One that locks, and leaves it so, is.
fn destructors_come_first<L: Leg>() {
    static LOCKS: [RobustMutex<u32>; 4] = [const { RobustMutex::new(0) }; 4];

    thread_local! {
        static HELD: RefCell<Vec<RobustMutexGuard<'static, u32>>> = const { RefCell::new(Vec::new()) };
        static LATE: Late = const { Late };
    }

    struct Late;

    impl Drop for Late {
        fn drop(&mut self) {
            *LOCKS[2].lock().unwrap().unwrap() += 1;
            std::mem::forget(LOCKS[3].lock());
        }
    }

    // Tests of several legs share the locks.
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap();
    let rt = L::new();
    for bound in [false, true] {
        let ends = || {
            LATE.with(|_| ());
            HELD.with(|held| {
                held.borrow_mut().extend(LOCKS[..2].iter().map(|lock| lock.lock().unwrap().unwrap()))
            });
        };
        rt.spawn_with(thread::Builder::new().bound(bound), ends).unwrap().join().unwrap();
        for lock in &LOCKS[..3] {
            assert!(matches!(lock.lock(), Ok(Acquired::Consistent(_))));
        }
        assert!(adopt(LOCKS[3].lock().unwrap()).mark_consistent());
    }
}

/// A thread that Selvedge did not start holds a lock in its thread-locals. It ends after they have been
/// destroyed.
#[test]
fn destructors_of_foreign_threads_come_first() {
    static LOCK: RobustMutex<u32> = RobustMutex::new(0);
    static LEFT: RobustMutex<u32> = RobustMutex::new(0);

    struct Holds(RefCell<Option<RobustMutexGuard<'static, u32>>>);

    impl Drop for Holds {
        fn drop(&mut self) {
            // Others wait for it, and must go on waiting.
            std::thread::sleep(10 * SHORT);
            let mut guard = self.0.take().expect("locked before");
            assert!(LOCK.is_owned_by_current_thread());
            *guard += 1;
            drop(guard);
            assert_eq!(*LOCK.lock().unwrap().unwrap(), 1);
            std::mem::forget(LEFT.lock());
        }
    }

    thread_local! {
        static HOLDS: Holds = const { Holds(RefCell::new(None)) };
    }

    let (tell, told) = std::sync::mpsc::channel();
    let holder = std::thread::spawn(move || {
        // Before this thread first locks: destroyed after what gives its core back.
        HOLDS.with(|_| ());
        HOLDS.with(|holds| *holds.0.borrow_mut() = Some(LOCK.lock().unwrap().unwrap()));
        tell.send(()).unwrap();
    });
    told.recv().unwrap();
    assert_eq!(*LOCK.lock().unwrap().unwrap(), 1, "it has left well");
    holder.join().unwrap();
    assert!(adopt(LEFT.lock().unwrap()).mark_consistent());
}
