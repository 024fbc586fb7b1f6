//! The shim over std: re-exports and zero-cost wrappers.

pub(crate) use std::sync::atomic;

/// `UnsafeCell` with loom's access protocol: a closure per access, so that loom can see conflicting ones.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Cells of an LWP's run queue.
pub(crate) const LOCAL_QUEUE_CAPACITY: u32 = 256;

/// Tells the processor (or the model) that this is a spin loop.
#[inline(always)]
pub(crate) fn spin_hint() {
    std::hint::spin_loop();
}

/// `const fn` on std; a plain `fn` under loom, whose atomics cannot be made in constants.
macro_rules! const_new {
    ($(#[$meta:meta])* $vis:vis const fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        $(#[$meta])* $vis const fn $name($($arg: $ty),*) -> $ret $body
    };
}
pub(crate) use const_new;
