//! A table of facts that a crash reads while they change.
//!
//! **Problem.** What has gone wrong may have happened in the middle of a change. The reader takes no lock and
//! waits for nothing. It may be a signal handler on the very thread that makes the change.
//!
//! **Rejected.** To publish pointers to facts on the heap: none could ever be freed, because a crash may read
//! it.
//!
//! **Protocol.** A row has a version and some words. The first word is its key; 0 means that the row is
//! empty. The lowest bit of the version says that the row is being written. A writer
//!
//! 1. takes the row: it sets that bit by a compare-and-swap, from a version without it,
//! 2. does a release fence, and stores the words by relaxed order, and
//! 3. stores the next version by release.
//!
//! A reader loads the version by acquire, copies the words, does an acquire fence, and loads the version
//! again. If the row was being written, or the version is another one, the reader skips the row. A writer
//! does not wait either. It tries another row, or leaves the change to the thread that has the row.
//!
//! A key is in one of [`NEAR`] rows. If all of them are in use, a row that was [let go](Notes::let_go) is
//! used again. If there is none, the table has no room.
//!
//! **Proof.** If a copy contains a word that a writer has stored, the writer's fence comes before the store,
//! and the reader's after the load. So the fences synchronize, and the second load of the version returns the
//! one with the writer's bit, or a later one. If the first load has returned the same, the bit is clear, and
//! that load has synchronized with the end of that change. So the copy has its words.
//!
//! **Cost**: a compare-and-swap for each change.

use crate::shim::atomic::{AtomicU64, Ordering, fence};

/// In how many rows a key may be.
const NEAR: usize = 16;

/// A bit of the version: the row is being written.
const WRITING: u64 = 1;
/// A bit of the version: the row may be used for another key.
const FREE: u64 = 2;
/// Versions without the bits differ by this.
const STEP: u64 = 4;

/// A table of `ROWS` rows of `WORDS` words.
#[derive(Debug)]
pub(crate) struct Notes<const WORDS: usize, const ROWS: usize> {
    rows: [Row<WORDS>; ROWS],
}

#[derive(Debug)]
struct Row<const WORDS: usize> {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize, const ROWS: usize> Notes<WORDS, ROWS> {
    pub(crate) const fn new() -> Self {
        Self { rows: [const { Row::new() }; ROWS] }
    }

    /// Returns the rows in which a key may be.
    fn near(&self, key: u64) -> impl Iterator<Item = &Row<WORDS>> {
        let first = (key % ROWS as u64) as usize;
        (first..first + NEAR.min(ROWS)).map(|at| &self.rows[at % ROWS])
    }

    /// Adds a row for the key `words[0]`, which has none. Returns `false` if there is no room. For one key,
    /// one thread at a time calls this.
    pub(crate) fn add(&self, words: [u64; WORDS]) -> bool {
        let is_empty = |version: u64, key: u64| key == 0 || version & FREE != 0;
        let take = |is: fn(u64, u64) -> bool| self.near(words[0]).find_map(|row| Some((row, row.take(is)?)));
        // A row that was let go still tells something.
        let Some((row, version)) = take(|_, key| key == 0).or_else(|| take(is_empty)) else { return false };
        row.fill(version, words);
        true
    }

    /// Changes the row of the key `words[0]`. Does nothing if there is none, or if another thread changes it
    /// at the moment.
    pub(crate) fn change(&self, words: [u64; WORDS]) {
        if let Some((row, version)) = self.take(words[0]) {
            row.fill(version, words);
        }
    }

    /// Lets the row of a key be used for another one. Until then, it is kept.
    pub(crate) fn let_go(&self, key: u64) {
        if let Some((row, version)) = self.take(key) {
            row.put_back(version, FREE);
        }
    }

    /// Empties all rows but those that are being written.
    pub(crate) fn clear(&self) {
        for row in &self.rows {
            if let Some(version) = row.take(|_, key| key != 0) {
                row.fill(version, [0; WORDS]);
            }
        }
    }

    /// Takes the row of a key that was not let go.
    fn take(&self, key: u64) -> Option<(&Row<WORDS>, u64)> {
        let is = |version: u64, of: u64| of == key && version & FREE == 0;
        self.near(key).find_map(|row| Some((row, row.take(is)?)))
    }

    /// Returns all rows that are whole at the moment. Async-signal-safe.
    pub(crate) fn rows(&self) -> impl Iterator<Item = [u64; WORDS]> {
        self.rows.iter().filter_map(Row::read)
    }
}

impl<const WORDS: usize> Row<WORDS> {
    const fn new() -> Self {
        Self { version: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// Takes the row to write it, if its version and its key are so. Returns the version.
    fn take(&self, is: impl Fn(u64, u64) -> bool) -> Option<u64> {
        // Acquire: pairs with the release of `put_back`, so the key is of this version or a later one.
        let version = self.version.load(Ordering::Acquire);
        // Relaxed: if it is of a later version, the exchange fails.
        if version & WRITING != 0 || !is(version, self.words[0].load(Ordering::Relaxed)) {
            return None;
        }
        // Acquire: what the last writer stored comes before what this one stores.
        self.version.compare_exchange(version, version | WRITING, Ordering::Acquire, Ordering::Relaxed).ok()
    }

    /// Stores the words. The caller has taken the row, from this version.
    fn fill(&self, version: u64, words: [u64; WORDS]) {
        // Pairs with the fence of `read`.
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(words) {
            // Relaxed: ordered by the fence and the version.
            word.store(value, Ordering::Relaxed);
        }
        self.put_back(version, 0);
    }

    /// Ends what `take` began.
    fn put_back(&self, version: u64, bits: u64) {
        let next = (version & !(STEP - 1)).wrapping_add(STEP);
        // Release: pairs with `read` and `take`.
        self.version.store(next | bits, Ordering::Release);
    }

    /// Returns the words, unless the row is empty or being written.
    fn read(&self) -> Option<[u64; WORDS]> {
        // Acquire: pairs with `put_back`.
        let version = self.version.load(Ordering::Acquire);
        // Relaxed: the fence below tells if the copy is whole.
        let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        // Pairs with the fence of `fill`.
        fence(Ordering::Acquire);
        let is_whole = version & WRITING == 0 && self.version.load(Ordering::Relaxed) == version;
        (is_whole && words[0] != 0).then_some(words)
    }
}

#[cfg(all(test, loom))]
mod loom_notes;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<const ROWS: usize>(notes: &Notes<2, ROWS>) -> Vec<u64> {
        let mut keys: Vec<u64> = notes.rows().map(|[key, _]| key).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn what_was_let_go_stays_until_there_is_no_other_room() {
        let notes = Notes::<2, 3>::new();
        // In the first row and the last.
        assert!([6, 8].into_iter().all(|key| notes.add([key, key])));
        notes.let_go(6);
        notes.change([6, 1]);
        notes.change([8, 1]);
        notes.change([12, 1]);
        assert!(notes.add([9, 9]));
        let mut rows: Vec<_> = notes.rows().collect();
        rows.sort_unstable();
        assert_eq!(rows, [[6, 6], [8, 1], [9, 9]], "what was let go does not change");
        assert!(notes.add([12, 12]));
        assert_eq!(keys(&notes), [8, 9, 12]);
        assert!(!notes.add([15, 15]), "there is no room");
        assert_eq!(keys(&notes), [8, 9, 12]);
        // It was let go under another key.
        notes.let_go(6);
        assert!(!notes.add([15, 15]));
        notes.clear();
        assert!(keys(&notes).is_empty());
        assert!(notes.add([9, 9]) && keys(&notes) == [9]);
    }

    /// The rows of a key that is near the end of the table are also at its beginning.
    #[test]
    fn as_many_keys_have_room_as_are_near() {
        let notes = Notes::<2, 20>::new();
        assert_eq!((0..20).filter(|n| notes.add([19 + 20 * n, 0])).count(), NEAR);
        assert!(notes.add([15, 0]));
    }

    /// A reader beside two writers finds only whole rows.
    #[test]
    fn rows_are_whole_while_they_change() {
        let notes = Notes::<8, 4>::new();
        std::thread::scope(|scope| {
            let writers = [1, 2].map(|first| {
                let notes = &notes;
                scope.spawn(move || {
                    for key in (first..100_000).step_by(2) {
                        assert!(notes.add([key; 8]));
                        notes.let_go(key);
                    }
                })
            });
            while !writers.iter().all(|writer| writer.is_finished()) {
                for row in notes.rows() {
                    assert_eq!(row, [row[0]; 8]);
                }
            }
        });
        assert_eq!(notes.rows().count(), 4);
    }
}
