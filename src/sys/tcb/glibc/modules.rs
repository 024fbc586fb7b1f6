//! The first values of static thread-locals, by module, and how to tell cheaply that the modules have
//! changed.
//!
//! To renew a block is to write the first values of every module but the C library over what the last thread
//! left. To walk the loader's list of modules takes its lock: microseconds, on a path that has twenty
//! nanoseconds. So a table of what to write where is made once and kept while a *signature* holds.
//!
//! **The signature** is the sum of the generation numbers in the loader's list of modules with thread-locals
//! (`dtv_slotinfo_list`, described for debuggers). When a module comes to an element or leaves it, the loader
//! stamps the element with the next generation. Elements are never freed, so they can be read without a lock,
//! and the sum only ever grows. A new module takes a free element or the one after the last. So a sum up to
//! [`AHEAD`] past the last one seen misses nothing, and reads one or two cache lines.
//!
//! A module with thread-locals apart from the block becomes *static* when a module is loaded that needs them
//! in the block. No generation shows that. So for such modules, the place from the loader (`l_tls_offset`,
//! described for debuggers) counts into the upper half of the signature. It is read only while the
//! generations are those of the table, because then the table's modules are loaded.
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
use super::super::unfit::Unfit;
use super::calibrate::Shape;
use super::layout;
use super::symbols::{Functions, field, symbol};
use super::words::peek;

/// How far past the last element in use a signature looks. One `dlopen` may bring several modules.
const AHEAD: usize = 4;

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
    /// The modules with thread-locals apart from the block.
    apart: Vec<Apart>,
    /// What the places of the other modules add to a signature.
    placed: usize,
    /// How many elements of the loader's list to sum.
    watched: usize,
}

/// A module with thread-locals apart from the block.
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

/// Where the loader keeps generations.
#[derive(Debug)]
struct Slots {
    /// Address of the pointer to the first piece of the list.
    head: usize,
    length: usize,
    next: usize,
    first: usize,
    slot: usize,
    generation: usize,
    map: usize,
    /// The offset, in the description of a module (`struct link_map`), of the place of its thread-locals in
    /// every block. `None`: this glibc does not tell.
    place: Option<usize>,
}

impl Slots {
    fn ask() -> Result<Self, Unfit> {
        let head = field(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")?;
        let first = field(c"_thread_db_dtv_slotinfo_list_slotinfo")?;
        Ok(Self {
            head: symbol(c"_rtld_global")?.as_ptr().expose_provenance() + head.offset,
            length: field(c"_thread_db_dtv_slotinfo_list_len")?.offset,
            next: field(c"_thread_db_dtv_slotinfo_list_next")?.offset,
            first: first.offset,
            slot: first.size,
            generation: field(c"_thread_db_dtv_slotinfo_gen")?.offset,
            map: field(c"_thread_db_dtv_slotinfo_map")?.offset,
            place: field(c"_thread_db_link_map_l_tls_offset").ok().map(|field| field.offset),
        })
    }

    /// Returns the addresses of the list's elements, in order.
    #[inline]
    fn each(&self) -> impl Iterator<Item = usize> {
        // Acquire: pairs with the release by which the loader links a piece that it has filled in.
        let mut piece = load(self.head, Ordering::Acquire);
        let mut at = 0;
        std::iter::from_fn(move || {
            while piece != 0 && at == load(piece + self.length, Ordering::Relaxed) {
                piece = load(piece + self.next, Ordering::Acquire);
                at = 0;
            }
            if piece == 0 {
                return None;
            }
            let slot = piece + self.first + at * self.slot;
            at += 1;
            Some(slot)
        })
    }

    /// Returns the generation of an element.
    #[inline]
    fn generation(&self, slot: usize) -> usize {
        // Relaxed: a number to compare. A thread that may use a module has it from the thread that loaded it,
        // so it sees the module's stamp.
        load(slot + self.generation, Ordering::Relaxed)
    }

    /// Returns what the place of an element's module adds to a signature: 0 while the module has no place.
    ///
    /// # Safety
    /// The module is not unloaded meanwhile.
    #[cold]
    unsafe fn placed(&self, slot: usize) -> usize {
        // Relaxed, both: numbers to compare, as in `generation`.
        let map = load(slot + self.map, Ordering::Relaxed);
        let Some(place) = self.place.filter(|_| map != 0) else { return 0 };
        // -1 and -2 are the loader's "none yet" and "never".
        match load(map + place, Ordering::Relaxed).cast_signed() {
            -2..=0 => 0,
            place => place.cast_unsigned() << 32,
        }
    }

    /// Returns how many elements there are up to the last that was ever used.
    fn used(&self) -> usize {
        let is_used = |slot| self.generation(slot) != 0 || load(slot + self.map, Ordering::Relaxed) != 0;
        let last = self.each().enumerate().filter(|&(_, slot)| is_used(slot)).last();
        last.map_or(0, |(index, _)| index + 1)
    }

    /// Returns the sum of the generations.
    #[inline]
    fn generations(&self, watched: usize) -> usize {
        // Acquire: as in `each`.
        let piece = load(self.head, Ordering::Acquire);
        // The first piece has room for dozens of modules. As a rule all are in it, and this is a few loads.
        if piece == 0 || watched > load(piece + self.length, Ordering::Relaxed) {
            return self.generations_of_pieces(watched);
        }
        let mut at = piece + self.first + self.generation;
        let mut sum = 0_usize;
        for _ in 0..watched {
            // Relaxed: as in `each`.
            sum = sum.wrapping_add(load(at, Ordering::Relaxed));
            at += self.slot;
        }
        sum
    }

    #[cold]
    fn generations_of_pieces(&self, watched: usize) -> usize {
        self.each().take(watched).fold(0, |sum, slot| sum.wrapping_add(self.generation(slot)))
    }

    /// Returns the signature, computed as `table` does.
    #[inline]
    fn signature(&self, table: &Table) -> usize {
        let signature = self.generations(table.watched).wrapping_add(table.placed);
        // Relaxed: as in `reset`.
        if table.apart.is_empty() || signature != table.signature.load(Ordering::Relaxed) {
            return signature;
        }
        // SAFETY: they are loaded, because their generations are those of the table. (The limits forbid
        // unloading one meanwhile.)
        let placed = table.apart.iter().map(|apart| unsafe { self.placed(apart.slot) });
        placed.fold(signature, usize::wrapping_add)
    }
}

/// Reads a word of the loader's list.
#[inline]
fn load(at: usize, order: Ordering) -> usize {
    // SAFETY: the list is at the address that the loader describes. Its pieces are never freed, and it
    // changes by stores of whole words.
    unsafe { AtomicUsize::from_ptr(ptr::with_exposed_provenance_mut(at)) }.load(order)
}

impl Modules {
    pub(super) fn find(functions: &Functions, shape: &Shape) -> Result<Self, Unfit> {
        let slots = Slots::ask()?;
        let (table, library) = Table::build(&slots, functions, shape)?;
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
        self.slots.signature(self.table())
    }

    /// Writes the first values over block `tp`, if its note says the present `signature`. Returns `true` if
    /// it did.
    ///
    /// # Safety
    /// The caller alone uses the block. Its thread-locals were made when [`Self::signature`] was `signature`.
    #[inline(always)]
    pub(super) unsafe fn reset(&self, tp: usize, signature: usize, shape: &Shape) -> bool {
        let table = self.table();
        let now = self.slots.signature(table);
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
        let mut tables = self.lock();
        let table = self.table();
        if table.signature.load(Ordering::Relaxed) == self.slots.signature(table) {
            return;
        }
        // There is no memory, or a module moved at this moment. The old table stays, fits nothing, and this
        // is tried again.
        let Ok((fresh, _)) = Table::build(&self.slots, functions, shape) else { return };
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
    /// Builds a table of what is loaded, through a block made for the purpose. Also returns the C library's
    /// own span.
    fn build(slots: &Slots, functions: &Functions, shape: &Shape) -> Result<(Self, (isize, usize)), Unfit> {
        let watched = slots.used() + AHEAD;
        let generations = slots.generations(watched);
        // SAFETY: null asks for a block from the heap.
        let block = unsafe { (functions.allocate)(ptr::null_mut()) };
        if block.is_null() {
            return Err(Unfit::NoThread(libc::ENOMEM));
        }
        let tp = block.expose_provenance();
        let mut table =
            Self { signature: AtomicUsize::new(0), spans: Vec::new(), apart: Vec::new(), placed: 0, watched };
        let (mut library, library_code) = (None, functions.init_ctype as usize);
        objects::each(|object| match table.add(object, tp, slots, shape) {
            Some(span) if object.code().any(|part| part.contains(&library_code)) => {
                library = Some((span.offset, span.image.len() + span.zeros));
            }
            span => table.spans.extend(span),
        });
        // SAFETY: allocated above, and no thread uses it.
        unsafe { (functions.deallocate)(block, true) };
        // The modules apart have no place yet. If one has got a place since the block was made, the table
        // fits nothing, and is made again.
        *table.signature.get_mut() = generations.wrapping_add(table.placed);
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
        let slot = slots.each().nth(module)?;
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

    fn is_like(&self, other: &Self) -> bool {
        self.watched == other.watched
            && self.placed == other.placed
            && self.apart == other.apart
            && self.spans == other.spans
    }
}
