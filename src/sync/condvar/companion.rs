//! The one word of a condition variable: with which mutex its waiters wait, and of what kind they are.

use std::ptr;

use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::const_new;
use crate::sync::mutex::RawMutex;

/// The mutex of those who are queued, and in the lowest bit whether a kernel thread is or was among them; null if nobody is queued.
/// Changed with the bucket lock held.
#[derive(Debug)]
pub(super) struct Companion(AtomicPtr<RawMutex>);

/// What a [`Companion`] was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen(*mut RawMutex);

const _: () = assert!(align_of::<RawMutex>() > 1, "the lowest bit of its address says something else");

impl Companion {
    const_new! {
        pub(super) const fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    #[inline]
    pub(super) fn look(&self) -> Seen {
        // Relaxed: the bucket lock orders its changes; who looks without it, see the proof in `condvar.rs`.
        Seen(self.0.load(Ordering::Relaxed))
    }

    /// One more waits. `false`: the others do with another mutex.
    #[inline]
    pub(super) fn join(&self, mutex: &RawMutex, kernel: bool) -> bool {
        let (seen, ours) = (self.look(), ptr::from_ref(mutex).cast_mut());
        let same = seen.is_nobody() || seen.mutex() == ours;
        if same && (seen.is_nobody() || kernel) {
            // Relaxed: as in `look`.
            self.0.store(ours.map_addr(|address| address | usize::from(kernel)), Ordering::Relaxed);
        }
        same
    }

    #[inline]
    pub(super) fn clear(&self) {
        // Relaxed: as in `look`.
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

impl Seen {
    #[inline]
    pub(super) fn is_nobody(self) -> bool {
        self.0.is_null()
    }

    #[inline]
    pub(super) fn mutex(self) -> *mut RawMutex {
        self.0.map_addr(|address| address & !1)
    }

    #[inline]
    pub(super) fn has_kernel_threads(self) -> bool {
        self.0.addr() & 1 != 0
    }
}
