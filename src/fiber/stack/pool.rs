//! The free stacks of the process, by size class.
//!
//! There are two locks for each class, so that the dispatcher never waits for a system call:
//!
//! - `free` guards the lists, and is held for a few loads and stores. Stacks move in chains of [`MAGAZINE`],
//!   with one lock and one header for each. Only threads outside the pool of LWPs move single stacks.
//! - `growth` is held while spans are carved and slabs mapped. A take that finds no free stack acquires it.
//!   With it held, `free` may be acquired, never the other way round.
//!
//! **Warm and cold.** A stack that has been used keeps its memory and its TLS block. The first touch of a
//! page is the dearest part of a spawn. The number of such *warm* free stacks is bounded ([`keep_warm`]). The
//! dispatcher, which gives stacks back, may not free a TLS block, nor afford a system call for each stack
//! (I4). So it only notes that the bound is exceeded. The monitor sees the note. The runtime's maker of LWPs
//! then trims, a magazine at a time. When a runtime ends, its LWPs trim what is left. The others stay warm
//! for the next runtime. Cold stacks have no memory and are taken last.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lock::Lock;
use super::mapped::{self, Slab};
use super::{Chain, SizeClass, Stack, WITH_BLOCKS, tls};
use crate::sys::mmap::{Parts, Refusal};

/// How many stacks move at once between an LWP's cache and the pool. The cache holds two such chains at most.
pub(super) const MAGAZINE: u32 = 64;
const _: () = assert!(MAGAZINE as usize <= Parts::MOST);
/// The bound on the usable bytes of stacks that move at once, if there is more than one. So a cache does not
/// keep much more than twice that of a class, if every one had been used to the end.
const MAGAZINE_BYTES: usize = 64 << 20;
/// How many warm free stacks are kept for each class: enough for the next wave of 10,000 threads.
pub(super) const KEEP_WARM: usize = 16 << 10;
/// The bound on their usable bytes, if every one had been used to the end.
const KEEP_WARM_BYTES: usize = 4 << 30;

/// A list of chains, linked through the headers of their first stacks. To move a chain in or out touches one
/// stack.
#[derive(Debug)]
struct ChainList {
    first: Option<Stack>,
    /// All stacks of all chains.
    stacks: usize,
}

// SAFETY: the list owns the stacks in it, and any one kernel thread at a time may use headers.
unsafe impl Send for ChainList {}

impl ChainList {
    const EMPTY: Self = Self { first: None, stacks: 0 };

    fn stacks(&self) -> usize {
        self.stacks
    }

    fn push(&mut self, chain: Chain) {
        let Some(head) = chain.first.get() else { return };
        head.0.next_chain.set(self.first);
        head.0.chain_len.set(chain.len());
        self.first = Some(head);
        self.stacks += chain.len() as usize;
    }

    fn pop(&mut self) -> Option<Chain> {
        let head = self.first?;
        self.first = head.0.next_chain.get();
        let len = head.0.chain_len.get();
        self.stacks -= len as usize;
        Some(Chain { first: Cell::new(Some(head)), len: Cell::new(len) })
    }
}

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

/// Where new spans come from.
struct Growth {
    /// The slab with uncarved spans, if any.
    open: Option<&'static Slab>,
    /// How many spans all slabs of this class have.
    spans: usize,
    /// How many of those have been handed out.
    carved: usize,
}

impl Free {
    const fn nothing() -> Self {
        Self { warm: ChainList::EMPTY, cold: ChainList::EMPTY, singles: Chain::new() }
    }
}

impl Growth {
    const fn nothing() -> Self {
        Self { open: None, spans: 0, carved: 0 }
    }
}

/// A class has more warm stacks than are to be kept.
static SURPLUS: AtomicBool = AtomicBool::new(false);

static POOLS: [Pool; SizeClass::COUNT] = [const { Pool::new() }; SizeClass::COUNT];

// SAFETY: the lists own their stacks, `singles` too.
unsafe impl Send for Free {}

impl Pool {
    const fn new() -> Self {
        Self { free: Lock::new(Free::nothing()), growth: Lock::new(Growth::nothing()) }
    }

    fn free_chain(&self) -> Option<Chain> {
        self.free.with(|free| free.warm_chain().or_else(|| free.cold.pop()))
    }
}

fn pool(class: SizeClass) -> &'static Pool {
    &POOLS[class.index()]
}

/// Gives up what threads of the parent process had in hand.
///
/// # Safety
/// Called in the child of a fork by its only thread, which is in none of this file's functions.
pub(crate) unsafe fn in_child() {
    for pool in &POOLS {
        // SAFETY: the caller's promise.
        unsafe { pool.free.mend(|free| *free = Free::nothing()) };
        // SAFETY: the caller's promise.
        unsafe { pool.growth.mend(|growth| *growth = Growth::nothing()) };
    }
}

/// Takes one stack, for a caller without a cache. `alone` says if the caller's CPU also runs the threads that
/// it starts. Otherwise the CPU that runs a thread first touches the page of its first frames.
///
/// # Errors
/// `OutOfMemory`, naming the limit, if a new span is needed and cannot be made.
pub(crate) fn take(class: SizeClass, alone: impl FnOnce() -> bool) -> io::Result<Stack> {
    if let Some(stack) = pool(class).free.with(|free| free.singles.pop()) {
        return Ok(stack);
    }
    let chain = take_batch(class, alone)?;
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

/// Takes one stack back. Neither allocates nor maps, so it is fit for the dispatcher.
///
/// The caller owns the stack and does not stand on it (I8). No thread uses its TLS block.
pub(crate) fn give_back(stack: Stack) {
    pool(stack.size_class()).free.with(|free| {
        free.singles.push(stack);
        if free.singles.len() >= magazine(stack.size_class()) {
            let full = free.singles.take();
            free.add_warm(full, stack.size_class());
        }
    });
}

/// Takes at least one stack and at most a magazine: warm ones first, and new ones if none is free.
///
/// # Errors
/// As [`take`].
pub(super) fn take_batch(class: SizeClass, alone: impl FnOnce() -> bool) -> io::Result<Chain> {
    let pool = pool(class);
    if let Some(chain) = pool.free_chain() {
        return Ok(chain);
    }
    // A refusal gets its words, which take memory, when the lock is free.
    let (chain, is_new) = pool.growth.with(|growth| {
        // Meanwhile, another thread may have grown the class, or given stacks back.
        if let Some(chain) = pool.free_chain() {
            return Ok((chain, false));
        }
        growth.grow(class).map(|chain| (chain, true))
    })?;
    if is_new {
        // Relaxed: see `expect_blocks`.
        mapped::touch(&chain, WITH_BLOCKS.load(Ordering::Relaxed), alone());
    }
    Ok(chain)
}

impl Growth {
    /// Carves new spans: few for a program of a few threads, a magazine for one that has many.
    fn grow(&mut self, class: SizeClass) -> Result<Chain, Refusal> {
        const FEW: usize = 4;
        let slab = match self.open {
            Some(slab) if slab.uncarved() > 0 => slab,
            _ => {
                let slab = Slab::new(class, self.spans)?;
                self.spans += slab.spans();
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
    /// Takes a chain of stacks that may be warm.
    fn warm_chain(&mut self) -> Option<Chain> {
        self.warm.pop().or_else(|| (!self.singles.is_empty()).then(|| self.singles.take()))
    }

    /// Takes back what a chain has more than `most`.
    fn keep(&mut self, chain: &Chain, most: usize) {
        let kept = Chain::new();
        while chain.len() as usize > most
            && let Some(stack) = chain.pop()
        {
            kept.push(stack);
        }
        self.warm.push(kept);
    }

    fn add_warm(&mut self, chain: Chain, class: SizeClass) {
        self.warm.push(chain);
        // Relaxed, here and below: a note. The thread that acts on it looks at the lists.
        if self.warm.stacks() > keep_warm(class) && !SURPLUS.load(Ordering::Relaxed) {
            SURPLUS.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns how many stacks of a class are given back at once: a magazine, or fewer large ones.
pub(super) fn magazine(class: SizeClass) -> u32 {
    (MAGAZINE_BYTES / class.usable()).clamp(1, MAGAZINE as usize) as u32
}

/// Returns how many warm stacks of a class to keep.
fn keep_warm(class: SizeClass) -> usize {
    KEEP_WARM.min(KEEP_WARM_BYTES / class.usable())
}

/// Returns `true` if too many warm stacks have been left since the last call. Then [`trim`] has something to
/// do. Fit for the monitor: one load, as a rule.
pub(crate) fn notice_surplus() -> bool {
    SURPLUS.load(Ordering::Relaxed) && SURPLUS.swap(false, Ordering::Relaxed)
}

/// Gives the memory of warm stacks beyond the bound back to the system, TLS blocks included: at most a
/// magazine of each class. Returns `true` if it did something, so more may be left to do. It frees memory and
/// makes a system call for each magazine, so it is not for the dispatcher.
pub(crate) fn trim() -> bool {
    // Each class, whatever the others return.
    SizeClass::all().fold(false, |more, class| (trim_class(class, keep_warm(class)) > 0) | more)
}

/// Does what [`trim`] does until at most `keep` warm stacks of each class are left. Returns how many have
/// lost their memory.
pub(crate) fn trim_to(keep: usize) -> usize {
    let trimmed =
        |class| std::iter::repeat_with(move || trim_class(class, keep)).take_while(|&some| some > 0);
    SizeClass::all().flat_map(trimmed).sum()
}

/// Gives the memory of one chain back if more than `keep` stacks are warm, or of the part of it that is too
/// much. Returns how many have lost theirs.
fn trim_class(class: SizeClass, keep: usize) -> usize {
    let free = &pool(class).free;
    // The list itself hands over between trimmers: each takes another chain.
    let surplus = free.with(|free| {
        let warm = free.warm.stacks() + free.singles.len() as usize;
        if warm > keep { free.warm_chain().inspect(|chain| free.keep(chain, warm - keep)) } else { None }
    });
    let Some(chain) = surplus else { return 0 };
    chill(&chain);
    let trimmed = chain.len() as usize;
    free.with(|free| free.cold.push(chain));
    trimmed
}

/// Makes stacks, which the caller owns, as good as new.
fn chill(chain: &Chain) {
    for stack in chain.iter() {
        let tp = stack.tls().take();
        if tp != 0 {
            // SAFETY: no thread uses the block of a free stack, and `init` was given the function for it.
            unsafe { (tls().destroy)(tp) };
        }
    }
    // SAFETY: the caller owns the stacks, their TLS blocks are gone, and frames of ended threads mean
    // nothing.
    unsafe { mapped::discard(chain) };
}
