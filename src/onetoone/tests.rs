use std::sync::atomic::{AtomicUsize, Ordering};

use super::config::Settings;
use super::*;
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
