//! The free stacks of the process, by size class.
//!
//! Two locks for each class, so that the dispatcher never waits for a system call:
//!
//! - `free`, held for a few loads and stores, guards the lists. Stacks move in chains of [`MAGAZINE`], one lock and one
//!   header for each; only threads outside the pool of LWPs move single stacks.
//! - `growth`, held while slots are carved and slabs mapped, is taken by those who take stacks and find no free one.
//!   Whoever holds it may take `free`, never the other way round.
//!
//! **Warm and cold.** A stack that has been used keeps its memory and its TLS block: the first touch of a page is the
//! dearest part of a spawn. How many such *warm* stacks lie around is bounded ([`keep_warm`]). The dispatcher, which gives
//! stacks back, may neither free a TLS block nor afford a system call for each stack (I4), so it only notes that the bound
//! is exceeded; the monitor sees the note, and the runtime's maker of LWPs trims, a magazine at a time. Cold stacks have
//! no memory and are taken last. A runtime that is dropped leaves its stacks to the next one, warm as they are.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::chain::{Chain, ChainList};
use super::lock::Lock;
use super::mapped::{self, Slab};
use super::{SizeClass, Stack, tls};

/// Stacks that move at once between an LWP's cache and the pool. The cache holds two such chains at most.
pub(super) const MAGAZINE: u32 = 64;
/// Warm free stacks that are kept for each class: enough for the next wave of 10,000 threads.
pub(super) const KEEP_WARM: usize = 16 << 10;
/// Bound on their usable bytes, if every one had been used to the end.
const KEEP_WARM_BYTES: usize = 4 << 30;

/// The stacks of one size.
struct Pool {
    free: Lock<Free>,
    growth: Lock<Growth>,
}

struct Free {
    warm: ChainList,
    cold: ChainList,
    /// Warm stacks given back one by one, fewer than a magazine.
    singles: Chain,
}

/// Where new slots come from.
struct Growth {
    /// The slab with uncarved slots, if any.
    open: Option<&'static Slab>,
    /// Slots of all slabs of this class.
    slots: usize,
    /// Those that have been handed out.
    carved: usize,
}

impl Free {
    const fn nothing() -> Self {
        Self { warm: ChainList::EMPTY, cold: ChainList::EMPTY, singles: Chain::new() }
    }
}

impl Growth {
    const fn nothing() -> Self {
        Self { open: None, slots: 0, carved: 0 }
    }
}

/// A class has more warm stacks than are to be kept.
static SURPLUS: AtomicBool = AtomicBool::new(false);

static POOLS: [Pool; SizeClass::COUNT] = [const { Pool::new() }; SizeClass::COUNT];

// SAFETY: `singles` is the list's own, as are the other lists.
unsafe impl Send for Free {}

impl Pool {
    const fn new() -> Self {
        Self { free: Lock::new(Free::nothing()), growth: Lock::new(Growth::nothing()) }
    }

    fn free_chain(&self) -> Option<Chain> {
        self.free.with(|free| {
            let single = || (!free.singles.is_empty()).then(|| free.singles.take());
            free.warm.pop().or_else(single).or_else(|| free.cold.pop())
        })
    }
}

fn pool(class: SizeClass) -> &'static Pool {
    &POOLS[class.index()]
}

/// Gives up what a thread that is not there had in hand.
///
/// # Safety
/// In the child of a fork, by its only thread, which is in none of this file's functions.
pub(crate) unsafe fn in_child() {
    for pool in &POOLS {
        // SAFETY: the caller's promise.
        unsafe { pool.free.mend(|free| *free = Free::nothing()) };
        // SAFETY: the caller's promise.
        unsafe { pool.growth.mend(|growth| *growth = Growth::nothing()) };
    }
}

/// One stack, for a caller without a cache.
///
/// # Errors
/// `OutOfMemory`, naming the limit, if a new slot is needed and cannot be had.
pub(crate) fn take(class: SizeClass) -> io::Result<Stack> {
    if let Some(stack) = pool(class).free.with(|free| free.singles.pop()) {
        return Ok(stack);
    }
    let chain = take_batch(class)?;
    let stack = chain.pop().expect("a batch has at least one stack");
    pool(class).free.with(|free| {
        if free.singles.is_empty() {
            free.singles = chain;
        } else {
            free.add_warm(chain, class);
        }
    });
    Ok(stack)
}

/// Takes one stack back. Neither allocates nor maps: fit for the dispatcher.
///
/// The caller owns the stack, does not stand on it (I8), and nobody uses its TLS block.
pub(crate) fn give_back(stack: Stack) {
    pool(stack.size_class()).free.with(|free| {
        free.singles.push(stack);
        if free.singles.len() >= MAGAZINE {
            let full = free.singles.take();
            free.add_warm(full, stack.size_class());
        }
    });
}

/// At least one stack and at most a magazine, warm ones first; new ones if none is free.
///
/// # Errors
/// As [`take`].
pub(super) fn take_batch(class: SizeClass) -> io::Result<Chain> {
    let pool = pool(class);
    if let Some(chain) = pool.free_chain() {
        return Ok(chain);
    }
    pool.growth.with(|growth| {
        // While we waited somebody may have grown the class, or given stacks back.
        if let Some(chain) = pool.free_chain() {
            return Ok(chain);
        }
        growth.grow(class)
    })
}

impl Growth {
    /// New slots: few for a program of a few threads, a magazine for one that has many.
    fn grow(&mut self, class: SizeClass) -> io::Result<Chain> {
        const FEW: usize = 4;
        let slab = match self.open {
            Some(slab) if slab.uncarved() > 0 => slab,
            _ => {
                let slab = Slab::new(class, self.slots)?;
                self.slots += slab.slots();
                self.open.insert(slab)
            }
        };
        let chain = slab.carve(self.carved.clamp(FEW, MAGAZINE as usize))?;
        self.carved += chain.len() as usize;
        Ok(chain)
    }
}

/// Takes a chain of warm stacks of one class back, as [`give_back`] takes one. One lock, whatever its length.
pub(super) fn give_back_batch(chain: Chain, class: SizeClass) {
    pool(class).free.with(|free| free.add_warm(chain, class));
}

impl Free {
    fn add_warm(&mut self, chain: Chain, class: SizeClass) {
        self.warm.push(chain);
        // Relaxed, here and below: a note; who acts on it looks at the lists.
        if self.warm.stacks() > keep_warm(class) && !SURPLUS.load(Ordering::Relaxed) {
            SURPLUS.store(true, Ordering::Relaxed);
        }
    }
}

/// How many warm stacks of a class to keep.
fn keep_warm(class: SizeClass) -> usize {
    KEEP_WARM.min(KEEP_WARM_BYTES / class.usable())
}

/// Whether somebody has left too many warm stacks since this was last asked: then [`trim`] has something to do. Fit for
/// the monitor: one load, as a rule.
pub(crate) fn notice_surplus() -> bool {
    SURPLUS.load(Ordering::Relaxed) && SURPLUS.swap(false, Ordering::Relaxed)
}

/// Gives the memory of warm stacks beyond the bound back to the system, TLS blocks included, at most a magazine of each
/// class; `true` if more is left to do. It frees memory and makes a system call for each stack: not for the dispatcher.
pub(crate) fn trim() -> bool {
    // Each class, whatever the others say.
    SizeClass::all().fold(false, |more, class| trim_class(class, keep_warm(class)) | more)
}

fn trim_class(class: SizeClass, keep: usize) -> bool {
    let free = &pool(class).free;
    let surplus = |free: &mut Free| free.warm.stacks().saturating_sub(keep);
    // The list itself is the hand-over between trimmers: each takes another chain.
    let Some(chain) = free.with(|free| if surplus(free) > 0 { free.warm.pop() } else { None }) else {
        return false;
    };
    let cold = Chain::new();
    while let Some(stack) = chain.pop() {
        chill(stack);
        cold.push(stack);
    }
    free.with(|free| {
        free.cold.push(cold);
        surplus(free) > 0
    })
}

/// Makes a stack that the caller owns as good as new.
fn chill(stack: Stack) {
    let tp = stack.tls().take();
    if tp != 0 {
        // SAFETY: the block of a free stack is nobody's, and `init` was given the function for it.
        unsafe { (tls().destroy)(tp) };
    }
    // SAFETY: the stack is ours, its TLS block is gone, and frames of ended threads mean nothing.
    unsafe { mapped::discard(stack) };
}
