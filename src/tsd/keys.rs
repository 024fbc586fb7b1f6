//! The numbers of keys: an index, which says where each thread has its value, and a generation.
//!
//! **Problem.** Indices should be low, since each thread that uses a key has entries up to its index. So
//! those of dropped keys are used again. Threads still hold values under them, and no thread may walk over
//! all threads.
//!
//! **Rejected.** A list of free indices under a lock. An allocator that uses keys would wait for itself, and
//! a forked child for a thread that it does not have. A bit for each index, and a generation in each thread's
//! entry: a thread that compares it must look it up first.
//!
//! **Protocol** (glibc's, without its limit of 1024). Each index has a word, its generation, which is odd
//! while a key has the index. To take an index, and to give it back, each add one. A value carries the
//! number of its key: index and generation. So the next key of the same index does not find it, and the
//! value itself shows that it is stale. If the generations of an index are used up, the index is never used
//! again. So no number is ever used twice.
//!
//! Words lie in chunks, each twice as long as the one before. Chunks are created when needed, and never
//! freed. `lowest` is where the search for an even word starts. It may be too high if another thread gives
//! an index back during a search. That index then waits until a search that finds nothing starts once more
//! at 0.
//!
//! **Cost** in read-modify-writes: 2 to take a key, 2 to give it back, on words that no other thread reads.

use std::io;
use std::ptr;

use crate::park::specific::KeyId;
use crate::shim::FIRST_KEYS;
use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering, fence};

/// The number of chunks. They allow a million keys at a time, and no thread can be made to have more entries.
const CHUNKS: usize = 14;

/// The most keys that there can be at a time.
pub(super) const LIMIT: usize = FIRST_KEYS * ((1 << CHUNKS) - 1);

/// All numbers.
pub(super) struct Keys {
    chunks: [AtomicPtr<Word>; CHUNKS],
    /// All indices below are taken, as far as is known.
    lowest: AtomicU32,
}

impl Keys {
    pub(super) const fn new() -> Self {
        Self { chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS], lowest: AtomicU32::new(0) }
    }

    /// Returns a number that no other key has had.
    pub(super) fn take(&self) -> io::Result<KeyId> {
        // Relaxed, here and in `give_back`: only where a search starts. The words decide.
        let lowest = self.lowest.load(Ordering::Relaxed);
        if let Some(taken) = self.take_from(lowest)? {
            // Unless another thread has set it meanwhile. Relaxed: only where a search starts.
            let above = taken.index() as u32 + 1;
            let _ = self.lowest.compare_exchange(lowest, above, Ordering::Relaxed, Ordering::Relaxed);
            return Ok(taken);
        }
        self.take_from(0)?.ok_or_else(none_left)
    }

    fn take_from(&self, lowest: u32) -> io::Result<Option<KeyId>> {
        let mut index = lowest as usize;
        while index < LIMIT {
            let (chunk, offset) = place_of(index);
            let words = &self.chunk_or_new(chunk)?[offset..];
            for (word, index) in words.iter().zip(index as u32..) {
                if let Some(generation) = word.take() {
                    return Ok(Some(KeyId::new(index, generation)));
                }
            }
            index += words.len();
        }
        Ok(None)
    }

    /// Takes the number of a dropped key back.
    pub(super) fn give_back(&self, key: KeyId) {
        self.word(key).expect("it was taken").give_back();
        self.lowest.fetch_min(key.index() as u32, Ordering::Relaxed);
    }

    /// Returns `true` if the key of this number exists.
    pub(super) fn has(&self, key: KeyId) -> bool {
        // The number may be one that another thread has taken, with the first of its chunk. Pairs with the
        // release of that thread (`Number::take`), of which the caller has read the number.
        fence(Ordering::Acquire);
        self.word(key).is_some_and(|word| word.generation() == key.generation())
    }

    fn word(&self, key: KeyId) -> Option<&Word> {
        let (chunk, offset) = place_of(key.index());
        self.chunk(chunk)?.get(offset)
    }

    fn chunk(&self, chunk: usize) -> Option<&[Word]> {
        // Acquire: pairs with the release in `chunk_or_new`.
        let words = self.chunks[chunk].load(Ordering::Acquire);
        // SAFETY: null, or stored by `chunk_or_new` with this length, and never freed.
        (!words.is_null()).then(|| unsafe { std::slice::from_raw_parts(words, len_of(chunk)) })
    }

    fn chunk_or_new(&self, chunk: usize) -> io::Result<&[Word]> {
        if let Some(words) = self.chunk(chunk) {
            return Ok(words);
        }
        let mut fresh = Vec::new();
        fresh.try_reserve_exact(len_of(chunk)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        fresh.extend((0..len_of(chunk)).map(|_| Word::new()));
        let fresh: *mut [Word] = Box::into_raw(fresh.into_boxed_slice());
        // Release: pairs with the acquire in `chunk`. Relaxed on failure: it is loaded again.
        let put = self.chunks[chunk].compare_exchange(
            ptr::null_mut(),
            fresh.cast(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        if put.is_err() {
            // SAFETY: created above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(fresh) });
        }
        Ok(self.chunk(chunk).expect("ours, or another's"))
    }
}

/// Returns the number of words in a chunk.
const fn len_of(chunk: usize) -> usize {
    FIRST_KEYS << chunk
}

/// Returns the chunk of an index, and the offset in it.
fn place_of(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST_KEYS + 1).ilog2() as usize;
    (chunk, index - FIRST_KEYS * ((1 << chunk) - 1))
}

#[cold]
fn none_left() -> io::Error {
    io::Error::other(format!("no key for thread-specific data is left: there are {LIMIT}"))
}

/// A generation.
///
/// | value | the index is | left by |
/// |---|---|---|
/// | even | free | `take` |
/// | odd | a key's | `give_back` |
/// | `LAST` | used up | none |
#[derive(Debug)]
struct Word(AtomicU32);

const LAST: u32 = u32::MAX - 1;

impl Word {
    fn new() -> Self {
        Self(AtomicU32::from(0))
    }

    fn generation(&self) -> u32 {
        // Relaxed, here and below: only the number matters. What threads keep under it is their own.
        self.0.load(Ordering::Relaxed)
    }

    /// Changes even to odd. Returns the new generation, or `None` if the word is not free.
    fn take(&self) -> Option<u32> {
        let seen = self.generation();
        let is_free = seen & 1 == 0 && seen != LAST;
        let taken = || self.0.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed);
        (is_free && taken().is_ok()).then(|| seen + 1)
    }

    /// Changes odd to even. Called for the key that has the index.
    fn give_back(&self) {
        let taken = self.0.fetch_add(1, Ordering::Relaxed);
        debug_assert!(taken & 1 == 1, "given back twice");
    }
}

#[cfg(all(test, loom))]
mod loom_keys;
#[cfg(test)]
mod tests;
