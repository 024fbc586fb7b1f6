//! A key that takes its number with its first value, from two threads at once.

use std::sync::Arc;

use super::{KEYS, Key, KeyId, Number};
use crate::park::current::current;
use crate::park::tests::loom_model::{model, spawn_with, together};
use crate::shim::atomic::Ordering;

/// Lets two threads ask for the number of one key, by `take`. Both must get it.
fn two_first_users(take: fn(&Number) -> KeyId) {
    let number = Arc::new(Number::new());
    assert_eq!(number.get(), KeyId::NONE);
    // The table must exist before the threads do.
    [(); 4].map(|()| KEYS.take().unwrap()).into_iter().for_each(|key| KEYS.give_back(key));
    let other = spawn_with(Arc::clone(&number), move |theirs| take(&theirs));
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

/// One thread takes a key's number, by `take`, and it is the first of the chunk. The other finds the number.
fn a_number_that_another_has_taken(take: fn(&Number)) {
    let number = Arc::new(Number::new());
    assert!(number.get() == KeyId::NONE && !KEYS.has(KeyId::new(0, 1)));
    let other = spawn_with(Arc::clone(&number), move |theirs| take(&theirs));
    let found = number.get();
    assert!(found == KeyId::NONE || KEYS.has(found), "a key that exists is not known");
    other.join().unwrap();
    assert!(KEYS.has(number.get()));
}

#[test]
fn a_thread_that_has_the_number_knows_the_key() {
    model(|| a_number_that_another_has_taken(|number| _ = number.take().unwrap()));
}

/// The number is seen before the chunk.
#[test]
#[should_panic(expected = "a key that exists is not known")]
fn negative_number_stored_without_release() {
    model(|| {
        a_number_that_another_has_taken(|number| {
            number.0.store(KEYS.take().unwrap().bits(), Ordering::Relaxed);
        });
    });
}
