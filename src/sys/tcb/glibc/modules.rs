//! The first values of static thread-locals, by module, and how to tell cheaply that the modules have
//! changed.
//!
//! To renew a block is to write the first values of every module but the C library over what the last thread
//! left. To walk the loader's list of modules takes its lock: microseconds, on a path that has twenty
//! nanoseconds. So a table of what to write where is made once and kept while a *signature* holds.
//!
//! **The signature** (`slots`) is a number computed from the loader's list of modules, which can be read
//! without a lock.
//!
//! **Rejected**: `dlpi_adds` and `dlpi_subs` (the loader's lock, each time); the generation in the calling
//! thread's vector (it moves only when that thread first uses a new module); a check by timer (a block
//! renewed in between is wrong).
//!
//! **The protocol**: a block's note holds the signature from *before* the loader made its thread-locals. The
//! table holds the one from before it was built. If a renewal finds that note, table and the present are
//! alike, nothing moved between. Any difference is harmless, only slow: the loader makes the thread-locals
//! again, and the table is rebuilt.
//!
//! Tables are leaked when replaced, because a reader may be in them, unless an equal one existed before. So
//! to load and unload the same module forever costs one table. Images are copied into the table, so a reader
//! needs no module to stay mapped.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::super::super::objects::{self, Object};
use super::super::super::once::{Guard, Mutex};
use super::super::common::peek;
use super::super::unfit::Unfit;
use super::calibrate::Shape;
use super::layout;
use super::symbols::Functions;

mod slots;

use slots::Slots;

/// The thread-locals of one module in every block.
#[derive(PartialEq, Eq, Debug)]
struct Span {
    /// From the thread register.
    offset: isize,
    /// What they start with. Of the zeros at its end, at most [`NEAR`].
    image: Box<[u8]>,
    /// How many bytes of zeros follow.
    zeros: usize,
}

/// How many zeros are copied with what comes before them, in bytes. One call less is worth as much as a few
/// lines of memory.
const NEAR: usize = 1024;

/// What renewal does.
#[derive(Debug)]
pub(super) struct Table {
    /// What this table is right for. It changes only if the table's module set goes and comes back.
    signature: AtomicUsize,
    spans: Vec<Span>,
    /// The modules with thread-locals apart from the block, and those of other namespaces.
    apart: Vec<Apart>,
    /// What the places of the other modules add to a signature.
    placed: usize,
    /// How many elements of the loader's list to sum.
    watched: usize,
}

/// A module with thread-locals that only the loader can make again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Apart {
    /// Its index in a block's vector.
    module: usize,
    /// The address of its element in the loader's list.
    slot: usize,
}

/// The loader's modules.
#[derive(Debug)]
pub(super) struct Modules {
    slots: Slots,
    /// Never null; points into `tables`' boxes, which are never dropped.
    current: AtomicPtr<Table>,
    tables: Mutex<Vec<&'static Table>>,
    /// The C library's own thread-locals in every block: offset from the thread register, and size.
    pub(super) library: (isize, usize),
}

impl Modules {
    pub(super) fn find(functions: &Functions, shape: &Shape) -> Result<Self, Unfit> {
        let slots = Slots::find()?;
        let watched = slots.to_watch();
        let (table, library) = Table::build(&slots, watched, slots.sum(watched), functions, shape)?;
        let table: &'static Table = Box::leak(Box::new(table));
        Ok(Self {
            slots,
            current: AtomicPtr::new(ptr::from_ref(table).cast_mut()),
            tables: Mutex::new(vec![table]),
            library,
        })
    }

    #[inline]
    fn table(&self) -> &'static Table {
        // Acquire: pairs with the release of `rebuild`.
        let table = self.current.load(Ordering::Acquire);
        // SAFETY: tables are leaked.
        unsafe { &*table }
    }

    /// Returns the signature of the loaded modules. To be called before the loader makes a block's
    /// thread-locals.
    #[inline]
    pub(super) fn signature(&self) -> usize {
        self.table().signature_now(&self.slots)
    }

    /// Writes the first values over block `tp`, if its note says the present `signature`. Returns `true` if
    /// it did.
    ///
    /// # Safety
    /// The caller alone uses the block. Its thread-locals were made when [`Self::signature`] was `signature`.
    #[inline(always)]
    pub(super) unsafe fn reset(&self, tp: usize, signature: usize, shape: &Shape) -> bool {
        let table = self.table();
        let now = table.signature_now(&self.slots);
        // Relaxed: the number tells the module set that the table's contents are for, and those never change.
        if signature != now || table.signature.load(Ordering::Relaxed) != now {
            return false;
        }
        for &Apart { module, .. } in &table.apart {
            // SAFETY: the module was known when this block's vector was made, so the vector has it.
            if unsafe { vector_value(tp, module, shape) } != UNALLOCATED {
                return false;
            }
        }
        for span in &table.spans {
            let at = ptr::with_exposed_provenance_mut::<u8>(tp.wrapping_add_signed(span.offset));
            // SAFETY: the loader put the module there in every block of this signature, and the caller owns
            // this block.
            unsafe { ptr::copy_nonoverlapping(span.image.as_ptr(), at, span.image.len()) };
            if span.zeros > 0 {
                // SAFETY: zeros follow the image, within the module's thread-locals.
                let zeros = unsafe { at.add(span.image.len()) };
                // SAFETY: the zeros are within the caller's block.
                unsafe { ptr::write_bytes(zeros, 0, span.zeros) };
            }
        }
        true
    }

    /// Returns how many tables there ever were.
    #[cfg(test)]
    pub(super) fn tables(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> Guard<'_, Vec<&'static Table>> {
        // In a forked child the list may be half changed. It only saves memory.
        self.tables.lock(|tables| std::mem::forget(std::mem::take(tables)))
    }

    /// Makes the table fit what is loaded now.
    #[cold]
    pub(super) fn refresh(&self, functions: &Functions, shape: &Shape) {
        let table = self.table();
        // Relaxed: see `reset`.
        if table.signature.load(Ordering::Relaxed) == table.signature_now(&self.slots) {
            return;
        }
        // If a module moves at this moment, or there is no memory, the old table stays, fits nothing, and
        // this is tried again. The lock is not held: in one version, the loader makes a block with its own
        // lock. A module's constructor holds that one, and may come here.
        let watched = self.slots.to_watch();
        let Some(sum) = self.slots.settled_sum(watched) else { return };
        let Ok((fresh, _)) = Table::build(&self.slots, watched, sum, functions, shape) else { return };
        let mut tables = self.lock();
        let known = tables.iter().copied().find(|known| known.is_like(&fresh));
        let table = match known {
            Some(known) => {
                // Relaxed: see `reset`. A thread that finds the old number is slow once more.
                known.signature.store(fresh.signature.into_inner(), Ordering::Relaxed);
                known
            }
            None => {
                let table: &'static Table = Box::leak(Box::new(fresh));
                tables.push(table);
                table
            }
        };
        // Release: pairs with `table`.
        self.current.store(ptr::from_ref(table).cast_mut(), Ordering::Release);
    }
}

/// A module has no thread-locals in this block yet: `TLS_DTV_UNALLOCATED`.
const UNALLOCATED: usize = usize::MAX;

/// Returns where the vector of block `tp` is.
///
/// # Safety
/// The block has a vector.
#[inline]
unsafe fn vector(tp: usize, shape: &Shape) -> usize {
    // SAFETY: a field of the descriptor.
    unsafe { peek(layout::descriptor(tp, &shape.sizes) + shape.vector) }
}

/// Returns where the vector of block `tp` says the thread-locals of `module` are.
///
/// # Safety
/// The block has a vector, which covers `module`, and no other thread changes it meanwhile.
#[inline]
unsafe fn vector_value(tp: usize, module: usize, shape: &Shape) -> usize {
    // SAFETY: the block has a vector.
    let vector = unsafe { vector(tp, shape) };
    // SAFETY: it covers the module.
    unsafe { peek(vector + module * shape.vector_slot + shape.vector_value) }
}

impl Table {
    /// Builds a table of what is loaded, through a block made for the purpose. `sum` is that of `watched`
    /// elements, from before. Also returns the C library's own span.
    fn build(
        slots: &Slots,
        watched: usize,
        sum: usize,
        functions: &Functions,
        shape: &Shape,
    ) -> Result<(Self, (isize, usize)), Unfit> {
        // SAFETY: null asks for a block from the heap.
        let block = unsafe { (functions.allocate)(ptr::null_mut()) };
        if block.is_null() {
            return Err(Unfit::NoThread(libc::ENOMEM));
        }
        let tp = block.expose_provenance();
        let mut table =
            Self { signature: AtomicUsize::new(0), spans: Vec::new(), apart: Vec::new(), placed: 0, watched };
        let (mut library, library_code) = (None, functions.init_ctype as usize);
        let mut shown = Vec::new();
        objects::each(|object| {
            shown.push(object.module());
            match table.add(object, tp, slots, shape) {
                Some(span) if object.code().any(|part| part.contains(&library_code)) => {
                    library = Some((span.offset, span.image.len() + span.zeros));
                }
                span => table.spans.extend(span),
            }
        });
        // Those of other namespaces (`dlmopen`) are not shown, so their first values are the loader's affair.
        let hidden = slots.modules().filter(|(module, _)| !shown.contains(module));
        table.apart.extend(hidden.map(|(module, slot)| Apart { module, slot }));
        // SAFETY: allocated above, and no thread uses it.
        unsafe { (functions.deallocate)(block, true) };
        // The modules apart have no place yet. If one has got a place since the block was made, or has one in
        // another namespace, the table fits nothing, and is made again.
        *table.signature.get_mut() = sum.wrapping_add(table.placed);
        Ok((table, library.ok_or(Unfit::Unexpected("the thread-locals of the C library"))?))
    }

    /// Notes the place of an object's thread-locals in block `tp`, which no thread runs on. Returns them, if
    /// they are within the block. Called with the loader's lock held.
    fn add(&mut self, object: &Object<'_>, tp: usize, slots: &Slots, shape: &Shape) -> Option<Span> {
        let (image, zeros) = object.thread_locals()?;
        let module = object.module();
        // SAFETY: the block has a vector.
        let vector = unsafe { vector(tp, shape) };
        // SAFETY: the element before the first is the vector's length.
        let length: usize = unsafe { peek(vector - shape.vector_slot) };
        // A module that is being loaded may have no element yet. Its stamp is to come, and this table will
        // not fit then.
        if module == 0 || module > length {
            return None;
        }
        // SAFETY: the vector covers the module, as checked above.
        let at = unsafe { vector_value(tp, module, shape) };
        let slot = slots.of(module)?;
        if !layout::statics(tp, &shape.sizes).contains(&at) {
            self.apart.push(Apart { module, slot });
            return None;
        }
        // SAFETY: the loader's lock is held.
        self.placed = self.placed.wrapping_add(unsafe { slots.placed(slot) });
        let (mut image, near) = (image.to_vec(), zeros.min(NEAR));
        image.resize(image.len() + near, 0);
        Some(Span { offset: at.wrapping_sub(tp).cast_signed(), image: image.into(), zeros: zeros - near })
    }

    /// Returns the signature of what is loaded now, computed as this table's was.
    #[inline]
    fn signature_now(&self, slots: &Slots) -> usize {
        let signature = slots.sum(self.watched).wrapping_add(self.placed);
        // Relaxed: as in `reset`.
        if self.apart.is_empty() || signature != self.signature.load(Ordering::Relaxed) {
            return signature;
        }
        // SAFETY: they are loaded, because their elements are as they were when this table was built. (The
        // limits forbid unloading one meanwhile.)
        let placed = self.apart.iter().map(|apart| unsafe { slots.placed(apart.slot) });
        placed.fold(signature, usize::wrapping_add)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.watched == other.watched
            && self.placed == other.placed
            && self.apart == other.apart
            && self.spans == other.spans
    }
}
