//! Models: a reader beside a writer of a row, and two threads that want the same row.

use loom::sync::Arc;

use super::*;

type Small<const ROWS: usize> = Notes<2, ROWS>;

/// Makes a table, and touches its atomics, so that they exist in the model.
fn new<const ROWS: usize>() -> Arc<Small<ROWS>> {
    let notes = Arc::new(Small::new());
    assert_eq!(notes.rows().count(), 0);
    notes
}

/// A writer fills a row that is in use; a reader looks once, by `read`. Both are the real ones, or
/// mutations of these.
fn model(fill: fn(&Row<2>, u64), read: fn(&Row<2>) -> Option<[u64; 2]>) {
    loom::model(move || {
        let notes = new::<1>();
        fill(&notes.rows[0], 1);
        let writer = loom::thread::spawn({
            let notes = Arc::clone(&notes);
            move || fill(&notes.rows[0], 2)
        });
        if let Some(words) = read(&notes.rows[0]) {
            assert_eq!(words, [words[0]; 2], "two halves");
        }
        writer.join().unwrap();
        assert_eq!(notes.rows().collect::<Vec<_>>(), [[2; 2]]);
    });
}

fn fill(row: &Row<2>, key: u64) {
    let version = row.take(|_, _| true).expect("no other thread writes");
    row.fill(version, [key; 2]);
}

#[test]
fn a_reader_finds_a_whole_row_or_none() {
    model(fill, Row::read);
}

#[test]
#[should_panic(expected = "two halves")]
fn without_the_writers_fence_a_reader_finds_two_halves() {
    model(
        |row, key| {
            let version = row.take(|_, _| true).expect("no other thread writes");
            row.words.iter().for_each(|word| word.store(key, Ordering::Relaxed));
            row.put_back(version, 0);
        },
        Row::read,
    );
}

#[test]
#[should_panic(expected = "two halves")]
fn a_reader_that_looks_at_the_version_only_once_finds_two_halves() {
    model(fill, |row| {
        let version = row.version.load(Ordering::Acquire);
        let words = row.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        (version & WRITING == 0 && words[0] != 0).then_some(words)
    });
}

/// Two threads add a key each, by `add`: there is room for both, whichever comes first.
fn two_add(add: fn(&Small<2>, u64) -> bool) {
    loom::model(move || {
        let notes = new::<2>();
        let other = loom::thread::spawn({
            let notes = Arc::clone(&notes);
            move || add(&notes, 2)
        });
        let added = add(&notes, 4);
        assert!(added && other.join().unwrap(), "there is room");
        let mut keys: Vec<u64> = notes.rows().map(|[key, ..]| key).collect();
        keys.sort_unstable();
        assert_eq!(keys, [2, 4], "a key is lost");
    });
}

#[test]
fn two_keys_have_two_rows() {
    two_add(|notes, key| notes.add([key; 2]));
}

#[test]
#[should_panic(expected = "a key is lost")]
fn a_row_that_is_taken_by_a_store_loses_a_key() {
    two_add(|notes, key| {
        let row = notes.near(key).find(|row| {
            let version = row.version.load(Ordering::Acquire);
            version & WRITING == 0 && row.words[0].load(Ordering::Relaxed) == 0
        });
        let Some(row) = row else { return notes.add([key; 2]) };
        let version = row.version.load(Ordering::Relaxed);
        row.version.store(version | WRITING, Ordering::Relaxed);
        row.fill(version & !WRITING, [key; 2]);
        true
    });
}
