//! What a read-write lock knows of who is in: a hint where the last one to come in ran; and, while somebody asks for it, which
//! writer it is, which is written down elsewhere (`park/ledger.rs`).
//!
//! Of readers nothing is written down: one that waits for readers may be let in before they leave, when a writer between them gives
//! up. So that nobody is said to wait for ever who does not, it is said to wait for somebody who is not known.

use super::raw::RawRwLock;
use super::state::Wish;
use crate::park::current::exact_hint;
use crate::park::ledger;
use crate::park::owner::OwnerHint;
use crate::shim::atomic::Ordering;

impl RawRwLock {
    #[inline]
    pub(super) fn owner(&self) -> OwnerHint {
        // Relaxed: a hint.
        OwnerHint::from_bits(self.owner.load(Ordering::Relaxed))
    }

    /// The running thread, whose hint this is, has come in.
    #[inline]
    pub(super) fn came_in(&self, wish: Wish, hint: OwnerHint) {
        if hint == OwnerHint::RECORDED {
            return self.record(wish);
        }
        // Relaxed: a hint.
        self.owner.store(hint.bits(), Ordering::Relaxed);
    }

    #[cold]
    fn record(&self, wish: Wish) {
        // Relaxed: a hint.
        self.owner.store(exact_hint().bits(), Ordering::Relaxed);
        if wish == Wish::Write && ledger::took_alone(self.key()) {
            // From here on its leaving comes by `forget_writer`.
            self.state.set_recorded();
        }
    }

    /// The writer is about to leave, or to go on as a reader.
    #[cold]
    pub(super) fn forget_writer(&self) {
        ledger::leaves(self.key());
    }
}
