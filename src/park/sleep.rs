//! One sleep, as the parties see it that may end it.
//!
//! A backend, a timer or an interrupt knows no more of a sleep than this. So a part of a thread can hold a
//! sleep without knowing what a thread is.

use crate::shim::atomic::AtomicU32;

/// One sleep of one thread. It lives on the sleeper's stack, from before the sleeper is visible as asleep
/// until `Backend::block` has returned.
pub(crate) trait Sleep {
    /// Returns the word that holds the state of the sleep. A kernel thread waits on it as a futex.
    fn word(&self) -> &AtomicU32;

    /// Returns `true` if the word still says asleep. Only a look: what the winner wrote is visible to a
    /// sleeper that has then read how its sleep ended.
    fn is_asleep(&self) -> bool;

    /// Returns `true` if it may pay to watch the word for a while before the futex wait. Kernel threads
    /// only.
    fn may_spin(&self) -> bool {
        true
    }

    /// Commits to the futex wait: from now on the winner must wake. Returns the value to pass to the futex,
    /// or `None` if the sleep is already over. Kernel threads only; called by the sleeper, just before the
    /// futex wait.
    fn commit_kernel(&self) -> Option<u32>;

    /// Ends the sleep because its deadline has passed. If it returns `true`, this call won, and its caller
    /// makes the thread runnable. (A kernel thread that expired its own sleep just returns.) A grant that
    /// came first wins. For queue waits this takes the queue lock, so it must be called without one.
    fn expire(&self) -> bool;

    /// Ends the sleep because its thread has been interrupted. If it returns `true`, this call won, and its
    /// caller wakes the thread. If the caller is the thread itself, it does not block. Otherwise the same as
    /// [`expire`](Self::expire), with one difference: for a kernel thread, another thread may call this. So
    /// the thread may be watching the word, or committing.
    fn interrupt(&self) -> bool;
}
