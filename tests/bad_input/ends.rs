//! What ends the whole process, with a message, on either runtime: as with threads of std.

use std::cell::Cell;
use std::hint::black_box;

use selvedge::thread::{self, Builder};

use super::{BOTH, child};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("panic_in_destructor", || {
        selvedge::run(|| {
            let _ = thread::spawn(|| BAD_END.set(Some(PanicsInDrop))).join();
        });
        println!("went on");
    }),
    ("overflow", || {
        selvedge::run(|| {
            let deep = Builder::new().name("diver".into()).stack_size(128 << 10);
            let _ = deep.spawn(|| dive(0)).expect("a thread").join();
        });
        println!("went on");
    }),
    ("pthread_exit", || {
        selvedge::run(|| {
            let _ = thread::spawn(|| {
                // SAFETY: not sound on any thread with Rust frames; what is asked for is a clear end of
                // the process.
                unsafe { libc::pthread_exit(std::ptr::null_mut()) }
            })
            .join();
        });
        println!("went on");
    }),
];

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("no way out");
    }
}

thread_local! {
    static BAD_END: Cell<Option<PanicsInDrop>> = const { Cell::new(None) };
}

/// Deeper than any stack: each call needs a frame of its own.
fn dive(depth: usize) -> usize {
    if depth == usize::MAX {
        return 0;
    }
    let frame = black_box([depth; 64]);
    dive(frame[depth % 64] + 1) + frame[0]
}

#[test]
fn a_panic_in_a_thread_local_destructor() {
    for runtime in BOTH {
        let ended = child::run("panic_in_destructor", &[("SELVEDGE_RUNTIME", runtime)]);
        // The words of std.
        ended.expect_abort(&["no way out", "thread local panicked on drop"]);
        assert!(!ended.said.contains("went on"));
    }
}

#[test]
fn a_stack_that_overflows() {
    for runtime in BOTH {
        let ended = child::run("overflow", &[("SELVEDGE_RUNTIME", runtime)]);
        ended.expect_abort(&["diver", "overflow", "128 KiB", "stack_size"]);
    }
}

#[test]
fn a_green_thread_that_calls_pthread_exit() {
    let ended = child::run("pthread_exit", &[("SELVEDGE_RUNTIME", "mxn")]);
    assert!(!ended.status.success(), "{ended:?}");
    ended.expect_abort(&[]);
}
