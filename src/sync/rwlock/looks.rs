//! How long a thread looks at a read-write lock that keeps it out, before it queues. The reasons are in
//! `raw.rs`.

use crate::park::current::current;
use crate::park::owner::OwnerHint;
use crate::park::spin::{FULL_LOOKS, GREEN_LOOKS, Spin};

/// One thread's looks, from one sleep to the next.
pub(super) struct Looks {
    here: OwnerHint,
    spin: Option<Spin>,
    yielded: bool,
}

impl Looks {
    pub(super) fn new(here: OwnerHint) -> Self {
        Self { here, spin: None, yielded: false }
    }

    /// Returns `true` if the thread should come in: the lock has been found open. As
    /// [`Spin::is_free_at_last`].
    pub(super) fn is_open_at_last(&mut self) -> bool {
        self.spin.as_mut().is_none_or(Spin::is_free_at_last)
    }

    /// Waits for the next look. Calls `on_its_way` if that is likely to pay. Returns `false` if the
    /// thread had better queue. `last` is the hint of the thread that came in last.
    pub(super) fn look(&mut self, last: OwnerHint, on_its_way: impl FnOnce()) -> bool {
        let looks = match last.runs_elsewhere(self.here) {
            Some(true) if self.here.is_kernel() => FULL_LOOKS,
            Some(true) => GREEN_LOOKS,
            // That thread waits for the CPU of this kernel thread.
            Some(false) if self.here.is_kernel() && !self.yielded => {
                self.yielded = true;
                current().backend().yield_now(&current());
                return true;
            }
            _ => return false,
        };
        on_its_way();
        self.spin.get_or_insert_with(|| Spin::new(looks)).pause()
    }
}
