//! Numbers: none is used twice, low ones come first, and what happens when there are no more.

use std::collections::HashSet;
use std::sync::Mutex;

use super::{Keys, LAST, LIMIT, len_of, place_of};
use crate::park::specific::KeyId;
use crate::shim::atomic::Ordering;

#[test]
fn every_index_has_a_place() {
    let mut next = (0, 0);
    for index in 0..10_000 {
        assert_eq!(place_of(index), next, "{index}");
        next.1 += 1;
        if next.1 == len_of(next.0) {
            next = (next.0 + 1, 0);
        }
    }
    assert_eq!(place_of(LIMIT - 1), (super::CHUNKS - 1, len_of(super::CHUNKS - 1) - 1));
}

#[test]
fn low_indices_come_first_and_again() {
    let keys = Keys::new();
    let taken: Vec<KeyId> = (0..200).map(|_| keys.take().unwrap()).collect();
    assert!(taken.iter().enumerate().all(|(index, key)| key.index() == index && keys.has(*key)));
    for index in [150, 3, 77] {
        keys.give_back(taken[index]);
        assert!(!keys.has(taken[index]));
    }
    let again: Vec<KeyId> = (0..4).map(|_| keys.take().unwrap()).collect();
    assert_eq!(again.iter().map(|key| key.index()).collect::<Vec<_>>(), [3, 77, 150, 200]);
    assert!(again.iter().all(|key| !taken.contains(key) && keys.has(*key)));
}

#[test]
fn no_number_is_that_of_no_key() {
    let keys = Keys::new();
    for _ in 0..3 {
        let key = keys.take().unwrap();
        assert_ne!(key, KeyId::NONE);
        assert_eq!((key.index(), key.generation() & 1), (0, 1));
        keys.give_back(key);
    }
}

#[test]
fn an_index_without_generations_left_is_left_alone() {
    let keys = Keys::new();
    let first = keys.take().unwrap();
    let word = keys.word(first).unwrap();
    // Two generations before the last.
    word.0.store(LAST - 3, Ordering::Relaxed);
    let last = KeyId::new(0, LAST - 1);
    keys.give_back(KeyId::new(0, LAST - 3));
    assert_eq!(keys.take().unwrap(), last);
    keys.give_back(last);
    assert_eq!(keys.take().unwrap().index(), 1, "never again");
    assert!(!keys.has(last));
}

#[test]
fn there_is_an_end_of_numbers_and_an_error_says_so() {
    let keys = Keys::new();
    let all: Vec<KeyId> = (0..LIMIT).map(|_| keys.take().unwrap()).collect();
    assert_eq!(all.last().map(|key| key.index()), Some(LIMIT - 1));
    let error = keys.take().unwrap_err().to_string();
    assert!(error.contains(&LIMIT.to_string()), "{error}");
    // The search starts above a hole that it does not know of, and finds it in the end.
    keys.give_back(all[1234]);
    keys.lowest.store(LIMIT as u32, Ordering::Relaxed);
    assert_eq!(keys.take().unwrap().index(), 1234);
    assert!(keys.take().is_err());
}

#[test]
fn threads_never_get_the_same() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 5_000;
    let (keys, all) = (Keys::new(), Mutex::new(HashSet::new()));
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                let mut mine = Vec::new();
                for round in 0..ROUNDS {
                    let key = keys.take().unwrap();
                    mine.push(key);
                    if round % 3 != 0 {
                        keys.give_back(key);
                    }
                }
                all.lock().unwrap().extend(mine.iter().map(|key| key.bits()));
            });
        }
    });
    assert_eq!(all.lock().unwrap().len(), THREADS * ROUNDS);
    // A third are still taken, and few holes were lost. How many depends on when threads meet.
    let next = keys.take().unwrap().index();
    assert!(next <= THREADS * ROUNDS / 2, "{next}");
}
