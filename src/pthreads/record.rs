//! What is known of a green thread that `pthread_create` has started, and its `pthread_t`.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::pthread_t;

use crate::park::thread::ThreadRef;
use crate::sync::Mutex;
use crate::thread::handle::JoinHandle;

/// What the thread's function returns.
pub(super) struct Value(pub(super) *mut c_void);

// SAFETY: the C library passes it from one thread to another, too.
unsafe impl Send for Value {}

/// What a thread has passed to `pthread_exit`, if it has called that. Used by the thread alone.
#[derive(Default)]
pub(super) struct Exit {
    called: AtomicBool,
    value: AtomicPtr<c_void>,
}

impl Exit {
    pub(super) fn set(&self, value: *mut c_void) {
        // Relaxed, here and below: one thread's.
        self.value.store(value, Ordering::Relaxed);
        self.called.store(true, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Option<*mut c_void> {
        self.called.load(Ordering::Relaxed).then(|| self.value.load(Ordering::Relaxed))
    }
}

/// The bytes of a name, with the zero behind it.
pub(super) const NAME: usize = 16;

/// A green thread that `pthread_create` has started.
///
/// It is shared by the `pthread_t`, until that is joined or detached, and by the thread.
pub(super) struct Record {
    /// The right to join. Its creator holds the lock until it is there. Taken by the thread that joins, or
    /// detaches.
    pub(super) handle: Mutex<Option<JoinHandle<Value>>>,
    /// What the thread has passed to `pthread_exit`.
    pub(super) exit: Exit,
    /// The name as C has it; the thread's own is another's concern.
    pub(super) name: Mutex<[u8; NAME]>,
}

/// The bit of a `pthread_t` that says that it is a record's.
const GREEN: usize = 1;

impl Record {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { handle: Mutex::new(None), exit: Exit::default(), name: Mutex::new([0; NAME]) })
    }

    /// Returns its `pthread_t`.
    pub(super) fn id(&self) -> pthread_t {
        (ptr::from_ref(self).expose_provenance() | GREEN) as pthread_t
    }

    /// Returns the record of a `pthread_t`, or `None` if that is the C library's.
    ///
    /// # Safety
    /// The thread has been neither joined nor detached, or it has not ended.
    #[inline]
    pub(super) unsafe fn of<'a>(id: pthread_t) -> Option<&'a Self> {
        let address = id as usize;
        if address & GREEN == 0 {
            return None;
        }
        let record: *const Self = ptr::with_exposed_provenance(address & !GREEN);
        // SAFETY: made by `id`. The `pthread_t` or the thread, which is there, has a share.
        Some(unsafe { &*record })
    }

    /// Gives up the share that its `pthread_t` has, which has been joined or detached.
    ///
    /// # Safety
    /// Called once, if its creator has left the share to the `pthread_t`. The caller does not use the record
    /// any more.
    pub(super) unsafe fn give_up_id(&self) {
        // SAFETY: the caller's promise.
        drop(unsafe { Arc::from_raw(self) });
    }

    /// Returns `true` if it is the running thread's.
    pub(super) fn is_own(&self) -> bool {
        ptr::eq(OWN.get(), self)
    }

    /// Runs `look` with the thread, unless it has ended, or is being joined by another thread.
    pub(super) fn with_thread<R>(&self, look: impl FnOnce(ThreadRef) -> R) -> Option<R> {
        if self.is_own() {
            return crate::park::current::try_current().map(look);
        }
        // The handle's reference keeps the thread's core.
        let handle = self.handle.lock();
        let thread = handle.as_ref()?.thread().core();
        (!thread.is_done() && !thread.is_lost()).then(|| look(thread))
    }

    /// Sets the name, of at most 15 bytes.
    pub(super) fn set_name(&self, name: &CStr) {
        let mut bytes = [0; NAME];
        let name_bytes = name.to_bytes();
        bytes[..name_bytes.len()].copy_from_slice(name_bytes);
        *self.name.lock() = bytes;
        if !name_bytes.is_empty() {
            let text = name.to_string_lossy().into_owned().into_boxed_str();
            self.with_thread(|thread| thread.give_name(text));
        }
    }
}

thread_local! {
    /// The record of the running thread, if it has one. It has no destructor, so that any code may read it.
    static OWN: Cell<*const Record> = const { Cell::new(ptr::null()) };
    static KEEP: Keep = const { Keep(Cell::new(None)) };
}

/// The thread's share of its record.
struct Keep(Cell<Option<Arc<Record>>>);

impl Drop for Keep {
    fn drop(&mut self) {
        OWN.set(ptr::null());
    }
}

/// Makes `record` the running thread's, until its thread-locals have been destroyed. This is the first of
/// those that have destructors, and so the last that goes.
pub(super) fn begin(record: Arc<Record>) {
    OWN.set(Arc::as_ptr(&record));
    KEEP.with(|keep| keep.0.set(Some(record)));
}

/// Runs `look` with the record of the running thread, if it was started here.
#[inline]
pub(super) fn with_own<R>(look: impl FnOnce(&Record) -> R) -> Option<R> {
    // SAFETY: null, or the record that the thread keeps.
    unsafe { OWN.get().as_ref() }.map(look)
}
