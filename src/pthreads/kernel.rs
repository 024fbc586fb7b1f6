//! The kernel threads of finished programs that may have to wake from a wait of this crate, to end.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use libc::pthread_t;

use crate::interpose::cancel::{self, Cancel};
use crate::sys::next;
use crate::sys::once::Mutex;
use crate::thread::current::{self, Thread};

/// A kernel thread that is this crate's, or the program's main thread.
pub(super) struct Kernel {
    pub(super) cancel: Cancel,
    pub(super) thread: Thread,
}

/// All of them, until they end.
static ALL: Mutex<BTreeMap<pthread_t, Arc<Kernel>>> = Mutex::new(BTreeMap::new());

/// Runs `f` with all. A child of a fork that finds another thread changing them forgets them.
fn with_all<R>(f: impl FnOnce(&mut BTreeMap<pthread_t, Arc<Kernel>>) -> R) -> R {
    f(&mut ALL.lock(|lost| mem::forget(mem::take(lost))))
}

/// Adds the running thread. It stays until it calls [`end`].
pub(super) fn begin() {
    let kernel = Arc::new(Kernel { cancel: Cancel::kernel(), thread: current::current() });
    kernel.cancel.begin();
    // SAFETY: no arguments.
    let id = unsafe { next::pthread_self() };
    // A thread of that number that has not ended here was a parent's.
    let before = with_all(|all| all.insert(id, kernel));
    drop(before);
}

/// Takes the running thread out.
pub(super) fn end() {
    cancel::end();
    // SAFETY: no arguments.
    let id = unsafe { next::pthread_self() };
    let own = with_all(|all| all.remove(&id));
    drop(own);
}

/// Returns a thread, if it is one of them.
pub(super) fn find(id: pthread_t) -> Option<Arc<Kernel>> {
    with_all(|all| all.get(&id).cloned())
}
