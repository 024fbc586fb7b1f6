//! How a thread is met, and what is left of it when it has ended.

use super::*;
#[cfg(unix)]
use crate::park::robust;

/// Returns how many cores more are in use after a hundred such threads than after three.
fn cores_left_by(thread: impl FnOnce() + Send + Copy + 'static) -> usize {
    let run = |times: usize| (0..times).for_each(|_| std::thread::spawn(thread).join().unwrap());
    let cores = || core_pool::all().count();
    run(3);
    let warm = cores();
    run(100);
    cores() - warm
}

#[test]
fn a_foreign_thread_is_adopted_once() {
    std::thread::Builder::new()
        .name("foreign".into())
        .spawn(|| {
            assert!(try_current().is_none());
            assert_eq!(slow_owner_hint(), OwnerHint::UNKNOWN);
            let me = current();
            assert_eq!(current(), me);
            assert_eq!(me.name(), Some("foreign"));
            assert!(slow_owner_hint().is_kernel());
        })
        .unwrap()
        .join()
        .unwrap();
}

/// An allocator may wait, too, even while its thread is met. What it has put under keys is in that core.
#[test]
fn a_thread_that_its_allocator_has_had_met_meanwhile_has_one_core() {
    use crate::park::tests::heap::at_next_allocation;
    thread_local! {
        static MET: Cell<Option<ThreadRef>> = const { Cell::new(None) };
    }
    let name = "::a_thread_that_its_allocator_has_had_met_meanwhile_has_one_core";
    crate::sys::child_tests::isolated(&[module_path!(), name].concat(), || {
        let left = cores_left_by(|| {
            at_next_allocation(|| MET.set(Some(current())));
            let me = current();
            assert_eq!((MET.get(), try_current()), (Some(me), Some(me)));
        });
        assert_eq!(left, 0);
    });
}

/// A thread-local destructor may run after that of the adoption, and wait.
#[test]
fn threads_that_wait_in_their_last_destructors_leave_no_core_behind() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(try_current().is_some(), !ENDS_EARLY, "it goes on with its core");
            let _ = current();
        }
    }
    thread_local! {
        static LATE: Late = const { Late };
    }
    let body = || {
        let wait_late = || {
            // Destructors run last in, first out: this one runs after the destructor of the adoption.
            LATE.with(|_| ());
            let _ = current();
        };
        assert_eq!(cores_left_by(wait_late), 0);
    };
    let name = "::threads_that_wait_in_their_last_destructors_leave_no_core_behind";
    crate::sys::child_tests::isolated(&[module_path!(), name].concat(), body);
}

/// A thread goes on under its id, unless it has left locks: these pass on from that id to others, and so
/// would those that it locks next.
#[cfg(unix)]
#[test]
fn an_id_that_counts_as_dead_is_given_up() {
    std::thread::spawn(|| {
        let id = current().id();
        end(ADOPTED.with(|adopted| adopted.0.take()).expect("it was adopted").0);
        let me = current();
        assert_eq!(me.id(), id);
        me.holds_robust();
        end(me);
        assert_ne!(current().id(), id);
        robust::passed_on(id.get());
    })
    .join()
    .unwrap();
}

/// std knows nothing of a thread any more when the values of its pthread keys are destroyed.
#[cfg(unix)]
#[test]
fn threads_that_wait_in_destructors_of_keys_leave_no_core_behind() {
    unsafe extern "C" fn wait(_: *mut std::ffi::c_void) {
        assert!(try_current().is_some(), "it goes on with its core");
        let _ = current();
    }
    let body = || {
        let mut key = 0;
        // SAFETY: a place for the key, and a destructor that takes any value.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(wait)) }, 0);
        let wait_last = move || {
            let _ = current();
            // SAFETY: the key exists.
            let set = unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
            assert_eq!(set, 0);
        };
        assert_eq!(cores_left_by(wait_last), 0);
    };
    let name = "::threads_that_wait_in_destructors_of_keys_leave_no_core_behind";
    crate::sys::child_tests::isolated(&[module_path!(), name].concat(), body);
}

/// In the child of a fork, threads of the parent count as dead, but not the one that forked.
#[cfg(unix)]
#[test]
fn a_thread_that_forks_in_its_last_destructors_is_not_lost() {
    use crate::sys::child_tests as child;
    let name = "::a_thread_that_forks_in_its_last_destructors_is_not_lost";
    child::isolated(&[module_path!(), name].concat(), || {
        let id = current().id();
        end(ADOPTED.with(|adopted| adopted.0.take()).expect("it was adopted").0);
        child::forked(|| {
            assert_eq!(current().id(), id);
            assert!(!robust::is_dead(id.get()));
        });
    });
}

/// A thread that is not known has no hint. While owners are recorded, all kinds of threads have the same
/// placeholder.
#[test]
fn cached_hints_say_whether_owners_are_recorded() {
    crate::sys::child_tests::isolated(
        concat!(module_path!(), "::cached_hints_say_whether_owners_are_recorded"),
        || {
            let on_a_thread = |f: fn()| std::thread::spawn(f).join().unwrap();
            on_a_thread(|| {
                recache_hint();
                assert_eq!(cached_hint(), OwnerHint::UNKNOWN);
                current();
                assert_eq!(cached_hint(), OwnerHint::OF_KERNEL_THREAD);
                crate::observe::lock_owners::begin();
                assert!(observed::are_owners_recorded());
                assert_eq!(cached_hint(), OwnerHint::RECORDING);
            });
            on_a_thread(|| {
                recache_hint();
                assert_eq!(cached_hint(), OwnerHint::RECORDING);
                assert!(try_current().is_none());
                current();
                assert_eq!(cached_hint(), OwnerHint::RECORDING);
            });
        },
    );
}

/// Its handle leads to the thread for as long as it can wait, as in std.
#[cfg(unix)]
#[test]
fn a_thread_is_unparked_by_its_handle_in_its_last_destructors() {
    use std::sync::mpsc;
    use std::time::Duration;

    use crate::park::permit;
    use crate::park::reason::WaitReason;
    use crate::park::wait::Wait;
    const LONG: Duration = Duration::from_secs(60);
    struct Late(Option<(mpsc::Sender<()>, mpsc::Sender<bool>)>);
    impl Drop for Late {
        fn drop(&mut self) {
            let (waits, tell) = self.0.take().expect("it was given both");
            waits.send(()).unwrap();
            let parked = permit::park(|| Wait::timeout(LONG), WaitReason::Park);
            tell.send(parked.is_ok()).unwrap();
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Late> = const { std::cell::RefCell::new(Late(None)) };
    }
    let (tell_handle, handle) = mpsc::channel();
    let ((waits, waiting), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let thread = std::thread::spawn(move || {
        // Destructors run last in, first out: this one runs after the destructor of the adoption.
        LATE.with(|late| late.borrow_mut().0 = Some((waits, tell)));
        tell_handle.send(current().retain()).unwrap();
    });
    let handle: ThreadRef = handle.recv().unwrap();
    waiting.recv().unwrap();
    permit::unpark(handle);
    handle.release();
    assert!(told.recv().unwrap(), "it was not woken");
    thread.join().unwrap();
}

/// A thread that is met for the first time when the values of its pthread keys are destroyed. From some
/// round on, std does not know it.
#[cfg(unix)]
#[test]
fn threads_that_are_first_met_in_destructors_of_keys_leave_no_core_behind() {
    use std::ffi::c_void;
    use std::sync::atomic::AtomicU32;
    static KEY: AtomicU32 = AtomicU32::new(0);
    /// Its value is the number of rounds that are left before it waits.
    unsafe extern "C" fn wait_in_round(left: *mut c_void) {
        if left.addr() > 1 {
            // SAFETY: the key exists.
            unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), left.map_addr(|left| left - 1)) };
            return;
        }
        assert!(try_current().is_none());
        let _ = current();
    }
    let body = || {
        let mut key = 0;
        // SAFETY: a place for the key, and a destructor that takes any value.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(wait_in_round)) }, 0);
        KEY.store(key, Ordering::Relaxed);
        for round in 1..=3 {
            let wait_last = move || {
                // SAFETY: the key exists.
                let set = unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(round)) };
                assert_eq!(set, 0);
            };
            let left = cores_left_by(wait_last);
            // In the third, it may be too late for one more call.
            assert!(round == 3 || left == 0, "{left} cores more");
        }
    };
    let name = "::threads_that_are_first_met_in_destructors_of_keys_leave_no_core_behind";
    crate::sys::child_tests::isolated(&[module_path!(), name].concat(), body);
}
