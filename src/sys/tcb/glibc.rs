//! glibc's blocks, by its own means. The parent module has the reasons and the limits.

mod calibrate;
mod carry_over;
mod exit;
mod kept;
mod keys;
mod layout;
mod modules;
mod robust;
mod setxid;
mod symbols;
mod unexported;

#[cfg(test)]
mod tests;

use std::hint::black_box;
use std::io;
use std::ptr;
use std::sync::Arc;

use super::common::{LC_GLOBAL_LOCALE, peek, poke};
pub(crate) use super::common::{check_library, hwcap2};
use super::unfit::Unfit;
use super::{Aside, Renewed};
use calibrate::Shape;
use carry_over::{Estate, Estates};
use exit::WayOut;
use layout::{Note, own_descriptor};
use modules::Modules;
use symbols::{Functions, RESOLVER_STATE_SIZE, ResolverState};

/// `true` if this target has a C library and an instruction set for which blocks can be made.
pub(crate) const SUPPORTED: bool = true;

/// Everything that a block's life needs, bound and calibrated.
pub(crate) struct Library {
    functions: Functions,
    shape: Shape,
    modules: Modules,
    estates: Estates,
    /// How far above a block's thread register its note is.
    note_offset: usize,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// After so many new blocks, the allocator's arena is made longer for as many.
const TOGETHER: u32 = 64;

/// Has the allocator get memory for what the next threads take there. It makes all arenas but the first
/// longer page by page, by a system call each. A thread takes less than a page.
#[cold]
fn lengthen_arena() {
    /// A vector of modules has 304 bytes or a few more, and the record of a thread 384.
    const EACH: usize = 768;
    // SAFETY: any size is allowed.
    let end = unsafe { libc::malloc(TOGETHER as usize * EACH) };
    // It stays at the end of the arena, untouched.
    // SAFETY: just allocated, or null.
    unsafe { libc::free(black_box(end)) };
}

/// The bytes of a field that holds an address.
const WORD: usize = size_of::<usize>();

/// The end of a slot, aligned to pages. Any such address gives the same distances.
const ANY_TOP: usize = 1 << 30;

impl Library {
    /// Returns where the C library keeps what it knows of requests to end the calling thread.
    pub(crate) fn cancellation(&self) -> *const std::sync::atomic::AtomicU32 {
        at(own_descriptor() + self.shape.cancelling)
    }

    pub(super) fn find() -> Result<Self, Unfit> {
        let functions = Functions::bind()?;
        let shape = Shape::find(&functions)?;
        let modules = Modules::find(&functions, &shape)?;
        let note_offset = layout::note_offset(&shape.sizes);
        Ok(Self { functions, shape, modules, estates: Estates::new(), note_offset })
    }

    /// Makes `setuid` and its kin work while kernel threads stand on blocks. To be called before the first
    /// does. `write` writes the thread register.
    pub(crate) fn relay_setxid(&self, write: unsafe fn(usize)) -> Result<(), Unfit> {
        setxid::install(&self.shape, write)
    }

    /// Returns how many bytes a block takes at most below an end that is aligned to 64. The stack ends below,
    /// aligned to 64.
    pub(crate) fn reserve(&self) -> usize {
        let sizes = &self.shape.sizes;
        ANY_TOP - layout::place(ANY_TOP, sizes).1 + sizes.align.saturating_sub(64)
    }

    /// Makes a block below `top`, for a stack that goes down to `lowest`, and returns its thread register.
    /// Allocates, and takes locks of the loader.
    ///
    /// # Safety
    /// `top` is aligned to 64. The [`reserve`](Self::reserve) bytes below it are zero and writable, and used
    /// by nothing else until [`destroy`](Self::destroy).
    pub(crate) unsafe fn create(&self, top: *mut u8, lowest: *mut u8) -> io::Result<usize> {
        let sizes = &self.shape.sizes;
        let top = top.expose_provenance();
        let (tp, stack_end) = layout::place(top, sizes);
        let Estate { tid, library } = self.estates.take().ok_or(io::ErrorKind::QuotaExceeded)?;
        if library.is_none() && tid.is_multiple_of(TOGETHER) {
            lengthen_arena();
        }
        let signature = self.modules.signature();
        // SAFETY: the caller's bytes. The loader takes the address that the thread register will
        // hold.
        if unsafe { (self.functions.allocate)(at(tp)) }.is_null() {
            self.estates.leave(Estate { tid, library });
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let note = self.note(tp);
        // SAFETY: the note lies within the slot.
        unsafe { note.write(Note { signature, tid, way_out: WayOut::default() }) };
        if let Some(library) = library {
            // SAFETY: the loader has just made the block's thread-locals.
            unsafe { self.give_library(tp, &library) };
        }
        // SAFETY: this call has just made the block.
        unsafe { self.fill(tp, tid) };
        if let Some(fields) = self.shape.exit {
            // SAFETY: within the note.
            let way_out = unsafe { &raw mut (*note).way_out };
            // SAFETY: this call has just made the block.
            unsafe { exit::set(layout::descriptor(tp, sizes), lowest.addr()..stack_end, way_out, fields) };
        }
        Ok(tp)
    }

    /// Writes what `pthread_create` would write.
    ///
    /// # Safety
    /// `tp` is the register of a block with its thread-locals made, which the caller alone uses.
    unsafe fn fill(&self, tp: usize, tid: u32) {
        let shape = &self.shape;
        let descriptor = layout::descriptor(tp, &shape.sizes);
        let own = layout::register(own_descriptor(), &shape.sizes);
        // SAFETY: both blocks are complete as far as this goes.
        unsafe { layout::fill_head(tp, own, &shape.sizes) };
        // SAFETY: a field of the descriptor, and so below.
        unsafe { poke(descriptor + shape.tid, tid) };
        // `fork` and the end of a thread unlink it. An element by itself can be unlinked.
        for link in [shape.list, shape.list + 8] {
            // SAFETY: a field of the descriptor.
            unsafe { poke(descriptor + link, descriptor + shape.list) };
        }
        let (user_stack, mark) = shape.user_stack;
        // SAFETY: a field of the descriptor.
        unsafe { poke(descriptor + user_stack, mark) };
        // SAFETY: the descriptor is that of the caller's block.
        unsafe { self.clear_detached(descriptor) };
        // Without it the destructors of the first keys would not be found.
        // SAFETY: a field of the descriptor.
        unsafe { poke(descriptor + shape.keys.blocks, descriptor + shape.keys.first_block) };
        // SAFETY: fields of the caller's block.
        unsafe { robust::clear(descriptor + shape.robust) };
        // SAFETY: a field of the descriptor.
        unsafe { poke(descriptor + shape.robust + 8, shape.robust_futex_offset) };
        let resolver = descriptor + shape.resolver;
        // SAFETY: a thread-local of the library in the block.
        unsafe { poke(tp.wrapping_add_signed(shape.resolver_pointer), resolver) };
        // SAFETY: the block is the caller's.
        unsafe { self.refuse_area(tp) };
    }

    /// Says in block `tp` that the kernel knows no area for restartable sequences there.
    ///
    /// # Safety
    /// The caller alone uses the block.
    unsafe fn refuse_area(&self, tp: usize) {
        if let Some(cpu_id) = self.shape.cpu_id {
            // "Registration failed": code that asks for the processor then asks the kernel. Zero would say
            // processor 0.
            // SAFETY: calibration has checked that it lies in the block.
            unsafe { poke(tp.wrapping_add_signed(cpu_id), -2_i32) };
        }
    }

    /// Returns the note of block `tp`.
    #[inline]
    fn note(&self, tp: usize) -> *mut Note {
        at(tp + self.note_offset)
    }

    /// Makes a thread joinable, as it was before it detached itself.
    ///
    /// # Safety
    /// `descriptor` is that of a block that the caller alone uses.
    #[inline]
    unsafe fn clear_detached(&self, descriptor: usize) {
        for (part, joinable) in self.shape.detached {
            // SAFETY: a field of the descriptor.
            unsafe { poke(descriptor + part, joinable) };
        }
    }

    /// Gives every thread-local of block `tp` its first value again, except the C library's own.
    ///
    /// An error (no memory) leaves no block: the slot can be given to [`create`](Self::create).
    ///
    /// # Safety
    /// `tp` came from [`create`](Self::create). Its last thread has done [`exit`](Self::exit) and left it
    /// (I8), and the caller alone uses it.
    #[inline(always)]
    pub(crate) unsafe fn renew(&self, tp: usize) -> io::Result<Renewed> {
        // SAFETY: `create` wrote it.
        let signature = unsafe { (*self.note(tp)).signature };
        // SAFETY: the caller alone uses the block. The note's signature is from before its thread-locals were
        // made.
        if unsafe { self.modules.reset(tp, signature, &self.shape) } {
            return Ok(Renewed::Reset);
        }
        // SAFETY: the caller's promise.
        unsafe { self.rebuild(tp) }.map(|()| Renewed::Rebuilt)
    }

    /// Has the loader make the thread-locals of block `tp` again.
    ///
    /// # Safety
    /// As [`Self::renew`].
    #[cold]
    unsafe fn rebuild(&self, tp: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let library = unsafe { self.library_of(tp) };
        // SAFETY: the block keeps its place. Only what the loader allocated for it goes.
        unsafe { (self.functions.deallocate)(at(tp), false) };
        self.modules.refresh(&self.functions, &self.shape);
        // If a module is given a place later, it finds zeros there, as in a new block, and not what another
        // module has left.
        let statics = layout::statics(tp, &self.shape.sizes);
        // SAFETY: the block's thread-locals, which are not in use at this time. The loader and the copy below
        // write their first values.
        unsafe { ptr::write_bytes(at::<u8>(statics.start), 0, statics.len()) };
        let note = self.note(tp);
        // SAFETY: `create` wrote it, and the caller alone uses the block.
        let note = unsafe { &mut *note };
        note.signature = self.modules.signature();
        // SAFETY: the loader takes the address that the thread register will hold.
        if unsafe { (self.functions.allocate)(at(tp)) }.is_null() {
            // SAFETY: no thread runs on the block, or will.
            unsafe { self.shape.keys.free_blocks(layout::descriptor(tp, &self.shape.sizes)) };
            self.estates.leave(Estate { tid: note.tid, library: Some(library) });
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // SAFETY: the loader has just made the block's thread-locals, at the same place.
        unsafe { self.give_library(tp, &library) };
        // Since glibc 2.41, it lies among the thread-locals.
        // SAFETY: the block is the caller's.
        unsafe { self.refuse_area(tp) };
        Ok(())
    }

    /// Returns a copy of what the C library keeps for itself in block `tp`: its thread-locals, and fields.
    ///
    /// # Safety
    /// The block is complete, and no thread writes it.
    unsafe fn library_of(&self, tp: usize) -> Arc<[u8]> {
        // SAFETY: the caller's promise.
        let (locals, words) = unsafe { self.of_library(tp) };
        let mut copy = Vec::with_capacity(locals.len() + self.shape.kept.len() * WORD);
        copy.extend_from_slice(locals);
        words.for_each(|word| copy.extend_from_slice(&word));
        copy.into()
    }

    /// Returns `true` if the block has what such a copy has.
    ///
    /// # Safety
    /// As [`Self::library_of`].
    unsafe fn has_library(&self, tp: usize, library: &[u8]) -> bool {
        // SAFETY: the caller's promise.
        let (locals, words) = unsafe { self.of_library(tp) };
        let (theirs, their_words) = library.split_at(locals.len());
        locals == theirs && words.eq(their_words.as_chunks::<WORD>().0.iter().copied())
    }

    /// Returns the library's thread-locals in block `tp`, and its fields.
    ///
    /// # Safety
    /// The block is complete, and no thread writes it while the caller has these.
    unsafe fn of_library(&self, tp: usize) -> (&[u8], impl Iterator<Item = [u8; WORD]>) {
        let (offset, len) = self.modules.library;
        let bytes = at::<u8>(tp.wrapping_add_signed(offset));
        // SAFETY: the library's thread-locals are there in every block.
        let locals = unsafe { std::slice::from_raw_parts(bytes, len) };
        let descriptor = layout::descriptor(tp, &self.shape.sizes);
        let word = move |field: &usize| {
            // SAFETY: a field of the descriptor.
            unsafe { peek::<usize>(descriptor + field) }.to_ne_bytes()
        };
        (locals, self.shape.kept.iter().map(word))
    }

    /// Puts such a copy into block `tp`.
    ///
    /// # Safety
    /// The block has its thread-locals, and the caller alone uses it. No other block has this copy.
    unsafe fn give_library(&self, tp: usize, library: &[u8]) {
        let (offset, len) = self.modules.library;
        let (locals, words) = library.split_at(len);
        // SAFETY: the library's thread-locals are there in every block, and they are this long.
        unsafe { ptr::copy_nonoverlapping(locals.as_ptr(), at(tp.wrapping_add_signed(offset)), len) };
        let descriptor = layout::descriptor(tp, &self.shape.sizes);
        for (field, word) in self.shape.kept.iter().zip(words.as_chunks().0) {
            let word = usize::from_ne_bytes(*word);
            // SAFETY: a field of the descriptor.
            unsafe { poke(descriptor + field, word) };
        }
    }

    /// Enters the block: the first thing a thread does on its register, before any code that is not this
    /// crate's.
    ///
    /// # Safety
    /// The thread register is that of a block that was just made or renewed.
    #[inline]
    pub(crate) unsafe fn enter(&self) {
        // SAFETY: writes three pointers of the calling thread.
        unsafe { (self.functions.init_ctype)() };
    }

    /// Leaves the block: the last thing a thread does on its register. Runs the destructors of thread-locals
    /// and of pthread keys, and takes back what the C library would let the next thread see. Nothing may
    /// allocate on this register afterwards.
    ///
    /// # Safety
    /// The thread register is that of a block. Its thread has nothing left to run, and nothing borrowed from
    /// a thread-local.
    #[inline(always)]
    pub(crate) unsafe fn exit(&self, _aside: &Aside) {
        let descriptor = own_descriptor();
        // SAFETY: they are registered to run at the end of this thread, which is now.
        unsafe { (self.functions.run_destructors)() };
        // SAFETY: the descriptor is the calling thread's own.
        if unsafe { self.shape.keys.any(descriptor) } {
            // SAFETY: the descriptor is the calling thread's own.
            unsafe { self.end_values(descriptor) };
        }
        // The next thread must not read through a locale that this one's owner may free.
        // SAFETY: changes the calling thread's locale, to one that always exists.
        unsafe { libc::uselocale(LC_GLOBAL_LOCALE) };
        // The next thread may detach itself, too.
        // SAFETY: the descriptor is the calling thread's own.
        unsafe { self.clear_detached(descriptor) };
        // The next thread was not asked to end.
        // SAFETY: a field of the calling thread's own descriptor.
        unsafe { poke(descriptor + self.shape.cancelling, 0_u32) };
        let robust = descriptor + self.shape.robust;
        // SAFETY: fields of the calling thread's own descriptor.
        if !unsafe { robust::is_empty(robust) } {
            // SAFETY: a field of the calling thread's own descriptor.
            let tid = unsafe { peek(descriptor + self.shape.tid) };
            // SAFETY: fields of the calling thread's own descriptor.
            unsafe { robust::give_up(robust, tid) };
        }
        let resolver = at::<ResolverState>(descriptor + self.shape.resolver);
        // SAFETY: a field of the calling thread's own descriptor.
        if unsafe { (*resolver).options } != 0 {
            // SAFETY: the state is the calling thread's, which looks up no name after this.
            unsafe { self.reset_resolver(resolver) };
        }
        let register = layout::register(descriptor, &self.shape.sizes);
        for error in self.shape.errors {
            // SAFETY: a thread-local of the library in this block.
            unsafe { poke(register.wrapping_add_signed(error), 0_u32) };
        }
        // SAFETY: a thread-local of the library in this block.
        if unsafe { peek::<usize>(register.wrapping_add_signed(self.shape.dlerror)) } != 0 {
            // A failed `dlopen` may have left an error. The first call returns it, and the next frees it.
            // SAFETY: takes nothing. Returns null, or a text that stays until the next call.
            while !unsafe { libc::dlerror() }.is_null() {}
        }
    }

    /// Ends the values of pthread keys. A destructor of one may use a thread-local that has a destructor,
    /// too. That may set a value again.
    ///
    /// # Safety
    /// `descriptor` is the calling thread's, which is about to end.
    #[cold]
    unsafe fn end_values(&self, descriptor: usize) {
        let keys = &self.shape.keys;
        for _ in 0..keys::ROUNDS {
            // SAFETY: the caller's promise.
            unsafe { keys.run_destructors(descriptor) };
            // SAFETY: this is the end of the thread.
            unsafe { (self.functions.run_destructors)() };
            // SAFETY: the caller's promise.
            if !unsafe { keys.any(descriptor) } {
                return;
            }
        }
        // The next thread must not find them.
        // SAFETY: the caller's promise.
        unsafe { keys.drop_values(descriptor) };
    }

    /// Closes the state of name lookups, and resets it.
    ///
    /// # Safety
    /// The state is the calling thread's, which looks up no name after this.
    #[cold]
    unsafe fn reset_resolver(&self, state: *mut ResolverState) {
        // If it cannot be closed, the state stays with the block, as it would with a thread.
        if let Some(close) = self.functions.close_resolver {
            // SAFETY: it has been initialised.
            unsafe { close(state) };
            // SAFETY: it is as long as the public interface says. A thread starts with zeros there.
            unsafe { ptr::write_bytes(state.cast::<u8>(), 0, RESOLVER_STATE_SIZE) };
        }
    }

    /// Ends block `tp`. Its memory is the caller's again.
    ///
    /// # Safety
    /// As [`renew`](Self::renew), or no thread ever entered the block.
    pub(crate) unsafe fn destroy(&self, tp: usize) {
        // SAFETY: no thread runs on it.
        unsafe { self.shape.keys.free_blocks(layout::descriptor(tp, &self.shape.sizes)) };
        // SAFETY: no thread runs on it. The block itself is not the loader's, and so not what the library has
        // in it.
        unsafe { (self.functions.deallocate)(at(tp), false) };
        // SAFETY: `create` wrote the note.
        let tid = unsafe { (*self.note(tp)).tid };
        // It is the only thread-local that each block has its own value of. `fill` writes it again.
        // SAFETY: a thread-local of the library in the block.
        unsafe { poke(tp.wrapping_add_signed(self.shape.resolver_pointer), 0_usize) };
        // SAFETY: the caller's promise.
        let is_alike = |last: &[u8]| unsafe { self.has_library(tp, last) };
        // SAFETY: the caller's promise.
        let copy = || unsafe { self.library_of(tp) };
        self.estates.leave_library(tid, is_alike, copy);
    }
}

/// Returns a pointer to something in a block.
#[inline]
fn at<T>(address: usize) -> *mut T {
    ptr::with_exposed_provenance_mut(address)
}
