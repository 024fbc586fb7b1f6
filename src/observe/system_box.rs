//! A box with memory from the system.
//!
//! A program's own allocator may use locks of this crate. So what is recorded about a lock while it is held
//! must not ask that allocator for memory: the allocator would wait for itself.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Like `Box`.
pub(super) struct SystemBox<T>(NonNull<T>);

// SAFETY: it owns what it points to, and nothing else.
unsafe impl<T: Send> Send for SystemBox<T> {}
// SAFETY: it owns what it points to, and nothing else.
unsafe impl<T: Sync> Sync for SystemBox<T> {}

impl<T> SystemBox<T> {
    const LAYOUT: Layout = Layout::new::<T>();

    pub(super) fn new(value: T) -> Self {
        const { assert!(size_of::<T>() > 0) };
        // SAFETY: the size is not zero.
        let memory = unsafe { System.alloc(Self::LAYOUT) }.cast::<T>();
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(Self::LAYOUT) };
        // SAFETY: allocated for this value.
        unsafe { memory.write(value) };
        Self(memory)
    }

    pub(super) fn into_inner(self) -> T {
        let memory = self.0;
        std::mem::forget(self);
        // SAFETY: written by `new`, and not read again.
        let value = unsafe { memory.read() };
        // SAFETY: allocated by `new`, with this layout.
        unsafe { System.dealloc(memory.as_ptr().cast(), Self::LAYOUT) };
        value
    }
}

impl<T> Drop for SystemBox<T> {
    fn drop(&mut self) {
        // SAFETY: `self` is the owner, and is not used again.
        drop(Self(self.0).into_inner());
    }
}

impl<T> Deref for SystemBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: written by `new`, and owned.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for SystemBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: written by `new`, and owned.
        unsafe { self.0.as_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn it_owns_what_is_in_it() {
        let shared = Arc::new(1);
        let mut boxed = SystemBox::new((Arc::clone(&shared), 2));
        boxed.1 += 1;
        let (one, three) = &*boxed;
        assert_eq!((**one, *three, Arc::strong_count(&shared)), (1, 3, 2));
        assert_eq!(SystemBox::new(Arc::clone(&shared)).into_inner(), shared);
        drop(boxed);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
