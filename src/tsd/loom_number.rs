//! A key that takes its number with its first value, from two threads at once.

use std::sync::Arc;

use super::{KEYS, Key, KeyId, Number};
use crate::park::current::current;
use crate::park::tests::loom_model::{model, together};
use crate::shim::atomic::Ordering;

/// Lets two threads ask for the number of one key, by `take`. Both must get it.
fn two_first_users(take: fn(&Number) -> KeyId) {
    let number = Arc::new(Number::new());
    assert_eq!(number.get(), KeyId::NONE);
    // The table must exist before the threads do.
    [(); 4].map(|()| KEYS.take().unwrap()).into_iter().for_each(|key| KEYS.give_back(key));
    let theirs = Arc::clone(&number);
    let other = loom::thread::spawn(move || take(&theirs));
    let mine = take(&number);
    assert_eq!(mine, other.join().unwrap());
    assert_eq!(mine, number.get());
    assert!(KEYS.has(mine));
    // The number that was not needed is there for the next key.
    let next = KEYS.take().unwrap().index();
    assert!(next <= 1, "an index was lost: {next}");
}

#[test]
fn both_get_the_same_number() {
    model(|| two_first_users(|number| number.get_or_take().unwrap()));
}

/// The second thread stores its own number in place of the first one's.
#[test]
#[should_panic(expected = "an index was lost")]
fn negative_number_stored() {
    model(|| {
        two_first_users(|number| {
            if number.get() == KeyId::NONE {
                let taken = KEYS.take().unwrap();
                number.0.store(taken.bits(), Ordering::Relaxed);
            }
            number.get()
        });
    });
}

#[test]
fn values_set_at_once_are_each_threads_own() {
    model(|| {
        let key = Arc::new(Key::new());
        assert_eq!(key.number.get(), KeyId::NONE);
        KEYS.give_back(KEYS.take().unwrap());
        let user = |n: u32| {
            let key = Arc::clone(&key);
            move || {
                key.set(n);
                assert_eq!(key.get(), Some(n));
                assert_eq!(key.replace(n + 2), Some(n));
                current().specific.end();
                assert_eq!(key.get(), None);
            }
        };
        together([Box::new(user(1)), Box::new(user(2))]);
    });
}
