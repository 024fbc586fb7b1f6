//! std's atomics, for the unit tests: a thread can have its accesses recorded, by address.
//!
//! So a test counts which cache lines an operation touches, and which of them it writes. That does not depend
//! on the machine, and shows on two CPUs what grows with the number of LWPs (`mxn/sched/lines_tests.rs`).

use std::cell::Cell;
use std::fmt;
pub(crate) use std::sync::atomic::{Ordering, compiler_fence, fence};

use std::sync::atomic;

/// What a thread's accesses are recorded in.
#[derive(Default)]
pub(crate) struct Recorded {
    accesses: Cell<Vec<(usize, bool)>>,
}

thread_local! {
    /// Where the accesses of this thread are recorded; null: nowhere.
    static RECORDED: Cell<*const Recorded> = const { Cell::new(std::ptr::null()) };
}

/// Calls `f`, and returns the accesses to atomics that this thread made in it: the address, and whether it
/// wrote.
pub(crate) fn record(f: impl FnOnce()) -> Vec<(usize, bool)> {
    let recorded = Recorded::default();
    let before = RECORDED.replace(&raw const recorded);
    f();
    RECORDED.set(before);
    recorded.accesses.take()
}

#[inline]
fn note<T>(word: &T, writes: bool) {
    let recorded = RECORDED.get();
    // SAFETY: `record` has set it, and is on this thread's stack until it takes it back.
    let Some(recorded) = (unsafe { recorded.as_ref() }) else { return };
    let mut accesses = recorded.accesses.take();
    accesses.push((std::ptr::from_ref(word).addr(), writes));
    recorded.accesses.set(accesses);
}

/// Wraps compare-and-swaps.
macro_rules! exchange {
    ($T:ty: $($op:ident)*) => {
        $(#[inline]
        pub(crate) fn $op(&self, old: $T, new: $T, success: Ordering, failure: Ordering) -> Result<$T, $T> {
            note(self, true);
            self.0.$op(old, new, success, failure)
        })*
    };
}

/// Wraps what all of std's atomics have. `$T` is the value.
macro_rules! counted {
    ($name:ident $(<$param:ident>)?, $T:ty) => {
        #[repr(transparent)]
        pub(crate) struct $name $(<$param>)? (atomic::$name $(<$param>)?);

        impl $(<$param>)? fmt::Debug for $name $(<$param>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $(<$param>)? Default for $name $(<$param>)? {
            fn default() -> Self {
                Self(atomic::$name::default())
            }
        }

        impl $(<$param>)? From<$T> for $name $(<$param>)? {
            fn from(value: $T) -> Self {
                Self::new(value)
            }
        }

        /// For what the system is told of it.
        impl $(<$param>)? std::ops::Deref for $name $(<$param>)? {
            type Target = atomic::$name $(<$param>)?;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        #[allow(dead_code, reason = "each atomic has the same functions")]
        impl $(<$param>)? $name $(<$param>)? {
            pub(crate) const fn new(value: $T) -> Self {
                Self(atomic::$name::new(value))
            }

            #[inline]
            pub(crate) fn load(&self, order: Ordering) -> $T {
                note(self, false);
                self.0.load(order)
            }

            #[inline]
            pub(crate) fn store(&self, value: $T, order: Ordering) {
                note(self, true);
                self.0.store(value, order);
            }

            #[inline]
            pub(crate) fn swap(&self, value: $T, order: Ordering) -> $T {
                note(self, true);
                self.0.swap(value, order)
            }

            #[inline]
            pub(crate) fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                f: impl FnMut($T) -> Option<$T>,
            ) -> Result<$T, $T> {
                note(self, true);
                self.0.fetch_update(set, fetch, f)
            }

            exchange!($T: compare_exchange compare_exchange_weak);

            pub(crate) fn get_mut(&mut self) -> &mut $T {
                self.0.get_mut()
            }

            pub(crate) fn into_inner(self) -> $T {
                self.0.into_inner()
            }

            pub(crate) const fn as_ptr(&self) -> *mut $T {
                self.0.as_ptr()
            }

            /// # Safety
            /// As std's.
            pub(crate) const unsafe fn from_ptr<'a>(value: *mut $T) -> &'a Self {
                // SAFETY: the caller's contract; this type is transparent.
                unsafe { &*value.cast::<Self>() }
            }
        }
    };
}

/// Wraps what only some of std's atomics have.
macro_rules! arithmetic {
    ($name:ident, $T:ty: $($op:ident)*) => {
        #[allow(dead_code, reason = "each atomic has the same functions")]
        impl $name {
            $(#[inline]
            pub(crate) fn $op(&self, value: $T, order: Ordering) -> $T {
                note(self, true);
                self.0.$op(value, order)
            })*
        }
    };
}

macro_rules! integers {
    ($($name:ident: $T:ty,)*) => {
        $(counted!($name, $T);
        arithmetic!($name, $T: fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);)*
    };
}

integers! {
    AtomicU8: u8,
    AtomicU16: u16,
    AtomicU32: u32,
    AtomicI32: i32,
    AtomicU64: u64,
    AtomicI64: i64,
    AtomicUsize: usize,
    AtomicIsize: isize,
}
counted!(AtomicBool, bool);
arithmetic!(AtomicBool, bool: fetch_and fetch_or fetch_xor);
counted!(AtomicPtr<P>, *mut P);

/// The futex of the system, which wakes by the address of such a word.
pub(crate) mod futex {
    pub(crate) use crate::sys::futex::*;

    pub(crate) fn wake(word: *const super::AtomicU32, n: u32) -> usize {
        crate::sys::futex::wake(word.cast(), n)
    }

    pub(crate) fn wake_shared(word: *const super::AtomicU32, n: u32) -> usize {
        crate::sys::futex::wake_shared(word.cast(), n)
    }
}
