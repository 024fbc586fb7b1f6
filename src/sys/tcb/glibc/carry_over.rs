//! What outlives a block: its thread id, and what the C library had in it.
//!
//! The library frees a thread's allocator cache, its place in an arena and the like in a function that it
//! does not export. So a block that goes away would leak them: a kilobyte or more each, and the cached
//! memory. They hang on the library's own thread-locals, and on fields of the block (`kept.rs`). Those hold no
//! address of the block itself but one (`__resp`, written anew). So those bytes are kept, and the next block
//! that is made starts with them.

use super::super::super::once::{Guard, Mutex};

/// No kernel thread has an id like these: they are above `PID_MAX_LIMIT`. They fit the 30 bits of an id in a
/// futex.
const TIDS: std::ops::Range<u32> = 1 << 22 | 1..1 << 30;

/// What one block leaves.
#[derive(Debug)]
pub(super) struct Estate {
    pub(super) tid: u32,
    /// The library's thread-locals, and those fields. `None`: the block is the first with this id.
    pub(super) library: Option<Box<[u8]>>,
}

/// What destroyed blocks have left.
#[derive(Debug)]
pub(super) struct Estates(Mutex<(u32, Vec<Estate>)>);

impl Estates {
    pub(super) const fn new() -> Self {
        Self(Mutex::new((TIDS.start, Vec::new())))
    }

    /// Returns the estate for a new block; `None` if a thousand million blocks exist.
    pub(super) fn take(&self) -> Option<Estate> {
        let (next, left) = &mut *self.lock();
        left.pop().or_else(|| {
            let tid = *next;
            *next += u32::from(TIDS.contains(&tid));
            TIDS.contains(&tid).then_some(Estate { tid, library: None })
        })
    }

    /// Keeps the estate of a block that goes away.
    pub(super) fn leave(&self, estate: Estate) {
        self.lock().1.push(estate);
    }

    fn lock(&self) -> Guard<'_, (u32, Vec<Estate>)> {
        // In a forked child the list may be half changed, so its contents are given up. No id is given out
        // twice.
        self.0.lock(|(_, left)| std::mem::forget(std::mem::take(left)))
    }
}
