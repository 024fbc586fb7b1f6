//! Threads that borrow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    threads_borrow_from_their_scope,
    a_scope_gives_its_closures_value,
    a_scope_waits_for_threads_that_are_not_joined,
    a_panic_that_was_not_joined_panics_the_scope,
    a_panic_that_was_joined_does_not,
    a_dropped_handle_does_not_hide_a_panic,
    a_scope_that_unwinds_waits_first,
    scoped_threads_spawn_into_their_scope,
    scopes_nest,
    a_scoped_builder_names,
    a_scoped_thread_that_cannot_start_is_not_waited_for,
    a_forgotten_handle_hangs_nothing,
}

fn threads_borrow_from_their_scope<L: Leg>() {
    L::new().run(|| {
        let mut numbers = [1, 2, 3];
        let total = AtomicUsize::new(0);
        thread::scope(|s| {
            for number in &mut numbers {
                let total = &total;
                s.spawn(move || {
                    thread::yield_now();
                    *number *= 10;
                    total.fetch_add(1, SeqCst);
                });
            }
        });
        assert_eq!((numbers, total.into_inner()), ([10, 20, 30], 3));
    });
}

fn a_scope_gives_its_closures_value<L: Leg>() {
    let text = String::from("borrowed");
    let length = L::new().run(|| thread::scope(|s| s.spawn(|| text.len()).join().unwrap()));
    assert_eq!(length, 8);
}

fn a_scope_waits_for_threads_that_are_not_joined<L: Leg>() {
    L::new().run(|| {
        let ended = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    thread::sleep(Duration::from_millis(5));
                    ended.fetch_add(1, SeqCst);
                });
            }
        });
        assert_eq!(ended.load(SeqCst), 20);
    });
}

/// The message with which `f` panics.
fn message(f: impl FnOnce()) -> &'static str {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    payload.downcast_ref::<&'static str>().expect("a literal message")
}

fn a_panic_that_was_not_joined_panics_the_scope<L: Leg>() {
    L::new().run(|| {
        let said = message(|| {
            thread::scope(|s| {
                s.spawn(|| panic!("as the test wants"));
            });
        });
        assert_eq!(said, "a scoped thread panicked");
    });
}

fn a_panic_that_was_joined_does_not<L: Leg>() {
    L::new().run(|| {
        thread::scope(|s| {
            let payload = s.spawn(|| panic!("as the test wants")).join().unwrap_err();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"as the test wants"));
        });
    });
}

fn a_dropped_handle_does_not_hide_a_panic<L: Leg>() {
    L::new().run(|| {
        for handle_first in [true, false] {
            let said = message(|| {
                thread::scope(|s| {
                    let handle = s.spawn(|| {
                        thread::park();
                        panic!("as the test wants");
                    });
                    let of = handle.thread().clone();
                    if handle_first {
                        drop(handle);
                        of.unpark();
                    } else {
                        of.unpark();
                        while !handle.is_finished() {
                            thread::yield_now();
                        }
                    }
                });
            });
            assert_eq!(said, "a scoped thread panicked");
        }
    });
}

fn a_scope_that_unwinds_waits_first<L: Leg>() {
    L::new().run(|| {
        let ended = AtomicUsize::new(0);
        let said = message(|| {
            thread::scope(|s| {
                s.spawn(|| {
                    thread::sleep(Duration::from_millis(10));
                    ended.fetch_add(1, SeqCst);
                });
                panic!("of the scope itself");
            });
        });
        assert_eq!((said, ended.load(SeqCst)), ("of the scope itself", 1));
    });
}

fn scoped_threads_spawn_into_their_scope<L: Leg>() {
    L::new().run(|| {
        let count = AtomicUsize::new(0);
        thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..5 {
                    s.spawn(|| {
                        thread::sleep(Duration::from_millis(2));
                        count.fetch_add(1, SeqCst);
                    });
                }
            });
        });
        assert_eq!(count.load(SeqCst), 5);
    });
}

fn scopes_nest<L: Leg>() {
    L::new().run(|| {
        let count = AtomicUsize::new(0);
        thread::scope(|outer| {
            for _ in 0..3 {
                outer.spawn(|| {
                    thread::scope(|inner| {
                        for _ in 0..3 {
                            inner.spawn(|| count.fetch_add(1, SeqCst));
                        }
                    });
                });
            }
        });
        assert_eq!(count.load(SeqCst), 9);
    });
}

fn a_scoped_builder_names<L: Leg>() {
    L::new().run(|| {
        let name = String::from("scoped");
        thread::scope(|s| {
            let builder = thread::Builder::new().name(name.clone());
            let see = || assert_eq!(thread::current().name(), Some(name.as_str()));
            let handle = builder.spawn_scoped(s, see).unwrap();
            assert_eq!(handle.thread().name(), Some("scoped"));
            handle.join().unwrap();
        });
    });
}

fn a_scoped_thread_that_cannot_start_is_not_waited_for<L: Leg>() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    L::new().run(|| {
        let dropped = AtomicUsize::new(0);
        thread::scope(|s| {
            let counted = Counted(&dropped);
            let refused = thread::Builder::new().stack_size(0).spawn_scoped(s, move || drop(counted));
            assert!(refused.is_err());
            assert_eq!(dropped.load(SeqCst), 1);
        });
    });
}

fn a_forgotten_handle_hangs_nothing<L: Leg>() {
    L::new().run(|| {
        let ran = AtomicUsize::new(0);
        thread::scope(|s| {
            std::mem::forget(s.spawn(|| ran.fetch_add(1, SeqCst)));
        });
        assert_eq!(ran.load(SeqCst), 1);
    });
}
