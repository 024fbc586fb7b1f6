//! What a builder refuses, and what its settings do.

use std::io::ErrorKind;
use std::time::Duration;

use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    a_stack_of_nothing_is_refused,
    an_absurd_stack_is_refused,
    a_tiny_stack_is_rounded_up,
    a_stack_holds_what_was_asked_for,
    a_name_with_a_zero_byte_is_refused,
    a_refused_closure_is_dropped,
    a_slice_that_is_too_short_is_refused,
    an_affinity_with_no_processor_is_refused,
}

fn a_stack_of_nothing_is_refused<L: Leg>() {
    let rt = L::new();
    for bound in [false, true] {
        let error = rt.spawn_with(thread::Builder::new().stack_size(0).bound(bound), || ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("stack size 0"), "{error}");
    }
    assert_eq!(rt.run(|| 1), 1);
}

fn an_absurd_stack_is_refused<L: Leg>() {
    let rt = L::new();
    for bytes in [usize::MAX, usize::MAX / 2 + 1, (1 << 40) + 1] {
        for bound in [false, true] {
            let error =
                rt.spawn_with(thread::Builder::new().stack_size(bytes).bound(bound), || ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&bytes.to_string()), "{error}");
        }
    }
    assert_eq!(rt.run(|| 1), 1);
}

fn a_tiny_stack_is_rounded_up<L: Leg>() {
    let rt = L::new();
    for bytes in [1, 100, 4095] {
        let handle = rt.spawn_with(thread::Builder::new().stack_size(bytes), || ()).unwrap();
        handle.join().unwrap();
    }
}

/// Uses about `bytes` of stack, in frames of 4 KiB.
#[inline(never)]
fn descend(bytes: usize) -> usize {
    let frame = std::hint::black_box([1_u8; 4096]);
    let below = if bytes > 4096 { descend(bytes - 4096) } else { 0 };
    below + usize::from(std::hint::black_box(&frame)[7])
}

fn a_stack_holds_what_was_asked_for<L: Leg>() {
    let rt = L::new();
    for bound in [false, true] {
        let builder = thread::Builder::new().stack_size(16 << 20).bound(bound);
        // Unoptimized frames are up to twice as large as what they hold.
        let frames = rt.spawn_with(builder, || descend(7 << 20)).unwrap().join().unwrap();
        assert_eq!(frames, (7 << 20) / 4096);
    }
}

fn a_name_with_a_zero_byte_is_refused<L: Leg>() {
    let rt = L::new();
    let error = rt.spawn_with(thread::Builder::new().name("a\0b".into()), || ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("zero byte"), "{error}");
}

fn a_refused_closure_is_dropped<L: Leg>() {
    let rt = L::new();
    let captured = std::sync::Arc::new(());
    let theirs = std::sync::Arc::clone(&captured);
    rt.spawn_with(thread::Builder::new().stack_size(0), move || drop(theirs)).unwrap_err();
    assert_eq!(std::sync::Arc::strong_count(&captured), 1);
}

fn a_slice_that_is_too_short_is_refused<L: Leg>() {
    let rt = L::new();
    let slice = |slice| rt.spawn_with(thread::Builder::new().time_slice(slice), || ());
    let error = slice(Some(Duration::from_micros(49))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("slice"), "{error}");
    for allowed in [None, Some(Duration::from_micros(50)), Some(Duration::MAX)] {
        slice(allowed).unwrap().join().unwrap();
    }
}

fn an_affinity_with_no_processor_is_refused<L: Leg>() {
    let error = L::new().spawn_with(thread::Builder::new().affinity([]), || ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("no processor"), "{error}");
}
