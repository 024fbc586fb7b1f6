//! What a read-write lock knows of those who are in: a hint where the last to come in ran; and, while somebody asks who they are, what has been
//! written down elsewhere (`park/ledger.rs`).
//!
//! The first who is written down sets a bit of the word, which stays: from then on no lock finds the word as it is when nobody is
//! there, and no unlock finds itself alone, so all go the way on which they are taken out again.

use super::raw::RawRwLock;
use super::state::Bits;
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
    pub(super) fn set_owner(&self, hint: OwnerHint) {
        if hint == OwnerHint::RECORDED {
            return self.record_owner();
        }
        // Relaxed: a hint.
        self.owner.store(hint.bits(), Ordering::Relaxed);
    }

    /// The running thread, which has been in before, has another share now.
    pub(super) fn still_owner(&self) {
        // Relaxed: a hint.
        self.owner.store(exact_hint().bits(), Ordering::Relaxed);
    }

    #[cold]
    fn record_owner(&self) {
        self.still_owner();
        // The bit before the entry: a lock without it has none, but such as were left by others at its address.
        ledger::took_shared(self.state.address(), || self.state.record());
    }

    /// The running thread is about to wait: not for those who have forgotten a guard of another lock, which lay here before.
    pub(super) fn forget_others(&self) {
        if ledger::is_on() && !self.bits().is_recorded() {
            // With it one that comes in at this moment, and is then not known, as others are not.
            ledger::clear(self.state.address());
        }
    }

    /// The running thread is about to leave; the word was `seen`.
    #[inline]
    pub(super) fn forget_owner(&self, seen: Bits) {
        if seen.is_recorded() {
            ledger::leaves(self.state.address());
        }
    }
}
