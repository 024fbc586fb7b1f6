//! A thread's name, and the locks under which looks from outside read it.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::{BUCKET_BITS, bucket_of, global};

/// How many locks there are. With one, all threads that start with a name met at its cache line.
const LOCKS: usize = if BUCKET_BITS < 4 { 1 } else { 16 };

global! {
    /// Held while the name of a core is changed, and while it is read without a reference: by the address of
    /// the name.
    static NAMES: [CachePadded<QueueLock<()>>; LOCKS] =
        [const { CachePadded::new(QueueLock::new(Rank::Pool, ())) }; LOCKS];
}

/// Frees the locks from holders that are not there.
///
/// # Safety
/// In the child of a fork, by its only thread.
pub(in crate::park) unsafe fn forget_holder() {
    for lock in NAMES.iter() {
        // SAFETY: the caller's promise.
        unsafe { lock.mend(|(), _| ()) };
    }
}

/// The name that a thread was given at its start, or gave itself if it had none. Changed with the lock held.
/// Dropped by the core's next life, because the last release may run where nothing may be freed (I4).
///
/// It is a boxed text in two words, the address first, as debuggers read it.
#[repr(C)]
pub(in crate::park) struct Name {
    /// Null: none. It is stored last.
    text: AtomicPtr<u8>,
    len: AtomicUsize,
}

impl Name {
    pub(in crate::park) fn new() -> Self {
        Self { text: AtomicPtr::new(ptr::null_mut()), len: AtomicUsize::new(0) }
    }

    fn lock(&self) -> &'static QueueLock<()> {
        &NAMES[bucket_of(ptr::from_ref(self).addr()) % LOCKS]
    }

    /// Returns the name. It stays as long as the thread has references, because one that is there is not
    /// changed.
    pub(in crate::park) fn get(&self) -> Option<&str> {
        // Acquire: the length and the text, of which a thread may have written both meanwhile.
        let text = NonNull::new(self.text.load(Ordering::Acquire))?;
        // Relaxed: written before the text.
        let bytes = NonNull::slice_from_raw_parts(text, self.len.load(Ordering::Relaxed));
        // SAFETY: `put` stored both, made of a boxed text. Only `begin` takes them out, and it has the core
        // to itself. A caller without a reference holds the lock that `begin` takes.
        let bytes = unsafe { bytes.as_ref() };
        // SAFETY: they are a text's.
        Some(unsafe { str::from_utf8_unchecked(bytes) })
    }

    /// Returns `true` if there is one. Any thread may ask.
    pub(super) fn is_given(&self) -> bool {
        // Relaxed: only the answer.
        !self.text.load(Ordering::Relaxed).is_null()
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

    /// Shares the name of another core, when the same thread goes on with this one. The other core has no
    /// further life in this process, so the text is freed once at most.
    pub(in crate::park) fn inherit(&self, from: &Self) {
        // Relaxed, all: there is no other thread.
        self.len.store(from.len.load(Ordering::Relaxed), Ordering::Relaxed);
        self.text.store(from.text.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// # Safety
    /// The caller has the core to itself.
    #[cold]
    unsafe fn change(&self, name: Option<Box<str>>) {
        let last = self.lock().with(|()| {
            let last = self.get().map(ptr::from_ref);
            match name {
                Some(name) => self.put(name),
                None => self.text.store(ptr::null_mut(), Ordering::Relaxed),
            }
            last
        });
        // SAFETY: made of a boxed text, and taken out. There are no references: the core is the caller's.
        drop(last.map(|last| unsafe { Box::from_raw(last.cast_mut()) }));
    }

    /// Gives the thread, to which the caller has a reference, a name if it has none.
    pub(in crate::park) fn give(&self, name: Box<str>) {
        let mut name = Some(name);
        self.lock().with(|()| {
            if self.get().is_none()
                && let Some(name) = name.take()
            {
                self.put(name);
            }
        });
    }

    /// Stores a name. The caller holds the lock.
    fn put(&self, name: Box<str>) {
        let len = name.len();
        // Relaxed: the text is stored next, for all that read both.
        self.len.store(len, Ordering::Relaxed);
        self.text.store(Box::into_raw(name).cast(), Ordering::Release);
    }

    /// Returns the name of a thread that may end meanwhile. Takes the lock a second time if the text needs
    /// more room, because nothing may be allocated with the lock held.
    pub(in crate::park) fn look(&self) -> Option<String> {
        let mut text = String::new();
        loop {
            let needed = self.lock().with(|()| {
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
