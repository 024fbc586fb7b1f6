// Tests of both siblings, included by each.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

static STEPS: AtomicU32 = AtomicU32::new(0);

struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        assert_eq!(STEPS.swap(1, Ordering::Relaxed), 0);
    }
}

thread_local! {
    static LATE: Late = const { Late };
}

fn last(about: *const ()) {
    assert_eq!(about.addr(), 64);
    assert_eq!(STEPS.swap(2, Ordering::Relaxed), 1);
}

/// In a process of its own: there is one `call` for all.
#[test]
fn comes_after_thread_locals() {
    crate::sys::child_tests::isolated(concat!(module_path!(), "::comes_after_thread_locals"), || {
            let ends: [fn(); 2] = [
            || {
                assert!(call_last(last, ptr::without_provenance(64), false));
                LATE.with(|_| ());
            },
            || {
                LATE.with(|_| ());
                assert!(call_last(last, ptr::without_provenance(64), false));
            },
        ];
        for ends in ends {
            std::thread::spawn(ends).join().expect("nothing fails");
            assert_eq!(STEPS.swap(0, Ordering::Relaxed), 2);
        }
    });
}
