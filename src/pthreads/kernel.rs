//! What is known of the kernel threads of finished programs: the main thread, and those that are started
//! here. They may have to wake from a wait of this crate, to end; and they are told of signals (`kill.rs`).

use std::mem;
use std::sync::Arc;

use libc::pthread_t;

use crate::sys::kthread::Mask;
use crate::sys::next;
use crate::sys::once::Mutex;

/// What is known of each, by its number, until it ends.
pub(super) struct Kernels<T>(Mutex<All<T>>);

type All<T> = Vec<(pthread_t, Arc<T>)>;

/// Returns where a thread is, or where it would be.
fn place<T>(all: &All<T>, id: pthread_t) -> Result<usize, usize> {
    all.binary_search_by_key(&id, |it| it.0)
}

/// Returns the number of the running thread.
fn own_id() -> pthread_t {
    // SAFETY: no arguments.
    unsafe { next::pthread_self() }
}

impl<T> Kernels<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Runs `f` with all, while no handler can run here: it may send a signal. A thread that was stopped may
    /// have the allocator's locks, so `f` neither takes memory nor frees any. A child of a fork that finds
    /// another thread changing them forgets them.
    fn with_all<R>(&self, f: impl FnOnce(&mut All<T>) -> R) -> R {
        let _quiet = Mask::block_asynchronous();
        f(&mut self.0.lock(|lost| mem::forget(mem::take(lost))))
    }

    /// Adds the running thread. It stays until it calls [`end`](Self::end).
    pub(super) fn begin(&self, own: &Arc<T>) {
        let id = own_id();
        let mut room = Vec::new();
        loop {
            let begun = self.with_all(|all| {
                if all.len() == all.capacity() {
                    if room.capacity() <= all.len() {
                        return Err(2 * all.len() + 8);
                    }
                    room.append(all);
                    mem::swap(all, &mut room);
                }
                Ok(match place(all, id) {
                    // It was a parent's: it has not ended here.
                    Ok(at) => Some(mem::replace(&mut all[at].1, Arc::clone(own))),
                    Err(at) => {
                        all.insert(at, (id, Arc::clone(own)));
                        None
                    }
                })
            });
            match begun {
                Ok(before) => return drop(before),
                Err(more) => room = Vec::with_capacity(more),
            }
        }
    }

    /// Takes the running thread out.
    pub(super) fn end(&self) -> Option<Arc<T>> {
        let id = own_id();
        self.with_all(|all| place(all, id).ok().map(|at| all.remove(at).1))
    }

    /// Returns a thread, if it is one of them.
    pub(super) fn find(&self, id: pthread_t) -> Option<Arc<T>> {
        self.with_all(|all| place(all, id).ok().map(|at| Arc::clone(&all[at].1)))
    }

    /// Returns the running thread, if it is one of them.
    pub(super) fn own(&self) -> Option<Arc<T>> {
        self.find(own_id())
    }
}
