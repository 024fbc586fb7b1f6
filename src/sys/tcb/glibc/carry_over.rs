//! What outlives a block: its thread id, and what the C library had in it.
//!
//! The library frees a thread's allocator cache, its place in an arena and the like in a function that it
//! does not export. So a block that goes away would leak them: a kilobyte or more each, and the cached
//! memory. They hang on the library's own thread-locals, and on fields of the block (`kept.rs`). Those hold
//! no address of the block itself but one (`__resp`, written anew). So those bytes are kept, and the next
//! block that is made starts with them.
//!
//! A thread that has asked the library for nothing leaves what the one before it has left. Of a crowd, most
//! are so. Then both have one copy of the bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::super::super::once::Mutex;

/// No kernel thread has an id like these: they are above `PID_MAX_LIMIT`. They fit the 30 bits of an id in a
/// futex.
const TIDS: std::ops::Range<u32> = 1 << 22 | 1..1 << 30;

/// Processes begin this far from one another at least. Mutexes that they share have owners by these ids. So
/// the first blocks of two programs have no ids in common. (A forked child goes on with the ids of its
/// parent.)
const OWN: u32 = 255;
/// Where processes may begin.
const PLACES: u32 = (TIDS.end - TIDS.start) / OWN;
/// From the place of a process to that of the one with the next process id. It divides all places by the
/// golden section, and they have no factor in common with it. So processes that were started one after the
/// other, as workers are, begin far apart, and none begins where another does.
const STEP: u32 = 2_592_223;

/// What one block leaves.
#[derive(Debug)]
pub(super) struct Estate {
    pub(super) tid: u32,
    /// The library's thread-locals, and those fields. `None`: the block is the first with this id.
    pub(super) library: Option<Arc<[u8]>>,
}

/// Which ids have been given out.
#[derive(Debug)]
struct Ids {
    /// The process that took the first one, or 0.
    process: AtomicU32,
    given: AtomicU32,
}

// Relaxed, all: only the numbers matter.
impl Ids {
    /// Returns one that no other block of this process has; `None` if all are given out.
    fn next(&self) -> Option<u32> {
        let all = TIDS.end - TIDS.start;
        let one_more = |given| (given < all).then_some(given + 1);
        let given = self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        let process = match self.process.load(Ordering::Relaxed) {
            0 => self.begin(),
            process => process,
        };
        let place = u64::from(process) * u64::from(STEP) % u64::from(PLACES);
        Some(TIDS.start + (place as u32 * OWN + given) % all)
    }

    /// Returns the process that takes the first one.
    #[cold]
    fn begin(&self) -> u32 {
        let me = std::process::id();
        self.process.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(me)
    }
}

/// What destroyed blocks have left.
#[derive(Debug)]
pub(super) struct Estates {
    ids: Ids,
    left: Mutex<Vec<Estate>>,
    /// There may be one. Written under the lock, which takes a system call: a crowd of new blocks finds none.
    any: AtomicBool,
}

impl Estates {
    pub(super) const fn new() -> Self {
        let ids = Ids { process: AtomicU32::new(0), given: AtomicU32::new(0) };
        Self { ids, left: Mutex::new(Vec::new()), any: AtomicBool::new(false) }
    }

    /// Returns the estate for a new block; `None` if a thousand million blocks exist.
    pub(super) fn take(&self) -> Option<Estate> {
        self.inherit().or_else(|| self.ids.next().map(|tid| Estate { tid, library: None }))
    }

    fn inherit(&self) -> Option<Estate> {
        // Relaxed: an estate that comes at this moment is for a later block.
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.with(|left| left.pop())
    }

    /// Keeps the estate of a block that goes away.
    pub(super) fn leave(&self, estate: Estate) {
        self.with(|left| left.push(estate));
    }

    /// Keeps the estate of the block of id `tid`, which goes away. `is_alike` is asked if the library has the
    /// same in it as in the last block that went. If it has not, `copy` returns what it has.
    pub(super) fn leave_library(
        &self,
        tid: u32,
        is_alike: impl FnOnce(&[u8]) -> bool,
        copy: impl FnOnce() -> Arc<[u8]>,
    ) {
        self.with(|left| {
            let last = left.last().and_then(|last| last.library.as_ref());
            let library = last.filter(|last| is_alike(last)).map_or_else(copy, Arc::clone);
            left.push(Estate { tid, library: Some(library) });
        });
    }

    fn with<R>(&self, f: impl FnOnce(&mut Vec<Estate>) -> R) -> R {
        // In a forked child the list may be half changed, so its contents are given up. No id is given out
        // twice.
        let mut left = self.left.lock(|left| std::mem::forget(std::mem::take(left)));
        let result = f(&mut left);
        // Relaxed: the lock orders it.
        self.any.store(!left.is_empty(), Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(process: u32, given: u32) -> Ids {
        Ids { process: process.into(), given: given.into() }
    }

    /// The first ones may be taken at once, and both find that no process has begun.
    #[test]
    fn the_first_ids_are_next_to_each_other() {
        let ids = ids(0, 0);
        let first = ids.next().unwrap();
        assert_eq!(ids.begin(), std::process::id());
        assert_eq!(ids.next().unwrap(), first + 1);
        assert_eq!(self::ids(std::process::id(), 0).next(), Some(first));
    }

    /// The lock takes a system call, and its waiters sleep.
    #[test]
    fn a_new_block_needs_no_lock_while_nothing_is_left() {
        let estates = Estates::new();
        let held = estates.left.lock(|_| ());
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::scope(|s| {
            s.spawn(|| done.send(estates.take().unwrap().library.is_none()));
            let new = is_done.recv_timeout(std::time::Duration::from_secs(60));
            // Whatever came of it: the thread is joined.
            drop(held);
            assert_eq!(new, Ok(true));
        });
    }

    /// Of each estate, one block is the heir, whether its bytes are a copy of its own or not.
    #[test]
    fn estates_that_are_alike_share_their_bytes() {
        let estates = Estates::new();
        let states: [[u8; 2]; 4] = [[1, 1], [1, 1], [2, 2], [1, 1]];
        for (tid, state) in (0..).zip(states) {
            estates.leave_library(tid, |last| last == state, || state.into());
        }
        let heirs = [(); 4].map(|()| estates.inherit().unwrap());
        assert_eq!(heirs.each_ref().map(|heir| heir.tid), [3, 2, 1, 0]);
        let [fourth, third, second, first] = heirs.map(|heir| heir.library.unwrap());
        assert_eq!([&first, &second, &third, &fourth].map(|library| &**library), states.each_ref());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &fourth), "only the last one is looked at");
        assert!(estates.inherit().is_none());
    }

    #[test]
    fn an_estate_is_inherited_before_an_id_is_given_out() {
        let estates = Estates::new();
        let [one, two] = [(); 2].map(|()| estates.take().unwrap().tid);
        assert_ne!(one, two);
        for tid in [one, two] {
            estates.leave(Estate { tid, library: Some([7].into()) });
        }
        let mut heirs = [(); 2].map(|()| estates.take().unwrap());
        heirs.sort_by_key(|heir| heir.tid != one);
        assert_eq!(heirs.each_ref().map(|heir| heir.tid), [one, two]);
        assert!(heirs.iter().all(|heir| heir.library.as_deref() == Some(&[7])));
        assert!(estates.take().unwrap().library.is_none(), "none is left");
    }

    /// New blocks take ids without a lock, and what is left under one that they pass by.
    #[test]
    fn blocks_that_are_made_at_once_have_different_ids() {
        const THREADS: usize = 4;
        const ROUNDS: usize = 5_000;
        let all = TIDS.end - TIDS.start;
        let estates = Estates::new();
        let first = estates.take().unwrap().tid;
        let in_use: Vec<_> = (0..=THREADS * ROUNDS).map(|_| AtomicBool::new(false)).collect();
        let make_blocks = || {
            for round in 0..ROUNDS {
                let estate = estates.take().unwrap();
                let place = &in_use[((estate.tid + all - first) % all) as usize];
                assert!(!place.swap(true, Ordering::Relaxed), "two blocks have the id {}", estate.tid);
                // Some blocks stay.
                if round % 3 != 0 {
                    place.store(false, Ordering::Relaxed);
                    estates.leave(estate);
                }
            }
        };
        std::thread::scope(|s| (0..THREADS).for_each(|_| _ = s.spawn(make_blocks)));
    }

    #[test]
    fn processes_begin_apart_and_all_ids_are_given_out_once() {
        let all = TIDS.end - TIDS.start;
        for process in [1, 2, 3, 4_194_302, 4_194_303, u32::MAX] {
            let next = |given| ids(process, given).next();
            let first = next(0).unwrap();
            assert!(TIDS.contains(&first) && (0..OWN).all(|at| next(at) == Some(first + at)));
            assert_ne!(ids(process - 1, OWN - 1).next(), Some(first));
            let last = next(all - 1).unwrap();
            assert_eq!(if last + 1 == TIDS.end { TIDS.start } else { last + 1 }, first);
            assert_eq!(next(all), None);
        }
    }

    #[test]
    fn workers_begin_far_apart() {
        let all = TIDS.end - TIDS.start;
        let first = |process| ids(process, 0).next().unwrap();
        for process in [1, 4_000, 4_194_000] {
            for other in process + 1..process + 100 {
                let apart = first(process).abs_diff(first(other));
                assert!(apart.min(all - apart) > 5_000_000, "{process}, {other}: {apart}");
            }
        }
        let factor = |number: u32| (2..=number).find(|factor| number.is_multiple_of(*factor)).unwrap();
        let mut places = PLACES;
        while places > 1 {
            assert_ne!(STEP % factor(places), 0);
            places /= factor(places);
        }
    }
}
