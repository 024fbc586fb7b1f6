//! The list of all cores of kernel threads: a walk beside a thread that adds one.

use super::{all, fresh};
use crate::park::tests::loom_model::model;
use crate::shim::atomic::Ordering;

#[test]
fn a_look_at_all_follows_only_what_is_there() {
    model(|| {
        // The list must exist before the threads do.
        let first = fresh();
        let other = loom::thread::spawn(fresh);
        let seen: Vec<_> =
            all().inspect(|thread| assert_eq!(thread.tid.load(Ordering::Relaxed), 0)).collect();
        assert!(seen.iter().any(|thread| std::ptr::eq(*thread, first)), "what was there is found");
        let second = other.join().unwrap();
        assert!(all().any(|thread| std::ptr::eq(thread, second)));
    });
}
