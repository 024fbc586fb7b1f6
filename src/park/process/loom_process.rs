//! The process's identity, found by two threads at once.

use super::{ID, KEPT, NAMESPACE, Process, START, this};
use crate::park::tests::loom_model::model;
use crate::shim::atomic::Ordering;

#[test]
fn both_of_two_threads_know_the_process() {
    model(|| {
        // Everything must exist before the threads do.
        let nothing = [&*KEPT, &*ID, &*START, &*NAMESPACE].map(|word| word.load(Ordering::Relaxed));
        assert_eq!(nothing, [0; 4]);
        let right = Process::this();
        let other = loom::thread::spawn(this);
        for found in [this(), other.join().unwrap()] {
            let (start, namespace) = (found.start, found.namespace);
            assert_eq!((found.id, start, namespace), (right.id, right.start, right.namespace));
        }
    });
}
