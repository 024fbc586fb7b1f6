//! Where spans come from: slabs, mappings of many spans each.
//!
//! ```text
//!   ┌──────┬─────────┬────────┬────────┬───
//!   │ Slab │ headers │ span 0 │ span 1 │ ...      the first two fill whole pages; span 0's red zone
//!   └──────┴─────────┴────────┴────────┴───        protects them
//! ```
//!
//! A slab describes itself at its own start. So growing calls no allocator: a preempted thread may hold its
//! locks.
//!
//! With one mapping for each stack, 1,000,000 threads would need twice as many entries in the kernel's list
//! of mappings. That list is limited to 65,530. A slab doubles the spans of its class, so they need 15. Its
//! spans are *carved*, that is, get their red zone and header, in order and only when needed.
//!
//! Slabs are never unmapped. They form a list that only grows, which the overflow handler walks without a
//! lock. A slab is published (release) when it is complete, and a span when `carved` says so (release).

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use super::{COLOUR_STEP, COLOURS, Chain, Header, RED_ZONE, SizeClass, Stack, tls};
use crate::arch::valgrind;
use crate::park::backend::Porch;
use crate::park::current;
use crate::sys::mmap::{Guard, Mapping, Parts, Refusal, check_headroom, page_size};
use crate::sys::sigstack::{self, Overflow};

/// How many spans the first slab of a class has, if they fit into [`FIRST_SLAB`].
const FIRST_SLOTS: usize = 64;
/// Room for the frames of a thread that waits at once. One that parks has 512 bytes of them.
const FIRST_FRAMES: usize = 1_024;
/// Address space of the first slab of a class.
const FIRST_SLAB: usize = 256 << 20;
/// Address space of one slab at most. It costs nothing until touched. One larger slab might hit a limit under
/// which two would still fit.
const LARGEST_SLAB: usize = 64 << 30;

/// A mapping divided into spans of one class.
#[derive(Debug)]
pub(super) struct Slab {
    mapping: Mapping,
    class: SizeClass,
    /// Where span 0 begins, in bytes.
    first_span: usize,
    /// From one span to the next, in bytes.
    stride: usize,
    spans: usize,
    /// How many spans, from the lowest, have a header and a red zone. Written under the class's growth lock.
    carved: AtomicUsize,
    /// The slab made before this one, of any class.
    older: *const Slab,
}

// SAFETY: `older` and everything else but `carved` is constant after publication, and `carved` is atomic.
unsafe impl Sync for Slab {}
// SAFETY: nothing in a slab belongs to a kernel thread.
unsafe impl Send for Slab {}

static NEWEST: AtomicPtr<Slab> = AtomicPtr::new(ptr::null_mut());

impl Slab {
    /// Maps a slab for a class that has `existing` spans already. It has as many again, or fewer if there is
    /// no room.
    pub(super) fn new(class: SizeClass, existing: usize) -> Result<&'static Self, Refusal> {
        let stride = Geometry::of(class).stride;
        let most = (LARGEST_SLAB / stride).max(1);
        let first = (FIRST_SLAB / stride).clamp(1, FIRST_SLOTS);
        let mut spans = existing.clamp(first, most.max(first));
        loop {
            match Self::with_spans(class, spans) {
                Err(refusal) if refusal.is_for_memory() && spans > 1 => spans /= 2,
                made => return made,
            }
        }
    }

    fn with_spans(class: SizeClass, spans: usize) -> Result<&'static Self, Refusal> {
        let stride = Geometry::of(class).stride;
        let first_span = (Self::HEADERS + spans * size_of::<Header>()).next_multiple_of(page_size());
        let len = first_span + spans * stride;
        check_headroom(len)?;
        let mapping = Mapping::reserve(len)?;
        mapping.forbid_huge_pages();
        mapping.set_name(c"selvedge stacks");
        let memory = mapping.start().cast::<Self>();
        let slab = Self {
            mapping,
            class,
            first_span,
            stride,
            spans,
            carved: AtomicUsize::new(0),
            older: ptr::null(),
        };
        // SAFETY: page-aligned, below the headers, and no other code knows the mapping. It is never unmapped,
        // because the `Mapping` is never dropped.
        unsafe { memory.write(slab) };
        // SAFETY: just written, and the only reference until it is published.
        let slab: &'static mut Self = unsafe { &mut *memory };
        // Relaxed: the exchange checks what matters.
        let mut newest = NEWEST.load(Ordering::Relaxed);
        loop {
            slab.older = newest;
            // Release: pairs with the acquire of `slabs`. Relaxed on failure: only the pointer is used.
            match NEWEST.compare_exchange_weak(newest, slab, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(slab),
                Err(theirs) => newest = theirs,
            }
        }
    }

    /// Where the headers begin: after the `Slab`, on a cache line of their own.
    const HEADERS: usize = size_of::<Self>().next_multiple_of(align_of::<Header>());

    pub(super) fn spans(&self) -> usize {
        self.spans
    }

    /// Returns how many spans have never been used.
    pub(super) fn uncarved(&self) -> usize {
        // Relaxed: called under the growth lock, which orders it.
        self.spans - self.carved.load(Ordering::Relaxed)
    }

    /// Carves `n` spans, at most a magazine, or as many as the system has room for. The caller holds the
    /// class's growth lock.
    ///
    /// # Errors
    /// Those of the red zone, if not even one span could be made.
    pub(super) fn carve(&'static self, n: usize) -> Result<Chain, Refusal> {
        // Relaxed: the growth lock orders carvers.
        let first = self.carved.load(Ordering::Relaxed);
        let wanted = first..first + n.min(self.uncarved());
        let marked = first + self.mark_red_zones(wanted.clone());
        let chain = Chain::new();
        for index in wanted {
            let guarded = if index < marked { Ok(()) } else { self.guard_red_zone(index) };
            match guarded {
                Ok(()) => chain.push(self.open(index)),
                Err(refusal) if chain.is_empty() => return Err(refusal),
                Err(_) => break,
            }
        }
        Ok(chain)
    }

    /// Marks the red zones of some spans, in one call. Returns how many are marked.
    fn mark_red_zones(&self, spans: Range<usize>) -> usize {
        if guard() != Guard::Marker {
            return 0;
        }
        let mut zones = Parts::new();
        for index in spans {
            let zone = self.red_zone(index);
            zones.push(self.at(zone.start), self.at(zone.end));
        }
        self.mapping.mark_each(&zones)
    }

    fn guard_red_zone(&self, index: usize) -> Result<(), Refusal> {
        let did = self.mapping.guard(self.red_zone(index), guard())?;
        remember_refusal(did);
        Ok(())
    }

    /// Gives a span, the next one, its header. It has its red zone.
    fn open(&'static self, index: usize) -> Stack {
        let geometry = Geometry::of(self.class);
        let bottom = self.first_span + index * self.stride;
        let top = self.at(bottom + self.stride);
        let colour = index % COLOURS * COLOUR_STEP;
        let header = Header {
            top,
            start: top.wrapping_sub(geometry.head + colour),
            limit: self.at(bottom + geometry.red_zone),
            tls: Default::default(),
            link: Default::default(),
            next_chain: Default::default(),
            owner: AtomicPtr::new(ptr::null_mut()),
            chain_len: Default::default(),
            class: self.class,
            had_block: Default::default(),
        };
        valgrind::announce(header.limit..header.start);
        // SAFETY: the mapping has room for `spans` headers below span 0, aligned, and `index` is below
        // `spans`. No reference to this one exists before `carved` passes it.
        unsafe { self.header(index).write(header) };
        // Release: pairs with the acquire of `find`.
        self.carved.store(index + 1, Ordering::Release);
        // SAFETY: just written, never written as a whole again, never unmapped.
        Stack(unsafe { &*self.header(index) })
    }

    /// Returns the red zone of a span, as offsets.
    fn red_zone(&self, index: usize) -> Range<usize> {
        let bottom = self.first_span + index * self.stride;
        bottom..bottom + Geometry::of(self.class).red_zone
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.mapping.start().wrapping_add(offset)
    }

    fn header(&self, index: usize) -> *mut Header {
        self.mapping.start().wrapping_add(Self::HEADERS).cast::<Header>().wrapping_add(index)
    }

    /// Returns the span that an address lies in.
    fn find(&'static self, address: usize) -> Option<Stack> {
        let offset = address.checked_sub(self.mapping.start().addr() + self.first_span)?;
        let index = offset / self.stride;
        // Acquire: pairs with the release of `carve_one`, so the header is complete.
        if index >= self.carved.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: carved, so initialized for good.
        Some(Stack(unsafe { &*self.header(index) }))
    }
}

/// How a span of a class is divided.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    red_zone: usize,
    /// Top of the span to the highest `start`.
    head: usize,
    stride: usize,
}

impl Geometry {
    fn of(class: SizeClass) -> Self {
        let page = page_size();
        let red_zone = RED_ZONE.max(sigstack::minimum()).next_multiple_of(page);
        let head = tls().lines() + size_of::<Porch>();
        // Whole pages, on top of the usable ones.
        let pages = (head + (COLOURS - 1) * COLOUR_STEP).next_multiple_of(page);
        Self { red_zone, head, stride: red_zone + class.usable() + pages }
    }
}

/// Returns every slab, the newest first.
fn slabs() -> impl Iterator<Item = &'static Slab> {
    // Acquire: pairs with the release of `with_spans`, which makes the slab and all older ones visible.
    let newest = NEWEST.load(Ordering::Acquire).cast_const();
    // SAFETY: null or in the list, so it is complete and never unmapped.
    let slab = |slab: *const Slab| unsafe { slab.as_ref::<'static>() };
    std::iter::successors(slab(newest), move |newer| slab(newer.older))
}

/// Returns the stack that has the address in its span, red zone included. Takes no lock and allocates
/// nothing, so it is fit for a signal handler.
pub(super) fn find(address: usize) -> Option<Stack> {
    slabs().find_map(|slab| slab.find(address))
}

/// Returns the red zone of a stack.
pub(super) fn red_zone(stack: Stack) -> Range<usize> {
    let limit = stack.limit().addr();
    limit - Geometry::of(stack.size_class()).red_zone..limit
}

/// Makes an overflow of a green thread's stack print which thread it was, and abort. Process-wide, once.
pub(crate) fn report_overflows() -> io::Result<()> {
    sigstack::explain_with(explain);
    sigstack::install_handler()
}

/// Explains a fault. Runs in the fault handler: takes no lock and allocates nothing.
///
/// A fault in a red zone is an overflow only if the faulting thread is the one that uses the span. Otherwise
/// it is a wild pointer, which is left to the earlier handler of such faults.
fn explain(fault: usize) -> Option<Overflow> {
    let stack = find(fault)?;
    if !red_zone(stack).contains(&fault) {
        return None;
    }
    let thread = current::try_current();
    let here: *const () = thread.map_or(std::ptr::null(), |thread| std::ptr::from_ref(thread.core()).cast());
    if stack.owner().cast_const() != here {
        return None;
    }
    let core = thread.map(|thread| thread.core());
    Some(Overflow {
        name: core.and_then(|core| core.name()),
        id: core.map(|core| core.id().get()),
        size: stack.usable(),
    })
}

/// Has the kernel put memory where it will be needed on new stacks. `blocks`: for the TLS blocks. `frames`: for
/// the first frames and the porches. Without this, each page would cost a fault of its own. Makes a system
/// call.
pub(super) fn touch(chain: &Chain, blocks: bool, frames: bool) {
    let page = page_size();
    let down = |at: *mut u8| at.map_addr(|at| at / page * page);
    let mut tops = Parts::new();
    for stack in chain.iter() {
        let first = down(stack.start().wrapping_sub(FIRST_FRAMES)).max(stack.limit());
        let porch_end =
            stack.start().wrapping_add(size_of::<Porch>()).map_addr(|at| at.next_multiple_of(page));
        match (blocks, frames) {
            (true, true) => tops.push(first, stack.top()),
            // The lowest page of the block is that of the first frames, as a rule.
            (true, false) => tops.push(down(stack.start()).wrapping_add(page), stack.top()),
            (false, true) => tops.push(first, porch_end),
            (false, false) => {}
        }
    }
    tops.touch();
}

/// Gives all memory of a chain of stacks, at most a magazine, back to the system. The owner has destroyed
/// their TLS blocks, which lie there too.
///
/// # Safety
/// The caller owns the stacks, and nothing in their spans is needed.
pub(super) unsafe fn discard(chain: &Chain) {
    let mut spans = Parts::new();
    for stack in chain.iter() {
        spans.push(stack.limit(), stack.top());
    }
    // SAFETY: the spans are the caller's, by contract.
    unsafe { spans.discard() };
}

/// Returns the kind of red zone to try: the best that this kernel has, until it refuses.
fn guard() -> Guard {
    // Relaxed: either kind is right.
    if FORCED.load(Ordering::Relaxed) == NO_ACCESS { Guard::NoAccess } else { Guard::best() }
}

/// Notes a refusal, so that later spans do not try the call.
fn remember_refusal(did: Guard) {
    if did == Guard::NoAccess {
        // Relaxed: see `guard`.
        FORCED.store(NO_ACCESS, Ordering::Relaxed);
    }
}

/// 0, or NO_ACCESS: markers were refused, or are not to be tried.
static FORCED: AtomicU8 = AtomicU8::new(0);
const NO_ACCESS: u8 = 1;

/// Makes red zones of no access from now on, as on kernels without markers.
#[cfg(test)]
pub(super) fn force_no_access() {
    FORCED.store(NO_ACCESS, Ordering::Relaxed);
}
