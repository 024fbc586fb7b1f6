//! A thread's name, and the lock under which looks from outside read it.

use std::mem;

use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::{UnsafeCell, global};

global! {
    /// Held while the name of a core is changed, and while it is read without a reference.
    static NAMES: QueueLock<()> = QueueLock::new(Rank::Pool, ());
}

/// Frees the lock from a holder that is not there.
///
/// # Safety
/// In the child of a fork, by its only thread.
pub(in crate::park) unsafe fn forget_holder() {
    // SAFETY: the caller's promise.
    unsafe { NAMES.mend(|(), _| ()) };
}

/// The name that a thread was given at its start. Changed with the lock held. Dropped by the core's next
/// life, because the last release may run where nothing may be freed (I4).
pub(in crate::park) struct Name(UnsafeCell<Option<Box<str>>>);

impl Name {
    pub(in crate::park) fn new() -> Self {
        Self(UnsafeCell::new(None))
    }

    /// Returns the name.
    pub(in crate::park) fn get(&self) -> Option<&str> {
        // SAFETY: `begin` wrote it before this reference could exist. A caller without a reference holds the
        // lock that `begin` takes.
        self.0.with(|name| unsafe { &*name }).as_deref()
    }

    /// Begins a life with this name.
    ///
    /// # Safety
    /// The caller has the core to itself.
    #[inline]
    pub(in crate::park) unsafe fn begin(&self, name: Option<Box<str>>) {
        if name.is_some() || self.get().is_some() {
            // SAFETY: the caller's promise.
            unsafe { self.change(name) };
        }
    }

    /// # Safety
    /// The caller has the core to itself.
    #[cold]
    unsafe fn change(&self, name: Option<Box<str>>) {
        // SAFETY: the caller has the core to itself, and the lock keeps out looks from outside.
        let swap = |at: *mut Option<Box<str>>| mem::replace(unsafe { &mut *at }, name);
        let last = NAMES.with(|()| self.0.with_mut(swap));
        drop(last);
    }

    /// Returns the name of a thread that may end meanwhile. Takes the lock a second time if the text needs
    /// more room, because nothing may be allocated with the lock held.
    pub(in crate::park) fn look(&self) -> Option<String> {
        let mut text = String::new();
        loop {
            let needed = NAMES.with(|()| {
                // Sound: it changes only with the lock held.
                let name = self.get()?;
                if name.len() <= text.capacity() {
                    text.clear();
                    text.push_str(name);
                }
                Some(name.len())
            })?;
            if needed <= text.capacity() {
                return Some(text);
            }
            text.reserve(needed);
        }
    }
}
