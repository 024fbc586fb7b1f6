//! The one word of a condition variable: the mutex that its waiters wait with, and the kind of the
//! waiters.

use std::ptr;

use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::sync::mutex::raw::RawMutex;

/// The mutex of the queued waiters; null if none are queued. The lowest bit is set if a kernel thread is
/// or was among them. Changed with the bucket lock held.
#[derive(Debug)]
pub(super) struct Companion(AtomicPtr<RawMutex>);

/// The value of a [`Companion`] at one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen(*mut RawMutex);

const _: () = assert!(align_of::<RawMutex>() > 1, "the lowest bit of its address says something else");

impl Companion {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(super) fn look(&self) -> Seen {
        // Relaxed: the bucket lock orders its changes. For a look without it, see the proof in
        // `condvar/protocol.rs`.
        Seen(self.0.load(Ordering::Relaxed))
    }

    /// Adds a waiter. Returns `false` if the others wait with another mutex.
    #[inline]
    pub(super) fn join(&self, mutex: &RawMutex, kernel: bool) -> bool {
        let (seen, ours) = (self.look(), ptr::from_ref(mutex).cast_mut());
        let same = seen.is_empty() || seen.mutex() == ours;
        if same && (seen.is_empty() || kernel) {
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
    pub(super) fn is_empty(self) -> bool {
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

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use crate::park::tests::watched;
    use crate::sync::{Condvar, Mutex};

    /// A waiter whose time is over has gone, and so may its mutex be.
    #[test]
    fn nothing_is_done_for_a_waiter_that_has_left() {
        let condvar = Condvar::new();
        for _ in 0..2 {
            let mutex = Mutex::new(());
            assert!(condvar.wait_for(&mut mutex.lock(), Duration::from_millis(1)).timed_out());
            let _guard = mutex.lock();
            assert_eq!(condvar.notify_all(), 0);
            // SAFETY: only a look.
            assert!(!unsafe { mutex.raw() }.has_waiters());
            // With each, there is another mutex.
            let other = Mutex::new(());
            assert!(condvar.wait_for(&mut other.lock(), Duration::from_millis(1)).timed_out());
        }
    }

    /// A broadcast that comes too late for the waiters it has seen leaves those that came since.
    #[test]
    fn a_broadcast_leaves_newcomers_alone() {
        let _watched = watched();
        let (condvar, first, second) = (Condvar::new(), Mutex::new(()), Mutex::new(()));
        let waits = |mutex: &Mutex<()>| condvar.wait(&mut mutex.lock());
        let look = || {
            loop {
                match condvar.protocol.waits_with.look() {
                    seen if seen.is_empty() => thread::yield_now(),
                    seen => return seen,
                }
            }
        };
        thread::scope(|s| {
            let waiter = s.spawn(|| waits(&first));
            let seen = look();
            assert!(condvar.notify_one());
            waiter.join().unwrap();
            s.spawn(|| waits(&second));
            look();
            assert_eq!(condvar.protocol.notify_herd(seen), 0);
            assert_eq!(condvar.notify_all(), 1);
        });
    }
}
