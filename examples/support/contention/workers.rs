//! Threads that enter critical regions, as often and as fast as they can.
//!
//! Each entry takes the lock of a region chosen at random, adds one to a number, and leaves. So the fewer
//! regions there are, the likelier it is that one is taken. The threads choose by the same sequences
//! whatever the library.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::support::crew::work_together;
use crate::support::library::{Attributes, Library, Lock};

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// How many critical regions there are to choose from.
    pub(crate) regions: u32,
    /// How often each thread enters one.
    pub(crate) entries: u32,
    pub(crate) attributes: Attributes,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Competed {
    /// From when all might begin until the last had ended.
    pub(crate) elapsed: Duration,
    /// Entries that the regions have counted.
    pub(crate) entered: u64,
}

impl Plan {
    /// Entries of all threads.
    pub(crate) fn entries_of_all(self) -> u64 {
        u64::from(self.threads) * u64::from(self.entries)
    }
}

impl Competed {
    /// The time that all entries of a plan took.
    ///
    /// # Panics
    /// An entry was not counted, as it happens if two threads are in one region.
    pub(crate) fn all(self, plan: Plan) -> Duration {
        assert_eq!(self.entered, plan.entries_of_all(), "the locks did not exclude");
        self.elapsed
    }
}

/// Lets them compete on the calling thread's runtime.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn compete<L: Library>(plan: Plan) -> io::Result<Competed> {
    let regions: Arc<[Region<L>]> = (0..plan.regions).map(|_| Region(L::Mutex::new(0))).collect();
    let shared = Arc::clone(&regions);
    let worker = move |number| enter_all(&shared, plan.entries, number);
    let elapsed = work_together::<L>(plan.threads, plan.attributes, worker, || ())?;
    let entered = regions.iter().map(|region| *region.0.lock()).sum();
    Ok(Competed { elapsed, entered })
}

/// Regions are apart from each other in memory: only entering the same one is to make threads meet.
#[repr(align(128))]
struct Region<L: Library>(L::Mutex<u64>);

/// One thread's life.
fn enter_all<L: Library>(regions: &[Region<L>], entries: u32, number: u32) {
    let mut choice = Choice::of(number);
    for _ in 0..entries {
        *regions[choice.below(regions.len() as u32) as usize].0.lock() += 1;
    }
}

/// Where a thread goes next.
pub(crate) struct Choice(u32);

impl Choice {
    /// The sequence of a thread: each has its own.
    pub(crate) fn of(number: u32) -> Self {
        Self(number.wrapping_add(1).wrapping_mul(0x9E37_79B9))
    }

    /// The next, below `limit`.
    #[inline]
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        // Marsaglia's xorshift; never zero, since it did not begin there.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        ((u64::from(self.0) * u64::from(limit)) >> 32) as u32
    }
}
