//! Where a thread that was asked to end may be ended.

use super::running::{REFUSES, SECTION};
use super::*;
use crate::park::current;
use crate::park::no_preempt::Count;

/// A thread was ended in std's `OwnedFd`, which closed a descriptor in `poll`. std may not be unwound there.
#[test]
fn in_a_call_of_this_crate_a_marked_part_may_be_left_only_where_the_program_waits() {
    let cancel = Cancel::green();
    let library = AtomicU32::new(SECTION);
    let running =
        Running { thread: current::current(), count: Count::of_caller(), library: &raw const library };
    cancel.running.set(running).unwrap();
    let ends = || cancel.is_due_at(true, false);
    assert!(!ends(), "it was not asked to");
    cancel.word.store(REQUESTED, Ordering::Relaxed);
    assert!(ends(), "the program itself is there");
    cancel.within.store(true, Ordering::Relaxed);
    assert!(!ends(), "what this crate calls may be there");
    for place in [cancel.word.as_ptr().cast_const(), ptr::from_ref(&cancel.cut).cast()] {
        assert_eq!(cancel.cut.sleep(place, ends), Some(true), "the program waits there");
    }
    cancel.within.store(false, Ordering::Relaxed);
    library.store(SECTION | REFUSES, Ordering::Relaxed);
    assert!(!ends());
    library.store(0, Ordering::Relaxed);
    assert!(!ends());
}
