//! A set of LWPs that any thread changes and looks through: the LWPs that sleep idle, those that others may
//! take threads from, and those that share a cache.
//!
//! **The problem.** Under a lock, all LWPs that go to sleep or are woken wait for each other. A look through
//! all LWPs costs as many cache lines as there are LWPs, though most of them may sleep.
//!
//! **Shape.** One bit for each LWP. An LWP enters or leaves by one read-modify-write, and there is one cache
//! line for 512 LWPs. Exactly one thread takes an LWP out, as only one of them sees its bit change.
//!
//! **Order.** A thread that puts an LWP in orders what it did before. So does one that takes the LWP out or
//! finds it absent. Each change acquires and releases. A look orders nothing.

use crate::mxn::lwp::Lwp;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::shim::cpu;
use crate::sys::caches::Caches;

/// A set of LWPs, by number.
#[derive(Debug)]
pub(crate) struct LwpSet {
    words: Box<[AtomicU64]>,
    /// No LWP in the words from this one on has ever been in the set.
    used: AtomicU32,
}

/// The LWPs of a set, as they are seen one after the other.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    set: &'a LwpSet,
    used: usize,
    word: usize,
    /// Those of this word that are still to come.
    left: u64,
    /// The bits of the first word that come last.
    below: u64,
    /// How many words are still to come. The last is the first one again.
    to_come: usize,
}

impl Iterator for Members<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.left == 0 {
            self.to_come = self.to_come.checked_sub(1)?;
            self.word = if self.word + 1 < self.used { self.word + 1 } else { 0 };
            let seen = if self.to_come == 0 { !self.below } else { 0 };
            self.left = self.set.word(self.word) & !seen;
        }
        let bit = self.left.trailing_zeros();
        self.left &= self.left - 1;
        Some(self.word as u32 * BITS + bit)
    }
}

const BITS: u32 = u64::BITS;

/// Returns the word and the bit of an LWP.
fn place(lwp: u32) -> (usize, u64) {
    ((lwp / BITS) as usize, 1 << (lwp % BITS))
}

impl LwpSet {
    /// Makes an empty set for LWPs with numbers below `lwps`. Allocates here and nowhere else (I4).
    pub(crate) fn new(lwps: usize) -> Self {
        let words = (0..lwps.div_ceil(BITS as usize)).map(|_| AtomicU64::new(0)).collect();
        Self { words, used: AtomicU32::new(0) }
    }

    /// Puts an LWP in. Returns `false` if it was in the set.
    pub(crate) fn insert(&self, lwp: u32) -> bool {
        let (word, bit) = place(lwp);
        // Relaxed, both: a look that misses a word is one that came too early.
        if self.used.load(Ordering::Relaxed) <= word as u32 {
            self.used.fetch_max(word as u32 + 1, Ordering::Relaxed);
        }
        // AcqRel: see the header.
        self.words[word].fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    /// Takes an LWP out. Returns `false` if it was not in the set.
    #[must_use]
    pub(crate) fn remove(&self, lwp: u32) -> bool {
        let (word, bit) = place(lwp);
        // AcqRel: see the header.
        self.words[word].fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Returns `true` if the LWP is in the set, at this moment.
    #[inline]
    pub(crate) fn contains(&self, lwp: u32) -> bool {
        let (word, bit) = place(lwp);
        self.word(word) & bit != 0
    }

    /// Returns `true` if another LWP is in the set, at this moment.
    #[inline]
    pub(crate) fn has_others(&self, lwp: u32) -> bool {
        let (own, bit) = place(lwp);
        // Relaxed: see `insert`.
        let used = self.used.load(Ordering::Relaxed) as usize;
        (0..used).any(|word| self.word(word) & !(if word == own { bit } else { 0 }) != 0)
    }

    /// Takes an LWP out: `first` if it is in the set, or else the one of the lowest number. LWPs in `near` go
    /// before the others, if that is given.
    #[must_use]
    pub(crate) fn take(&self, first: u32, near: Option<&LwpSet>) -> Option<u32> {
        let is_near = |lwp| near.is_none_or(|near| near.contains(lwp));
        // A look before the change: the line may be others'.
        if is_near(first) && self.contains(first) && self.remove(first) {
            return Some(first);
        }
        let nearest = self.from(0).find(|&lwp| is_near(lwp) && self.remove(lwp));
        nearest.or_else(|| if near.is_some() { self.take(first, None) } else { None })
    }

    /// Returns the LWPs of the set, each once: from this number on, and then those below.
    #[inline]
    pub(crate) fn from(&self, start: u32) -> Members<'_> {
        // Relaxed: see `insert`.
        let used = self.used.load(Ordering::Relaxed) as usize;
        let (word, bit) = place(start);
        let (word, below) = if word < used { (word, bit - 1) } else { (0, 0) };
        let left = if used == 0 { 0 } else { self.word(word) & !below };
        Members { set: self, used, word, left, below, to_come: used }
    }

    /// Returns where the set lies. For counts of cache lines.
    #[cfg(test)]
    pub(crate) fn place(&self) -> std::ops::Range<usize> {
        let words = self.words.as_ptr_range();
        words.start.addr()..words.end.addr()
    }

    /// For a model of what may not be done.
    #[cfg(all(test, loom))]
    pub(crate) fn words_for_models(&self) -> &[AtomicU64] {
        &self.words
    }

    fn word(&self, word: usize) -> u64 {
        // Relaxed: a look. Where it must not miss, fences order it (`idle`).
        self.words[word].load(Ordering::Relaxed)
    }
}

/// The LWPs by the cache that they were last on: they are *near* each other. Empty if there is one cache, or
/// if every look goes to all LWPs anyway.
///
/// A thread that moves to such an LWP brings its lines along for less. So a thief looks at these LWPs first
/// (`sched::search`), and a waker takes a sleeper among them (`sched::idle`).
///
/// The kernel moves LWPs between processors at any time. An LWP notes where it is when it begins to search,
/// and now and then while it runs. What is said here is a guess; no LWP gets lost by a wrong one.
#[derive(Debug)]
pub(crate) struct Near {
    caches: Option<&'static Caches>,
    /// By group.
    lwps: Box<[LwpSet]>,
}

impl Near {
    /// Makes a record for LWPs with numbers below `lwps`. Allocates here and nowhere else (I4).
    pub(crate) fn new(lwps: usize, caches: Option<&'static Caches>) -> Self {
        let groups = caches.map_or(0, Caches::count);
        Self { caches, lwps: (0..groups).map(|_| LwpSet::new(lwps)).collect() }
    }

    /// Notes where the LWP is, and returns the LWPs near it; `None`: no LWP is nearer than another. Owner
    /// only.
    #[inline]
    pub(crate) fn settle(&self, lwp: &Lwp) -> Option<&LwpSet> {
        let caches = self.caches?;
        let group = caches.group(lwp.search.cpu()?);
        let before = lwp.search.group.replace(Some(group));
        if before != Some(group) {
            if let Some(before) = before {
                let _ = self.lwps[usize::from(before)].remove(lwp.index);
            }
            self.lwps[usize::from(group)].insert(lwp.index);
        }
        Some(&self.lwps[usize::from(group)])
    }

    /// Returns the LWPs that are near the calling kernel thread; `None`: no LWP is nearer than another.
    #[inline]
    pub(crate) fn here(&self) -> Option<&LwpSet> {
        self.caches.map(|caches| &self.lwps[usize::from(caches.group(cpu::current()))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lwp_is_seen_once_from_any_start() {
        let set = LwpSet::new(200);
        let all = [0, 1, 5, 63, 64, 100, 127, 130];
        assert_eq!(set.from(0).count() + set.from(199).count(), 0);
        for lwp in all {
            assert!(set.insert(lwp) && !set.insert(lwp) && set.contains(lwp));
            assert_eq!(set.has_others(lwp), lwp != all[0], "{lwp}");
        }
        assert!((0..200).all(|lwp| set.has_others(lwp)));
        for start in 0..200 {
            let (below, above): (Vec<_>, Vec<_>) = all.into_iter().partition(|&lwp| lwp < start);
            assert_eq!(set.from(start).collect::<Vec<_>>(), [above, below].concat(), "from {start}");
        }
    }

    #[test]
    fn the_one_that_is_asked_for_is_taken_or_else_the_first() {
        let set = LwpSet::new(100);
        assert!([3, 70, 99].into_iter().all(|lwp| set.insert(lwp)));
        let take = |first| set.take(first, None);
        assert_eq!((take(70), take(70), take(98)), (Some(70), Some(3), Some(99)));
        assert!(take(3).is_none() && !set.remove(3) && !set.contains(3));
    }

    #[test]
    fn those_that_are_near_are_taken_before_the_others() {
        let (set, near) = (LwpSet::new(100), LwpSet::new(100));
        assert!([3, 70, 98, 99].into_iter().all(|lwp| set.insert(lwp)));
        assert!([2, 70, 99].into_iter().all(|lwp| near.insert(lwp)));
        let take = |first| set.take(first, Some(&near));
        assert_eq!([take(99), take(3), take(98), take(98)], [Some(99), Some(70), Some(98), Some(3)]);
        assert!(take(2).is_none() && near.contains(70), "it sleeps no more, and is still near");
    }
}
