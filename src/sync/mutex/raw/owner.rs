//! The part of a mutex that has its owner written down, while anybody asks for that (`park/ledger.rs`).

use super::RawMutex;
use crate::park::current::exact_hint;
use crate::park::ledger;
use crate::shim::atomic::Ordering;

impl RawMutex {
    /// [`set_owner`](Self::set_owner) of a thread that writes down what it takes.
    #[cold]
    pub(super) fn record_owner(&self) {
        // Relaxed, both: hints.
        self.owner.store(exact_hint().bits(), Ordering::Relaxed);
        if ledger::took_alone(self.key()) {
            // From here on unlocks come to `forget_owner`.
            self.queued.store(ledger::RECORDED, Ordering::Relaxed);
        }
    }

    /// The owner is about to unlock.
    #[inline]
    pub(super) fn forget_owner(&self) {
        if ledger::is_on() {
            ledger::leaves(self.key());
        }
    }
}
