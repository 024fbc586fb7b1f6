use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use super::*;

/// Counts what is dropped.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

struct Counted(Drops);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, SeqCst);
    }
}

impl Drops {
    fn one(&self) -> Counted {
        Counted(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Notes what it is told.
#[derive(Clone, Default)]
struct Told(Arc<AtomicUsize>);

impl Ending for Told {
    fn ended(self, unread_panic: bool) {
        self.0.store(1 + usize::from(unread_panic), SeqCst);
    }
}

fn make<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> (Start, Claim<T>) {
    // SAFETY: all is `Send` and borrows nothing.
    unsafe { packet(f, ()) }
}

#[test]
fn the_claim_takes_the_value() {
    let (start, claim) = make(|| String::from("value"));
    start.run();
    assert_eq!(claim.take().unwrap(), "value");
}

#[test]
fn the_claim_takes_the_payload_of_a_panic() {
    let (start, claim) = make(|| std::panic::resume_unwind(Box::new(7_u8)));
    start.run();
    let claim: Claim<()> = claim;
    assert_eq!(*claim.take().unwrap_err().downcast::<u8>().unwrap(), 7);
}

#[test]
fn a_value_that_is_taken_is_dropped_by_who_took_it() {
    let drops = Drops::default();
    let value = drops.one();
    let (start, claim) = make(move || value);
    start.run();
    let value = claim.take();
    assert_eq!(drops.count(), 0);
    drop(value);
    assert_eq!(drops.count(), 1);
}

#[test]
fn the_thread_drops_the_value_if_the_claim_has_left() {
    let drops = Drops::default();
    let value = drops.one();
    let (start, claim) = make(move || value);
    assert!(!claim.abandon());
    assert_eq!(drops.count(), 0);
    start.run();
    assert_eq!(drops.count(), 1);
}

#[test]
fn the_claim_drops_the_value_if_the_thread_has_left() {
    let drops = Drops::default();
    let value = drops.one();
    let (start, claim) = make(move || value);
    start.run();
    assert_eq!(drops.count(), 0);
    drop(claim);
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_start_that_is_dropped_drops_the_closure() {
    let drops = Drops::default();
    for claim_first in [false, true] {
        let captured = drops.one();
        let (start, claim) = make(move || drop(captured));
        let before = drops.count();
        if claim_first {
            drop(claim);
            drop(start);
        } else {
            drop(start);
            drop(claim);
        }
        assert_eq!(drops.count(), before + 1);
    }
}

#[test]
fn a_closure_that_panics_when_it_is_dropped_unrun_frees_its_cell() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    let bomb = Bomb;
    let (start, claim) = make(move || drop(bomb));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(start))).is_err());
    drop(claim);
}

#[test]
fn the_ending_is_told_of_panics_that_nobody_saw() {
    for (panics, claim_first, expected) in
        [(false, true, 1), (true, true, 2), (false, false, 1), (true, false, 1)]
    {
        let told = Told::default();
        let f = move || assert!(!panics, "expected by the test");
        // SAFETY: all is `Send` and borrows nothing.
        let (start, claim) = unsafe { packet(f, told.clone()) };
        if claim_first {
            drop(claim);
            start.run();
        } else {
            start.run();
            assert_eq!(claim.abandon(), panics);
        }
        assert_eq!(told.0.load(SeqCst), expected);
    }
}

#[test]
fn an_over_aligned_value_lies_where_the_claim_looks() {
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    let (start, claim) = make(|| Aligned([3; 64]));
    start.run();
    let value = claim.take().ok().unwrap();
    assert_eq!(value.0, [3; 64]);
    assert!((&raw const value).is_aligned());
}

#[test]
fn both_sides_may_leave_at_once() {
    for _ in 0..200 {
        let drops = Drops::default();
        let value = drops.one();
        let (start, claim) = make(move || value);
        std::thread::scope(|s| {
            s.spawn(|| start.run());
            s.spawn(|| drop(claim));
        });
        assert_eq!(drops.count(), 1);
    }
}
