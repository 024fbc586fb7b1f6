//! Where musl keeps what in a block: found in two blocks with known contents.
//!
//! The second word is the vector of modules: musl's header calls it ABI. The others are private, and are
//! searched for. Only a place that fits both blocks, and is the only one, counts.

pub(super) use super::super::common::{peek, poke};
use super::super::unfit::Unfit;
use super::cradle::{self, Born};
use super::modules::Modules;

/// How much of `struct pthread` is looked at, in bytes. It is 200 long; the library's share of the mapping
/// goes on for a kilobyte or more.
pub(super) const LOOKED_AT: usize = 256;
/// The second word: the vector of modules.
const VECTOR: usize = 8;
/// How far above a block the values of keys may begin, in bytes.
const NEAR: usize = 64 << 10;
/// `PTHREAD_KEYS_MAX`.
pub(super) const KEYS: usize = 128;

/// Offsets in `struct pthread`, in bytes.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) tid: usize,
    /// The address of the values of keys.
    values: usize,
    /// The end of the stack, with its size beside it. For what the library tells of it only, so a block can
    /// do without.
    pub(super) stack: Option<usize>,
    /// Whether the thread was asked to end.
    cancel: usize,
    /// Whether the thread is joined, and what says that it can be.
    detached: (usize, u32),
    /// The list of robust mutexes that the thread holds: the first, and two words on, the one that it locks.
    robust: usize,
}

impl Shape {
    /// Makes two blocks and looks at them. Returns them, too.
    pub(super) fn find(key: libc::pthread_key_t, modules: &Modules) -> Result<(Self, [usize; 2]), Unfit> {
        const KNOWN: [usize; 2] = [0x5e1f_0001, 0x5e1f_0002];
        let make = |value| cradle::make(Some((key, value))).map_err(Unfit::NoThread);
        let born = [make(KNOWN[0])?, make(KNOWN[1])?];
        let both = |is: &dyn Fn(&Born, usize, usize) -> bool, step| {
            let fits = |at: usize| born.iter().zip(KNOWN).all(|(born, known)| is(born, at, known));
            let mut hits = (0..LOOKED_AT).step_by(step).filter(|&at| fits(at));
            hits.next().filter(|_| hits.next().is_none())
        };
        // SAFETY: within what every block has.
        let word = |born: &Born, at: usize| unsafe { peek::<usize>(born.tp + at) };
        if !born.iter().all(|born| word(born, 0) == born.tp) {
            return Err(Unfit::Unexpected("a thread's own address"));
        }
        // SAFETY: within what every block has.
        let tid = both(&|born, at, _| unsafe { peek::<u32>(born.tp + at) } == born.tid, 4);
        let values = both(
            &|born, at, known| {
                let values = word(born, at);
                let near = values % 8 == 0 && (born.tp..born.tp + NEAR).contains(&values);
                // SAFETY: above the block in its mapping, if this is the pointer. The values are its end.
                // Every other word that points there has at least as much above it.
                near && unsafe { peek::<usize>(values + 8 * key as usize) } == known
            },
            8,
        );
        let stack = both(&|born, at, _| at > VECTOR && (word(born, at), word(born, at + 8)) == born.stack, 8);
        let states = || {
            let changed = |to: usize| both(&|born, at, _| born.looks[0][at / 4] != born.looks[to][at / 4], 4);
            // The word before the state of cancellation.
            Some((changed(1)?.checked_sub(4)?, changed(2)?))
        };
        let (cancel, detached) = states().ok_or(Unfit::Unexpected("the state of cancellation"))?;
        let robust = both(&|born, at, _| at > 0 && word(born, at) == born.tp + at, 8);
        let shape = Self {
            tid: tid.ok_or(Unfit::Unexpected("the thread id"))?,
            values: values.ok_or(Unfit::Unexpected("the values of pthread keys"))?,
            stack,
            cancel,
            detached: (detached, born[0].looks[0][detached / 4]),
            robust: robust.ok_or(Unfit::Unexpected("the list of robust mutexes"))?,
        };
        // SAFETY: both blocks are complete, and no thread uses them.
        if born.iter().all(|born| unsafe { modules.fit(born.tp, &shape) }) {
            Ok((shape, born.map(|born| born.tp)))
        } else {
            Err(Unfit::Unexpected("the vector of modules"))
        }
    }

    /// Makes the thread of a block one that can be joined, was not asked to end, and holds no robust mutex.
    ///
    /// # Safety
    /// `tp` is the calling thread's, or of a block that no thread runs on.
    pub(super) unsafe fn clear(&self, tp: usize) {
        let (detached, joinable) = self.detached;
        // SAFETY: a field of the block.
        unsafe { poke(tp + detached, joinable) };
        // SAFETY: a field of the block.
        unsafe { poke(tp + self.cancel, 0_u32) };
        // SAFETY: a field of the block.
        unsafe { poke(tp + self.robust, tp + self.robust) };
        // SAFETY: a field of the block.
        unsafe { poke(tp + self.robust + 16, 0_usize) };
    }

    /// Returns the value of a key in a block.
    ///
    /// # Safety
    /// `tp` is the calling thread's, or of a block that no thread runs on. `key` is less than [`KEYS`].
    pub(super) unsafe fn value(&self, tp: usize, key: libc::pthread_key_t) -> usize {
        // SAFETY: a field of the block.
        let values: usize = unsafe { peek(tp + self.values) };
        // SAFETY: an element of the array.
        unsafe { peek(values + 8 * key as usize) }
    }

    /// Sets the value of a key in a block.
    ///
    /// # Safety
    /// As [`value`](Self::value).
    pub(super) unsafe fn set_value(&self, tp: usize, key: libc::pthread_key_t, value: usize) {
        // SAFETY: a field of the block.
        let values: usize = unsafe { peek(tp + self.values) };
        // SAFETY: an element of the array.
        unsafe { poke(values + 8 * key as usize, value) };
    }

    /// Returns how many modules the vector of a block has, and where it lies.
    ///
    /// # Safety
    /// `tp` is of a complete block.
    pub(super) unsafe fn vector(&self, tp: usize) -> (usize, usize) {
        // Another thread may be in `dlopen`. It fills the new vector in before it writes this word.
        let at = std::ptr::with_exposed_provenance_mut(tp + VECTOR);
        // SAFETY: a word of the block, which the library changes by whole words.
        let word = unsafe { std::sync::atomic::AtomicUsize::from_ptr(at) };
        // Acquire: pairs with the library's barrier.
        let vector = word.load(std::sync::atomic::Ordering::Acquire);
        // SAFETY: the first word of the vector.
        (unsafe { peek(vector) }, vector)
    }
}
