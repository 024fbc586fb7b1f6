//! Models: a viewer walks twice while a name is given or removed.

use super::*;
use crate::park::tests::loom_model::model;

const KEY: usize = 8;

/// Looks at the name's mark if any name has changed, as a viewer does.
fn walk(seen: &mut Seen, mark: &mut u64) {
    if seen.have_changed() {
        *mark = mark_of(KEY);
    }
}

/// A viewer, beside a thread that changes a name.
fn views(change: fn()) {
    model(move || {
        let (mut seen, mut mark) = (Seen::default(), 0);
        give(KEY, "old");
        walk(&mut seen, &mut mark);
        assert_eq!(mark, 1);
        let changes = loom::thread::spawn(change);
        walk(&mut seen, &mut mark);
        changes.join().unwrap();
        walk(&mut seen, &mut mark);
        assert_eq!(mark, mark_of(KEY), "it has missed a change");
        take(KEY);
    });
}

#[test]
fn a_name_that_is_given_is_seen() {
    views(|| give(KEY, "new"));
}

#[test]
fn a_name_that_is_removed_is_seen() {
    views(|| take(KEY));
}

/// A change that is counted before the entry's lock is acquired is missed.
#[test]
#[should_panic(expected = "it has missed a change")]
fn negative_counted_too_early() {
    views(|| {
        let mark = count();
        NAMES.change(KEY, |name| name.mark = mark);
    });
}

/// The same for one that is removed.
#[test]
#[should_panic(expected = "it has missed a change")]
fn negative_counted_before_the_removal() {
    views(|| {
        count();
        drop(NAMES.take(KEY, |_| true));
    });
}
