//! What happens at locks that somebody has to wait for: counted where it happens, on slow paths only, while somebody asks for it.
//!
//! Cost while nobody asks: one relaxed load of each lock that is not free. While somebody does, two clock readings and one queue lock.

use std::time::{Duration, Instant};

use super::by_address::ByAddress;
use super::reason::WaitReason;
use super::wait_queue::{Invalid, Woken};
use crate::shim::global;
use crate::time;

/// Of std in models too: it does not change in one.
static ON: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

global! {
    static TABLE: ByAddress<Counts> = ByAddress::new();
}

/// What has been counted of one address.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) kind: Option<WaitReason>,
    pub(crate) contended: u64,
    pub(crate) spun: u64,
    pub(crate) slept: u64,
    pub(crate) handed_over: u64,
    pub(crate) gave_up: u64,
    pub(crate) waited: Duration,
    pub(crate) longest: Duration,
}

/// Counting begins, or ends. What has been counted stays.
pub(crate) fn switch(on: bool) {
    // Relaxed: a switch, it orders nothing.
    ON.store(on, std::sync::atomic::Ordering::Relaxed);
}

#[inline]
pub(crate) fn is_on() -> bool {
    ON.load(std::sync::atomic::Ordering::Relaxed)
}

/// Of all addresses that anything is known of.
pub(crate) fn all() -> Vec<(usize, Counts)> {
    TABLE.all()
}

pub(crate) fn clear() {
    TABLE.clear();
}

/// # Safety
/// In the child of a fork, by its only thread.
pub(super) unsafe fn forget_all() {
    // SAFETY: the caller's promise.
    unsafe { TABLE.forget_all() };
}

/// One thread's wait for one lock, from finding it taken to having it, or giving up. Counted when it is dropped.
#[derive(Debug)]
pub(crate) struct Contention(Option<Wait>);

#[derive(Debug)]
struct Wait {
    key: usize,
    kind: WaitReason,
    since: Instant,
    slept: u64,
    handed_over: bool,
    gave_up: bool,
}

impl Contention {
    /// The lock at `key` is taken.
    #[inline]
    pub(crate) fn begin(key: usize, kind: WaitReason) -> Self {
        Self(if is_on() { Some(Wait::begin(key, kind)) } else { None })
    }

    /// Runs `wait`, which queues the thread for the lock.
    #[inline]
    pub(crate) fn during(&mut self, wait: impl FnOnce() -> Result<Woken, Invalid>) -> Result<Woken, Invalid> {
        let outcome = wait();
        if let Some(wait) = &mut self.0 {
            wait.slept += u64::from(outcome.is_ok());
            wait.gave_up = matches!(outcome, Ok(Woken::Expired { .. } | Woken::Interrupted { .. }));
        }
        outcome
    }

    /// The last owner has passed the lock on.
    #[inline]
    pub(crate) fn handed_over(&mut self) {
        if let Some(wait) = &mut self.0 {
            wait.handed_over = true;
        }
    }
}

impl Drop for Contention {
    #[inline]
    fn drop(&mut self) {
        if let Some(wait) = &self.0 {
            wait.end();
        }
    }
}

impl Wait {
    #[cold]
    fn begin(key: usize, kind: WaitReason) -> Self {
        Self { key, kind, since: time::now(), slept: 0, handed_over: false, gave_up: false }
    }

    #[cold]
    fn end(&self) {
        let waited = time::now() - self.since;
        TABLE.change(self.key, |counts| {
            counts.kind = Some(self.kind);
            counts.contended += 1;
            counts.spun += u64::from(self.slept == 0 && !self.gave_up);
            counts.slept += self.slept;
            counts.handed_over += u64::from(self.handed_over);
            counts.gave_up += u64::from(self.gave_up);
            counts.waited += waited;
            counts.longest = counts.longest.max(waited);
        });
    }
}
