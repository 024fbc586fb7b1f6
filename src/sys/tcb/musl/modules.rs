//! The first values of thread-locals, by module.
//!
//! musl never unloads a module, so a table of them only grows. A block's vector tells how many modules with
//! thread-locals there are: `dlopen` gives every thread in the ring a new vector. If it has more than the
//! table, the table is made anew. Tables are leaked when replaced, because a reader may be in them.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::super::super::objects;
use super::super::Renewed;
use super::shape::{Shape, peek};

/// The thread-locals of one module.
#[derive(Clone, Copy, Debug, Default)]
struct Module {
    /// Where their first values are. The module has them as long as the process.
    image: usize,
    len: usize,
    /// How many zeros follow.
    zeros: usize,
}

/// The modules, by number. The first has number 1.
#[derive(Debug)]
pub(super) struct Modules(AtomicPtr<Vec<Module>>);

impl Modules {
    /// Looks at what is loaded. Takes a lock of the loader.
    pub(super) fn find() -> Self {
        Self(AtomicPtr::new(Box::into_raw(Box::new(look()))))
    }

    fn table(&self) -> &'static Vec<Module> {
        // Acquire: pairs with the release in `refresh`.
        // SAFETY: never null, and leaked.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    #[cold]
    fn refresh(&self) {
        // Release: pairs with the load in `table`.
        self.0.store(Box::into_raw(Box::new(look())), Ordering::Release);
    }

    /// Returns `true` if the vector of a block that has just been made lists these modules, each with its
    /// first values.
    ///
    /// # Safety
    /// The block is complete, and no thread uses it.
    pub(super) unsafe fn fit(&self, tp: usize, shape: &Shape) -> bool {
        // SAFETY: the caller's promise.
        let (count, vector) = unsafe { shape.vector(tp) };
        let table = self.table();
        count == table.len()
            && table.iter().zip(1..).all(|(module, number)| {
                // SAFETY: an element of the vector.
                let place: usize = unsafe { peek(vector + 8 * number) };
                // SAFETY: the module's thread-locals in this block.
                let there = unsafe { bytes(place, module.len + module.zeros) };
                // SAFETY: the module's image.
                let (first, zeros) = (unsafe { bytes(module.image, module.len) }, &there[module.len..]);
                there.starts_with(first) && zeros.iter().all(|&byte| byte == 0)
            })
    }

    /// Writes the first values of all thread-locals over those of block `tp`.
    ///
    /// # Safety
    /// The caller alone uses the block's thread-locals.
    pub(super) unsafe fn reset(&self, tp: usize, shape: &Shape) -> Renewed {
        // SAFETY: the caller's promise.
        let (count, vector) = unsafe { shape.vector(tp) };
        let mut renewed = Renewed::Reset;
        if count > self.table().len() {
            self.refresh();
            renewed = Renewed::Rebuilt;
        }
        for (module, number) in self.table().iter().zip(1..=count) {
            // SAFETY: an element of the vector.
            let place: usize = unsafe { peek(vector + 8 * number) };
            let place = std::ptr::with_exposed_provenance_mut::<u8>(place);
            let image = std::ptr::with_exposed_provenance(module.image);
            // SAFETY: the module's thread-locals in this block are this long.
            unsafe { std::ptr::copy_nonoverlapping(image, place, module.len) };
            // SAFETY: the module's thread-locals in this block are this long.
            unsafe { std::ptr::write_bytes(place.wrapping_add(module.len), 0, module.zeros) };
        }
        renewed
    }
}

/// Returns the modules with thread-locals, by number.
fn look() -> Vec<Module> {
    let mut found = Vec::new();
    objects::each(|object| {
        if let (Some((image, zeros)), number @ 1..) = (object.thread_locals(), object.module()) {
            found.resize(found.len().max(number), Module::default());
            found[number - 1] = Module { image: image.as_ptr().expose_provenance(), len: image.len(), zeros };
        }
    });
    found
}

/// # Safety
/// So many bytes are readable there, and no thread writes them.
unsafe fn bytes<'a>(at: usize, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at), len) }
}
