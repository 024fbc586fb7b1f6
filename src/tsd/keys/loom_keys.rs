//! The table of keys: takers against each other, and against a thread that gives back. And a value that its
//! key has left behind, in a thread that knows nothing of that. Negative models: without the
//! compare-and-swaps, and with a generation that is used again.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{FIRST_KEYS, Keys, Word};
use crate::park::current::current;
use crate::park::specific::{Header, KeyId, Occasion};
use crate::park::tests::loom_model::{model, together};
use crate::shim::atomic::Ordering;

fn keys() -> Arc<Keys> {
    let keys = Keys::new();
    // Everything must exist before the threads do.
    keys.lowest.load(Ordering::Relaxed);
    for chunk in &keys.chunks {
        chunk.load(Ordering::Relaxed);
    }
    Arc::new(keys)
}

/// Runs `first` on this thread and `second` on another. Returns both results.
fn both<R: Send + 'static>(first: impl FnOnce() -> R, second: impl FnOnce() -> R + Send + 'static) -> (R, R) {
    let other = loom::thread::spawn(second);
    let first = first();
    (first, other.join().unwrap())
}

#[test]
fn two_takers_get_two_numbers() {
    model(|| {
        let keys = keys();
        let theirs = Arc::clone(&keys);
        // Both create the first chunk, and one creates the second.
        let (mine, others) = both(
            move || vec![keys.take().unwrap()],
            move || {
                let first = theirs.take().unwrap();
                theirs.give_back(first);
                vec![first, theirs.take().unwrap()]
            },
        );
        assert!(!others.contains(&mine[0]) && others[0] != others[1]);
    });
}

#[test]
fn what_is_given_back_is_found_again() {
    model(|| {
        let keys = keys();
        let [first, second] = [(); 2].map(|()| keys.take().unwrap());
        let (one, other) = (Arc::clone(&keys), Arc::clone(&keys));
        both(move || one.give_back(first), move || other.give_back(second));
        let mut again = [(); 2].map(|()| keys.take().unwrap().index());
        again.sort_unstable();
        assert_eq!(again, [first.index(), second.index()]);
    });
}

#[track_caller]
fn assert_one_has_it(taken: (Option<u32>, Option<u32>)) {
    assert_ne!(taken, (Some(1), Some(1)), "both have the index");
    assert!(matches!(taken, (Some(1), None) | (None, Some(1))), "{taken:?}");
}

/// Lets two takers take one word, by `take`.
fn two_takers(take: fn(&Word) -> Option<u32>) {
    let word = Arc::new(Word::new());
    let theirs = Arc::clone(&word);
    let taken = both(move || take(&word), move || take(&theirs));
    assert_one_has_it(taken);
}

#[test]
fn one_of_two_takers_has_the_index() {
    model(|| two_takers(Word::take));
}

/// A taker looks, and then writes.
#[test]
#[should_panic(expected = "both have the index")]
fn negative_taken_by_a_store() {
    model(|| {
        two_takers(|word| {
            let seen = word.generation();
            (seen & 1 == 0).then(|| {
                word.0.store(seen + 1, Ordering::Relaxed);
                seen + 1
            })
        });
    });
}

/// A chunk replaces another thread's: the two have the same indices, of the same generations.
#[test]
#[should_panic(expected = "both have the index")]
fn negative_chunk_published_by_a_store() {
    fn take(keys: &Keys) -> Option<u32> {
        if keys.chunk(0).is_none() {
            let words: Box<[Word]> = (0..FIRST_KEYS).map(|_| Word::new()).collect();
            keys.chunks[0].store(Box::into_raw(words).cast(), Ordering::Release);
        }
        keys.chunk(0).unwrap()[0].take()
    }
    model(|| {
        let keys = keys();
        let theirs = Arc::clone(&keys);
        let taken = both(move || take(&keys), move || take(&theirs));
        assert_one_has_it(taken);
    });
}

/// A value of a thread.
#[repr(C)]
struct Value {
    header: Header,
}

unsafe fn free(header: NonNull<Header>, _: Occasion) {
    // SAFETY: `put` made it.
    drop(unsafe { Box::from_raw(header.cast::<Value>().as_ptr()) });
}

fn put(key: KeyId) {
    let value = NonNull::from(Box::leak(Box::new(Value { header: Header::new(key, free) })));
    // SAFETY: leaked, and only `free` frees it.
    assert!(unsafe { current().specific.put(true, value.cast()) }.is_none());
}

/// One thread puts a value under a key, and looks for one under the key that there is then. Another thread
/// drops the first key and creates a second one, by `renew`.
fn a_value_left_behind(renew: fn(&Keys, KeyId) -> KeyId) {
    let keys = keys();
    let first = keys.take().unwrap();
    // The key, and which of the two it is.
    let shared = Arc::new(loom::sync::Mutex::new((first, 1)));
    let theirs = Arc::clone(&shared);
    let user = move || {
        let then = *shared.lock().unwrap();
        put(then.0);
        let now = *shared.lock().unwrap();
        let found = crate::tsd::find(now.0).is_some();
        assert!(found || then.1 != now.1, "lost");
        assert!(!found || then.1 == now.1, "found under another key");
        current().specific.end();
        assert!(crate::tsd::find(then.0).is_none());
    };
    let owner = move || {
        let mut shared = theirs.lock().unwrap();
        *shared = (renew(&keys, shared.0), 2);
    };
    together([Box::new(user), Box::new(owner)]);
}

#[test]
fn a_value_left_behind_is_not_found() {
    model(|| {
        a_value_left_behind(|keys, old| {
            keys.give_back(old);
            let new = keys.take().unwrap();
            assert_eq!(new.index(), old.index());
            new
        });
    });
}

/// A key that gives its generation back, too.
#[test]
#[should_panic(expected = "under another key")]
fn negative_generation_used_again() {
    model(|| {
        a_value_left_behind(|keys, old| {
            keys.word(old).unwrap().0.fetch_sub(1, Ordering::Relaxed);
            keys.lowest.fetch_min(old.index() as u32, Ordering::Release);
            keys.take().unwrap()
        });
    });
}

/// If a thread knows that a key is gone, since it ends after the key, it passes the key's values to no
/// destructor. That holds even if the index has been taken again.
#[test]
fn a_key_that_is_gone_is_not_there() {
    model(|| {
        let keys = keys();
        let old = keys.take().unwrap();
        let gone = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let (theirs, said) = (Arc::clone(&keys), Arc::clone(&gone));
        both(
            move || {
                if gone.load(Ordering::Acquire) {
                    assert!(!keys.has(old));
                }
            },
            move || {
                theirs.give_back(old);
                said.store(true, Ordering::Release);
                let new = theirs.take().unwrap();
                assert!(theirs.has(new) && !ptr::eq(&new, &old) && new != old);
            },
        );
    });
}
