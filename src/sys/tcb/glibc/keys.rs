//! Values of pthread keys at the end of a thread, as POSIX has it: rounds of destructors until no value is
//! left.
//!
//! glibc does this in a function that it does not export. So it is done again here, from the tables that
//! glibc exports for debuggers. `struct pthread` has an array of blocks of 32 values. The first block lies in
//! the structure itself. Others are allocated when first needed, and stay until the thread's block is
//! destroyed.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::common::{peek, poke};
use super::super::unfit::Unfit;
use super::symbols::{field, number, symbol};

/// `PTHREAD_DESTRUCTOR_ITERATIONS`.
pub(super) const ROUNDS: usize = 4;

/// Where keys and values are.
#[derive(Debug)]
pub(super) struct Keys {
    /// `__pthread_keys`: generation and destructor of each key.
    table: usize,
    table_entry: usize,
    table_generation: usize,
    table_destructor: usize,
    /// In `struct pthread`: addresses of the blocks of values.
    pub(super) blocks: usize,
    pub(super) end_of_blocks: usize,
    /// The first block, in `struct pthread` too.
    pub(super) first_block: usize,
    /// Values in a block, and a value's size, generation and data.
    per_block: usize,
    entry: usize,
    generation: usize,
    data: usize,
    /// In `struct pthread`, a byte: a value was set at some time. Found by calibration.
    pub(super) used: usize,
}

impl Keys {
    /// Finds everything but `used`.
    pub(super) fn ask() -> Result<Self, Unfit> {
        let blocks = field(c"_thread_db_pthread_specific")?;
        let entry = number(c"_thread_db_sizeof_pthread_key_data")?;
        let block = number(c"_thread_db_sizeof_pthread_key_data_level2")?;
        let table_entry = number(c"_thread_db_sizeof_pthread_key_struct")?;
        if entry < 16 || table_entry < 16 || blocks.size < 8 {
            return Err(Unfit::Unexpected("the values of pthread keys"));
        }
        Ok(Self {
            table: symbol(c"__pthread_keys")?.as_ptr().expose_provenance(),
            table_entry,
            table_generation: field(c"_thread_db_pthread_key_struct_seq")?.offset,
            table_destructor: field(c"_thread_db_pthread_key_struct_destr")?.offset,
            blocks: blocks.offset,
            end_of_blocks: blocks.offset + blocks.size,
            first_block: blocks.offset.wrapping_sub(block),
            per_block: block / entry,
            entry,
            generation: field(c"_thread_db_pthread_key_data_seq")?.offset,
            data: field(c"_thread_db_pthread_key_data_data")?.offset,
            used: 0,
        })
    }

    /// Returns `true` if the thread of `descriptor` has set a value since this last returned `false`.
    ///
    /// # Safety
    /// `descriptor` is the calling thread's, or of a block that no thread runs on.
    #[inline]
    pub(super) unsafe fn any(&self, descriptor: usize) -> bool {
        // SAFETY: a byte of the descriptor.
        unsafe { peek::<u8>(descriptor + self.used) != 0 }
    }

    /// Runs the destructors of the calling thread's values, and leaves it without values.
    ///
    /// # Safety
    /// `descriptor` is the calling thread's, which is about to end.
    pub(super) unsafe fn run_destructors(&self, descriptor: usize) {
        for _ in 0..ROUNDS {
            // SAFETY: a byte of the descriptor. A destructor that sets a value sets it again.
            unsafe { poke::<u8>(descriptor + self.used, 0) };
            // SAFETY: the caller's promise.
            let taken = unsafe { self.take_values(descriptor) };
            for (key, generation, value) in taken {
                // SAFETY: `key` is the index of a value that was set, so it is of a key that was made.
                if let Some(destructor) = unsafe { self.destructor(key, generation) } {
                    // SAFETY: this is what the destructor was registered for, once for each value.
                    unsafe { destructor(value) };
                }
            }
            // SAFETY: a byte of the descriptor.
            if !unsafe { self.any(descriptor) } {
                return;
            }
        }
        // POSIX: if a thread sets values forever, they are dropped.
        // SAFETY: the caller's promise.
        unsafe { self.drop_values(descriptor) };
    }

    /// Leaves the calling thread without values.
    ///
    /// # Safety
    /// As [`Self::run_destructors`].
    pub(super) unsafe fn drop_values(&self, descriptor: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.take_values(descriptor) }.for_each(drop);
        // SAFETY: a byte of the descriptor.
        unsafe { poke::<u8>(descriptor + self.used, 0) };
    }

    /// Returns the values that are set, one at a time. Each is unset when it is returned.
    ///
    /// # Safety
    /// As [`Self::run_destructors`].
    unsafe fn take_values(&self, descriptor: usize) -> impl Iterator<Item = (usize, usize, *mut c_void)> {
        (self.blocks..self.end_of_blocks).step_by(8).enumerate().flat_map(move |(index, at)| {
            // SAFETY: an element of the array in the descriptor.
            let block: usize = unsafe { peek(descriptor + at) };
            (0..if block == 0 { 0 } else { self.per_block }).filter_map(move |inner| {
                let entry = block + inner * self.entry;
                // SAFETY: an element of the block of values, which lives as long as the descriptor.
                let value: usize = unsafe { peek(entry + self.data) };
                if value == 0 {
                    return None;
                }
                // SAFETY: an element of the block of values.
                unsafe { poke(entry + self.data, 0_usize) };
                // SAFETY: an element of the block of values.
                let generation = unsafe { peek(entry + self.generation) };
                let value = std::ptr::with_exposed_provenance_mut(value);
                Some((index * self.per_block + inner, generation, value))
            })
        })
    }

    /// Returns the destructor of a key, unless the key has been deleted since the value was set.
    ///
    /// # Safety
    /// `key` is in range.
    unsafe fn destructor(&self, key: usize, generation: usize) -> Option<unsafe extern "C" fn(*mut c_void)> {
        let entry = self.table + key * self.table_entry;
        let at = std::ptr::with_exposed_provenance_mut(entry + self.table_generation);
        // SAFETY: an element of the library's static table, which it changes by compare-and-swap.
        let now = unsafe { AtomicUsize::from_ptr(at) };
        // Acquire: the thread that made this generation of the key has written its destructor, as far as
        // glibc itself ensures that.
        if now.load(Ordering::Acquire) != generation {
            return None;
        }
        // SAFETY: an element of the library's static table; null for a key without a destructor.
        unsafe { peek(entry + self.table_destructor) }
    }

    /// Gives back the blocks of values that were allocated.
    ///
    /// # Safety
    /// No thread runs on the block of `descriptor`, or will.
    pub(super) unsafe fn free_blocks(&self, descriptor: usize) {
        for at in (self.blocks..self.end_of_blocks).step_by(8).skip(1) {
            // SAFETY: an element of the array in the descriptor.
            let block = unsafe { peek(descriptor + at) };
            // SAFETY: null, or what the library got from `calloc`.
            unsafe { libc::free(block) };
            // SAFETY: an element of the array in the descriptor.
            unsafe { poke(descriptor + at, 0_usize) };
        }
    }
}
