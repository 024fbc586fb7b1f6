//! What outlives a block: its thread id, and what the C library had in it.
//!
//! The library frees a thread's allocator cache, its place in an arena and the like in a function that it
//! does not export. So a block that goes away would leak them: a kilobyte or more each, and the cached
//! memory. They hang on the library's own thread-locals, and on fields of the block (`kept.rs`). Those hold
//! no address of the block itself but one (`__resp`, written anew). So those bytes are kept, and the next
//! block that is made starts with them.

use super::super::super::once::{Guard, Mutex};

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
    pub(super) library: Option<Box<[u8]>>,
}

/// Which ids have been given out.
#[derive(Debug)]
struct Ids {
    /// The process that took the first one, or 0.
    process: u32,
    given: u32,
}

impl Ids {
    /// Returns one that no other block of this process has; `None` if all are given out.
    fn next(&mut self) -> Option<u32> {
        let all = TIDS.end - TIDS.start;
        if self.given == all {
            return None;
        }
        if self.process == 0 {
            self.process = std::process::id();
        }
        let place = u64::from(self.process) * u64::from(STEP) % u64::from(PLACES);
        let id = TIDS.start + (place as u32 * OWN + self.given) % all;
        self.given += 1;
        Some(id)
    }
}

/// What destroyed blocks have left.
#[derive(Debug)]
pub(super) struct Estates(Mutex<(Ids, Vec<Estate>)>);

impl Estates {
    pub(super) const fn new() -> Self {
        Self(Mutex::new((Ids { process: 0, given: 0 }, Vec::new())))
    }

    /// Returns the estate for a new block; `None` if a thousand million blocks exist.
    pub(super) fn take(&self) -> Option<Estate> {
        let (ids, left) = &mut *self.lock();
        left.pop().or_else(|| ids.next().map(|tid| Estate { tid, library: None }))
    }

    /// Keeps the estate of a block that goes away.
    pub(super) fn leave(&self, estate: Estate) {
        self.lock().1.push(estate);
    }

    fn lock(&self) -> Guard<'_, (Ids, Vec<Estate>)> {
        // In a forked child the list may be half changed, so its contents are given up. No id is given out
        // twice.
        self.0.lock(|(_, left)| std::mem::forget(std::mem::take(left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_begin_apart_and_all_ids_are_given_out_once() {
        let all = TIDS.end - TIDS.start;
        for process in [1, 2, 3, 4_194_302, 4_194_303, u32::MAX] {
            let next = |given| Ids { process, given }.next();
            let first = next(0).unwrap();
            assert!(TIDS.contains(&first) && (0..OWN).all(|at| next(at) == Some(first + at)));
            assert_ne!(Ids { process: process - 1, given: OWN - 1 }.next(), Some(first));
            let last = next(all - 1).unwrap();
            assert_eq!(if last + 1 == TIDS.end { TIDS.start } else { last + 1 }, first);
            assert_eq!(next(all), None);
        }
    }

    #[test]
    fn workers_begin_far_apart() {
        let all = TIDS.end - TIDS.start;
        let first = |process| Ids { process, given: 0 }.next().unwrap();
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
