//! Stacks of green threads: taken, used, given back, never unmapped.
//!
//! A stack is a *span* of a large mapping (`mapped.rs`), with the thread's TLS block and porch at its top:
//!
//! ```text
//!   top      ┌───────────────────────────┐ page-aligned
//!            │ colour                    │ 0 to 960 bytes, by span: see COLOURS
//!   tls_end  ├───────────────────────────┤
//!            │ TLS block                 │ `tls_reserve` bytes; stays with the span while it is recycled
//!            ├───────────────────────────┤
//!            │ porch                     │ 128 bytes; may hold the closure until the thread runs it
//!   start    ├───────────────────────────┤ the first frame goes below
//!            │                           │
//!            │ usable stack              │ at least `usable()` bytes, touched page by page
//!            │                           │
//!   limit    ├───────────────────────────┤
//!            │ red zone                  │ inaccessible: 128 KiB, larger than a signal frame
//!            └───────────────────────────┘ and an unprobed frame of the C library together
//! ```
//!
//! Spans are **type-stable**: a span keeps its address, size and header for as long as the process lives,
//! whichever runtime uses it. What is known about a span lies in its header in a side array, so giving a
//! stack's memory back to the system loses nothing.
//!
//! The holder of a [`Stack`] owns the span: a thread, a list in a pool, or a list in an LWP's cache. Lists
//! pass ownership on under the pool's lock (`pool.rs`) or stay on one LWP ([`Cache`]). A take maps new
//! spans, a give-back never does. So the dispatcher maps nothing (I4).

mod lock;
mod mapped;
mod pool;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

pub(crate) use mapped::report_overflows;
pub(crate) use pool::{give_back, in_child, notice_surplus, take, trim, trim_to};

use crate::park::backend::Porch;
use crate::park::debugger::{Fact, Facts};
use crate::sys::bytes::Bytes;
use crate::sys::mmap::{self, page_size};
use crate::sys::once::OnceLock;

/// The smallest usable size. Smaller requests get it.
pub(crate) const SMALLEST: usize = 4 << 10;
/// The largest usable size. Larger requests are errors.
pub(crate) const LARGEST: usize = 64 << 30;
/// The least size of a red zone. glibc's `alloca` takes up to 64 KiB without a probe, from wherever the stack
/// pointer is. A frame or two come on top. A signal frame with AMX takes 11.6 KiB. The zone is larger only if
/// `AT_MINSIGSTKSZ` or a page is. It costs address space, and a 512th of that for page tables.
const RED_ZONE: usize = 128 << 10;
/// Different offsets of the TLS block, and so of `start`. Spans are aligned alike. So without this, the
/// blocks and the hot frames of all threads would compete for the same few cache sets. With 16 lines, a
/// parked thread touches no page more.
const COLOURS: usize = 16;
/// One cache line.
const COLOUR_STEP: usize = 64;

/// How much of every span belongs to the TLS block, and how to free a block before its memory is discarded.
#[derive(Clone, Copy, Debug)]
struct TlsLayout {
    reserve: usize,
    destroy: unsafe fn(usize),
}

impl TlsLayout {
    /// Returns what a block takes, in whole cache lines.
    fn lines(self) -> usize {
        self.reserve.next_multiple_of(COLOUR_STEP)
    }
}

static TLS: OnceLock<TlsLayout> = OnceLock::new();

/// Sets how many bytes of each span a TLS block takes, and how to free what a block owns outside
/// of its span. Called before the first stack is taken. The first call counts; every caller must pass the
/// same.
///
/// `destroy` gets the thread register of a block that no thread uses. It runs where freeing is allowed.
pub(crate) fn init(tls_reserve: usize, destroy: unsafe fn(usize)) {
    mmap::heed_executable_stacks();
    let layout = TLS.get_or_init(|| TlsLayout { reserve: tls_reserve, destroy });
    debug_assert_eq!(layout.reserve, tls_reserve, "one process has one layout of TLS blocks");
}

/// Stacks get TLS blocks.
static WITH_BLOCKS: AtomicBool = AtomicBool::new(false);

/// Says that threads on these stacks have TLS blocks: not all have.
pub(crate) fn expect_blocks() {
    // Relaxed: a hint, which memory to ask for at once.
    WITH_BLOCKS.store(true, Ordering::Relaxed);
}

fn tls() -> TlsLayout {
    *TLS.get_or_init(|| TlsLayout { reserve: 0, destroy: |_| () })
}

/// A usable size that stacks come in: a power of two, or three quarters of one. So at most a third is given
/// in excess, of address space only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SizeClass(u8);

impl SizeClass {
    const COUNT: usize = 2 * (LARGEST.ilog2() - SMALLEST.ilog2()) as usize + 1;

    /// Returns the smallest class with `bytes` usable.
    ///
    /// # Errors
    /// `InvalidInput` for zero and for more than [`LARGEST`].
    pub(crate) fn of(bytes: usize) -> io::Result<Self> {
        if bytes == 0 || bytes > LARGEST {
            let message = format!(
                "a stack of {} is impossible: the size may be {} to {}",
                Bytes(bytes),
                Bytes(1),
                Bytes(LARGEST)
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // To whole pages first: three quarters are then chosen only if they are whole pages, too.
        let rounded = bytes.max(SMALLEST).next_multiple_of(page_size());
        let power = rounded.next_power_of_two();
        let octave = 2 * (power.ilog2() - SMALLEST.ilog2()) as u8;
        Ok(Self(if rounded <= power / 4 * 3 { octave - 1 } else { octave }))
    }

    /// Returns every class.
    fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|index| Self(index as u8))
    }

    /// Returns the usable bytes of a stack of this class.
    #[inline]
    pub(crate) fn usable(self) -> usize {
        let power = SMALLEST << self.0.div_ceil(2);
        if self.0.is_multiple_of(2) { power } else { power / 4 * 3 }
    }

    #[inline]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Debug for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SizeClass({})", Bytes(self.usable()))
    }
}

/// A span, by its header. To copy the handle does not copy the ownership.
#[derive(Clone, Copy)]
pub(crate) struct Stack(&'static Header);

/// What is known about a span. It is one cache line, so taking a stack from a cache costs one miss at most.
#[repr(C, align(64))]
struct Header {
    /// The page-aligned end of the span.
    top: *mut u8,
    /// Where the first frame starts.
    start: *mut u8,
    /// The lowest usable byte.
    limit: *mut u8,
    /// The thread register of the TLS block in the span; 0: none.
    tls: Cell<usize>,
    /// The next stack of the list that owns this one.
    link: Cell<Option<Stack>>,
    /// In the first stack of a chain: the next chain of the list of chains that owns this one (`pool.rs`).
    next_chain: Cell<Option<Stack>>,
    /// The thread that uses the span, for the overflow report: its `ThreadCore`.
    owner: AtomicPtr<()>,
    /// In the first stack of a chain: its length.
    chain_len: Cell<u32>,
    class: SizeClass,
    /// The place of the TLS block has been used.
    had_block: Cell<bool>,
}

/// For debuggers.
pub(super) static FACTS: Facts<2> = Facts::new([
    Fact::number("stack.top", offset_of!(Header, top)),
    Fact::number("stack.limit", offset_of!(Header, limit)),
]);

// SAFETY: `top`, `start`, `limit` and `class` are constant, and `owner` is atomic. The owner of the span
// alone uses the cells. Ownership passes with the handle, through a lock or a switch.
unsafe impl Sync for Header {}
// SAFETY: nothing in a header belongs to a kernel thread.
unsafe impl Send for Header {}

impl Stack {
    /// Returns the page-aligned end of the span.
    #[inline]
    pub(crate) fn top(self) -> *mut u8 {
        self.0.top
    }

    /// Returns where the TLS block ends, aligned to a cache line.
    pub(crate) fn tls_end(self) -> *mut u8 {
        self.0.start.wrapping_add(size_of::<Porch>() + tls().lines())
    }

    /// Makes the place of the TLS block zero, for a new one.
    ///
    /// # Safety
    /// The caller owns the stack, and it has no block now.
    pub(crate) unsafe fn clear_for_block(self) {
        // Locked memory stays as it is when it is discarded, so all that is known is whether it is new.
        if self.0.had_block.replace(true) {
            let lines = tls().lines();
            // SAFETY: this part of the span is for a block, and there is none.
            unsafe { ptr::write_bytes(self.tls_end().wrapping_sub(lines), 0, lines) };
        }
    }

    /// Returns the place of a closure that the stack's thread has not run yet.
    #[inline]
    pub(crate) fn porch(self) -> *mut Porch {
        self.0.start.cast()
    }

    /// Returns where the first frame starts: below the porch, aligned to a cache line.
    #[inline]
    pub(crate) fn start(self) -> *mut u8 {
        self.0.start
    }

    /// Returns the lowest usable byte. The red zone ends here.
    #[inline]
    pub(crate) fn limit(self) -> *mut u8 {
        self.0.limit
    }

    /// Returns the size class, which tells the list that it goes back to.
    #[inline]
    pub(crate) fn size_class(self) -> SizeClass {
        self.0.class
    }

    /// Returns the size that was promised. There may be a little more.
    #[inline]
    pub(crate) fn usable(self) -> usize {
        self.0.class.usable()
    }

    /// Returns the thread register of the TLS block that lives in this span; 0: none yet. It stays with the
    /// span from one thread to the next.
    #[inline]
    pub(crate) fn tls(self) -> &'static Cell<usize> {
        &self.0.tls
    }

    /// Sets the thread (its `ThreadCore`) that an overflow of this stack is to be blamed on; null: none.
    #[inline]
    pub(crate) fn set_owner(self, thread: *mut ()) {
        // Relaxed: read by the overflow report, which runs on the owner itself.
        self.0.owner.store(thread, Ordering::Relaxed);
    }

    fn owner(self) -> *mut () {
        // Relaxed: see `set_owner`.
        self.0.owner.load(Ordering::Relaxed)
    }
}

/// What a thread may use of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) start: usize,
    pub(crate) limit: usize,
}

impl Bounds {
    /// Returns those of a stack that the caller owns.
    pub(crate) fn of(stack: Stack) -> Self {
        Self { start: stack.start().addr(), limit: stack.limit().addr() }
    }

    /// Reads the bounds from the header of a stack by `word`, which returns the word at an address. What is
    /// at `header` may be no header any more.
    pub(super) fn read(header: usize, word: impl Fn(usize) -> Option<usize>) -> Option<Self> {
        let field = |offset| word(header.wrapping_add(offset));
        Some(Self { start: field(offset_of!(Header, start))?, limit: field(offset_of!(Header, limit))? })
    }

    /// Returns how many bytes below `start` have been in use since the memory was last discarded, to the
    /// page. A system call for each MiB of the stack.
    pub(crate) fn high_water(&self) -> usize {
        let last_page = self.start.next_multiple_of(page_size());
        mmap::lowest_resident(self.limit..last_page).map_or(0, |lowest| self.start.saturating_sub(lowest))
    }

    /// Returns `true` if the frames of a thread with this stack pointer are there.
    pub(crate) fn contain(&self, sp: usize) -> bool {
        (self.limit..self.start).contains(&sp)
    }
}

impl PartialEq for Stack {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Stack {}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stack({:p}..{:p}, {})", self.limit(), self.top(), Bytes(self.usable()))
    }
}

/// A list of stacks that one kernel thread owns, linked through their headers.
#[derive(Default)]
struct Chain {
    first: Cell<Option<Stack>>,
    len: Cell<u32>,
}

impl Chain {
    const fn new() -> Self {
        Self { first: Cell::new(None), len: Cell::new(0) }
    }

    #[inline]
    fn len(&self) -> u32 {
        self.len.get()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// Adds a stack that the caller owns.
    #[inline]
    fn push(&self, stack: Stack) {
        stack.0.link.set(self.first.get());
        self.first.set(Some(stack));
        self.len.set(self.len.get() + 1);
    }

    /// Takes the stack that was pushed last: its lines and pages are the likeliest to be in the caches.
    #[inline]
    fn pop(&self) -> Option<Stack> {
        let stack = self.first.get()?;
        self.first.set(stack.0.link.get());
        self.len.set(self.len.get() - 1);
        Some(stack)
    }

    /// Returns the stacks, which stay in the chain.
    fn iter(&self) -> impl Iterator<Item = Stack> {
        std::iter::successors(self.first.get(), |stack| stack.0.link.get())
    }

    /// Moves `chain` into this empty one.
    fn put(&self, chain: Self) {
        debug_assert!(self.is_empty());
        self.first.set(chain.first.take());
        self.len.set(chain.len.take());
    }

    /// Takes all of it.
    #[inline]
    fn take(&self) -> Self {
        Self { first: Cell::new(self.first.take()), len: Cell::new(self.len.take()) }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({})", self.len())
    }
}

/// The free stacks of one LWP: no lock, no atomic. Used by the LWP alone: it is not `Sync`.
///
/// There are two chains for each size class. Stacks are pushed on and popped from the *loaded* one; the other
/// is a *spare*. If the loaded chain is full, the spare, if full, goes to the pool, and the loaded one
/// becomes the spare. If both are empty, a chain is fetched.
///
/// So at least [`pool::magazine`] operations lie between two visits to the pool, however they alternate (Bonwick's
/// magazines). A visit moves a whole chain, and a cache holds at most two magazines of each class, new stacks
/// aside. Of large stacks, a magazine is small: each may have been used to the end.
#[derive(Debug)]
pub(crate) struct Cache {
    classes: [Magazines; SizeClass::COUNT],
}

#[derive(Debug)]
struct Magazines {
    loaded: Chain,
    /// Empty, or full as given back by this LWP or another.
    spare: Chain,
    /// How many stacks are in a full one.
    full: u32,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Self {
            classes: std::array::from_fn(|index| Magazines {
                loaded: Chain::new(),
                spare: Chain::new(),
                full: pool::magazine(SizeClass(index as u8)),
            }),
        }
    }

    /// Takes a stack of this class. May map memory, so it is not for the dispatcher. It allocates only if it
    /// fails, so the caller stays on this LWP. For `alone`, see [`pool::take`].
    ///
    /// # Errors
    /// Those of [`pool::take`].
    #[inline]
    pub(crate) fn take(&self, class: SizeClass, alone: impl FnOnce() -> bool) -> io::Result<Stack> {
        let magazines = &self.classes[class.index()];
        match magazines.loaded.pop() {
            Some(stack) => Ok(stack),
            None => magazines.refill(class, alone),
        }
    }

    /// Takes a stack back that the caller owns and does not stand on (I8). Fit for the dispatcher.
    #[inline]
    pub(crate) fn give_back(&self, stack: Stack) {
        let class = stack.size_class();
        let magazines = &self.classes[class.index()];
        if magazines.loaded.len() < magazines.full {
            magazines.loaded.push(stack);
        } else {
            magazines.unload(class, stack);
        }
    }

    /// Gives everything to the pool, when the LWP ends.
    pub(crate) fn drain(&self) {
        for (class, magazines) in SizeClass::all().zip(&self.classes) {
            for chain in [magazines.loaded.take(), magazines.spare.take()] {
                if !chain.is_empty() {
                    pool::give_back_batch(chain, class);
                }
            }
        }
    }
}

impl Magazines {
    /// Loads the spare, or a chain from the pool, and takes a stack of it.
    #[cold]
    fn refill(&self, class: SizeClass, alone: impl FnOnce() -> bool) -> io::Result<Stack> {
        let chain = if self.spare.is_empty() { pool::take_batch(class, alone)? } else { self.spare.take() };
        let stack = chain.pop().expect("a chain that is handed over is not empty");
        self.loaded.put(chain);
        Ok(stack)
    }

    /// Makes the full chain the spare, and gives the spare to the pool. Then takes a stack back.
    #[cold]
    fn unload(&self, class: SizeClass, stack: Stack) {
        let full = self.loaded.take();
        let old = self.spare.take();
        if !old.is_empty() {
            pool::give_back_batch(old, class);
        }
        self.spare.put(full);
        self.loaded.push(stack);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.drain();
    }
}

#[cfg(all(test, unix))]
mod tests;

#[cfg(all(test, loom))]
mod loom_new_stack;
