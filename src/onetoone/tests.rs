use std::sync::atomic::{AtomicUsize, Ordering};

use super::config::Settings;
use super::*;
#[cfg(unix)]
use crate::park::core_pool;
use crate::thread::{self, OnDeadlock};

#[test]
fn a_thread_that_cannot_start_is_not_counted_and_drops_its_closure() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    let settings = Settings { stack_size: 1 << 47, on_deadlock: OnDeadlock::Ignore, lock_stats: false };
    let rt = OneToOne { inner: inner::start(settings).unwrap() };
    let counted = Counted;
    let error = rt
        .spawn_with(thread::Builder::new(), move || drop(counted))
        .expect_err("as large as the address space");
    assert!(error.to_string().contains("ulimit -u"), "{error}");
    assert_eq!(rt.info().threads, 0);
    assert!(rt.threads().is_empty(), "{:?}", rt.threads());
    assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
}

#[test]
fn a_dropped_runtime_has_waited_for_its_threads() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    let rt = OneToOne::new().unwrap();
    for _ in 0..20 {
        drop(rt.spawn(|| {
            thread::yield_now();
            ENDED.fetch_add(1, Ordering::Relaxed);
        }));
    }
    drop(rt);
    assert_eq!(ENDED.load(Ordering::Relaxed), 20);
}

/// Their cores are given back when the values of pthread keys are destroyed, after all thread-locals.
#[cfg(unix)]
#[test]
fn threads_that_wait_in_destructors_of_keys_leave_no_core_behind() {
    unsafe extern "C" fn wait(_: *mut std::ffi::c_void) {
        let _ = thread::current();
    }
    let body = || {
        let mut key = 0;
        // SAFETY: a place for the key, and a destructor that takes any value.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(wait)) }, 0);
        let rt = OneToOne::new().unwrap();
        let wait_last = || {
            let set = move || {
                // SAFETY: the key exists.
                let set = unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
                assert_eq!(set, 0);
            };
            rt.spawn(set).join().unwrap();
        };
        (0..3).for_each(|_| wait_last());
        let warm = core_pool::all().count();
        (0..100).for_each(|_| wait_last());
        assert_eq!(core_pool::all().count(), warm);
    };
    let name = "::threads_that_wait_in_destructors_of_keys_leave_no_core_behind";
    crate::sys::child_tests::isolated(&[module_path!(), name].concat(), body);
}
