//! The other processes of the machine, which need threads and memory too.
//!
//! A machine without a free thread number cannot even start a shell, and one without memory kills processes.
//! A process that makes as many threads as it can therefore looks now and then at the limits that it shares
//! with others. It stops before they have too little. A look costs as much as some threads. So if one finds
//! room for a number of threads, half of these come before the next look. They are at most a quarter of those
//! that exist. What they take is known badly while others give back what they had.

use super::limits::{self, Counts, Limit};

/// What part of what there was is left to others, and how many threads are enough for them.
const PART: u64 = 2;
const THREADS: u64 = 500;
/// The fewest threads from one look to the next: fewer than are left to others.
pub(crate) const STRIDE: u32 = 128;

/// Watches what is left to other processes.
pub(crate) struct Neighbors {
    /// The limits before there were threads.
    before: Vec<Limit>,
    /// At how many threads the next look is due.
    pub(crate) due: u32,
}

impl Neighbors {
    /// Takes the measure of the limits before there are threads.
    pub(crate) fn before_threads() -> Self {
        Self::of(limits::shared())
    }

    /// The same, of these limits.
    pub(crate) fn of(before: impl Iterator<Item = Limit>) -> Self {
        Self { before: before.collect(), due: STRIDE }
    }

    /// Returns the limit of which others would have too little if there were many more threads than these.
    pub(crate) fn short_of(&mut self, threads: u32) -> Option<Limit> {
        if threads < self.due { None } else { self.look(threads, limits::shared()) }
    }

    /// Looks at the limits as they are now, and says when the next look is due.
    pub(crate) fn look(&mut self, threads: u32, now: impl Iterator<Item = Limit>) -> Option<Limit> {
        let (mut fit, mut nearest) = (u32::MAX, None);
        for now in now {
            let Some(before) = self.before.iter().find(|before| before.name == now.name) else { continue };
            let room = room_for(before, &now, threads);
            if room < fit {
                (fit, nearest) = (room, Some(now));
            }
        }
        self.due = threads + (fit / 2).min(threads / 4).max(STRIDE);
        nearest.filter(|_| fit < STRIDE)
    }
}

/// Returns how many more threads like these may come.
fn room_for(before: &Limit, now: &Limit, threads: u32) -> u32 {
    let part = before.left() / PART;
    let kept = if before.counts == Counts::Threads { part.min(THREADS) } else { part };
    let free = u128::from(now.left().saturating_sub(kept));
    let taken = now.used.saturating_sub(before.used).max(1);
    u32::try_from(free * u128::from(threads) / u128::from(taken)).unwrap_or(u32::MAX)
}
