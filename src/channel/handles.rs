//! A channel and the counts of its handles.
//!
//! The last handle of a side disconnects it; the last of both frees the channel. With an `Arc`, each
//! handle would be counted twice: for its side, and for the memory. Here each side says by a swap that it
//! has gone, and the second to do so frees the channel.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::core::Channel;
use super::side::{Receives, Sends, Side};
use crate::fatal;
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Shared<T> {
    channel: CachePadded<Channel<T>>,
    /// Handles of each side, by [`Side::INDEX`].
    counts: [AtomicUsize; 2],
    /// `true` if one side has gone.
    half: AtomicBool,
}

/// Checks, in models, that all handles have gone, and that none is used later.
#[cfg(all(test, loom))]
impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: checked by loom: it reports a change that is not ordered before.
            self.counts.iter().for_each(|count| assert_eq!(unsafe { count.unsync_load() }, 0));
        }
    }
}

/// A counted reference to a channel.
pub(super) struct Handle<T, S: Side> {
    shared: NonNull<Shared<T>>,
    _side: PhantomData<(S, Shared<T>)>,
}

// SAFETY: a channel passes messages from thread to thread, and never shares one.
unsafe impl<T: Send, S: Side> Send for Handle<T, S> {}
// SAFETY: no message is shared.
unsafe impl<T: Send, S: Side> Sync for Handle<T, S> {}

/// Creates a handle of each side of a new channel.
pub(super) fn pair<T>(channel: Channel<T>) -> (Handle<T, Sends>, Handle<T, Receives>) {
    let shared = Box::new(Shared {
        channel: CachePadded::new(channel),
        counts: [AtomicUsize::from(1), AtomicUsize::from(1)],
        half: AtomicBool::from(false),
    });
    let shared = NonNull::from(Box::leak(shared));
    (Handle { shared, _side: PhantomData }, Handle { shared, _side: PhantomData })
}

impl<T, S: Side> Handle<T, S> {
    fn shared(&self) -> &Shared<T> {
        // SAFETY: it is freed when the last handles of both sides have gone.
        unsafe { self.shared.as_ref() }
    }

    /// Returns `true` if both are of one channel.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.shared == other.shared
    }

    /// Does what a drop does, but drops no message. If this is the last receiver, the last sender drops the
    /// messages, and there is one. For a thread that may hold no message: it may not be `Send`.
    pub(super) fn leave_messages(self) {
        ManuallyDrop::new(self).go(false);
    }

    /// Gives up the handle. If it is the last of its side, `drops` says if messages are dropped.
    fn go(&self, drops: bool) {
        let shared = self.shared();
        // AcqRel: all that was done through the handles of this side happens before the side is said to
        // have gone.
        if shared.counts[S::INDEX].fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        /// Frees the channel if the other side has gone, even if the destructor of a message panics.
        struct Free<T>(NonNull<Shared<T>>);

        impl<T> Drop for Free<T> {
            fn drop(&mut self) {
                // SAFETY: this side has not said that it has gone.
                // AcqRel: all that was done by the side that went first happens before the channel is freed.
                if unsafe { self.0.as_ref() }.half.swap(true, Ordering::AcqRel) {
                    // SAFETY: both sides have gone; leaked by `pair`.
                    drop(unsafe { Box::from_raw(self.0.as_ptr()) });
                }
            }
        }

        let _free = Free(self.shared);
        shared.channel.disconnect::<S>(drops);
    }
}

impl<T, S: Side> Deref for Handle<T, S> {
    type Target = Channel<T>;

    #[inline]
    fn deref(&self) -> &Channel<T> {
        &self.shared().channel
    }
}

impl<T, S: Side> Clone for Handle<T, S> {
    fn clone(&self) -> Self {
        // Relaxed: made from a handle that is counted already.
        let before = self.shared().counts[S::INDEX].fetch_add(1, Ordering::Relaxed);
        // Forgotten handles stay counted. Half of the numbers are left for other threads on the way to
        // this line.
        if before > usize::MAX / 2 {
            fatal::too_many_references();
        }
        Self { shared: self.shared, _side: PhantomData }
    }
}

impl<T, S: Side> Drop for Handle<T, S> {
    fn drop(&mut self) {
        self.go(true);
    }
}
