//! What a read-write lock knows of those who are in: a hint where the last to come in ran; and, while somebody asks who they are, what has been
//! written down elsewhere (`park/ledger.rs`).
//!
//! The first who is written down sets a bit of the word, which stays: from then on no lock finds the word as it is when nobody is
//! there, and no unlock finds itself alone, so all go the way on which they are taken out again.

use super::raw::RawRwLock;
use super::state::{Bits, Share};
use crate::park::current::exact_hint;
use crate::park::ledger::{self, Hold};
use crate::park::owner::OwnerHint;
use crate::shim::atomic::Ordering;

impl RawRwLock {
    #[inline]
    pub(super) fn owner(&self) -> OwnerHint {
        // Relaxed: a hint.
        OwnerHint::from_bits(self.owner.load(Ordering::Relaxed))
    }

    /// The running thread, whose hint this is, has taken this share.
    #[inline]
    pub(super) fn set_owner(&self, hint: OwnerHint, share: Share) {
        if hint == OwnerHint::RECORDED {
            return self.record_owner(share);
        }
        // Relaxed: a hint.
        self.owner.store(hint.bits(), Ordering::Relaxed);
    }

    /// Records that the running thread, which runs `here`, has acquired this share after a wait.
    pub(super) fn set_owner_at(&self, here: OwnerHint, share: Share) {
        self.set_owner(if ledger::is_on() { OwnerHint::RECORDED } else { here }, share);
    }

    /// The running thread, which has been in before, was the last to come in.
    pub(super) fn still_owner(&self) {
        // Relaxed: a hint.
        self.owner.store(exact_hint().bits(), Ordering::Relaxed);
    }

    #[cold]
    fn record_owner(&self, share: Share) {
        self.still_owner();
        // The bit before the entry: a lock without it has none, but such as were left by others at its address.
        ledger::took(self.state.address(), hold(share), || self.state.record());
    }

    /// The running thread is about to wait: not for those who have forgotten a guard of another lock, which lay here before.
    pub(super) fn forget_others(&self) {
        if ledger::is_on() {
            ledger::clear_old(self.state.address(), || !self.bits().is_recorded());
        }
    }

    /// The running thread is about to leave, and gives up this share; the word was `seen`.
    #[inline]
    pub(super) fn forget_owner(&self, seen: Bits, share: Share) {
        if seen.is_recorded() {
            ledger::leaves(self.state.address(), hold(share));
        }
    }

    /// The running thread has this share in the place of the other, or is about to; the word was `seen`.
    #[inline]
    pub(super) fn change_owner(&self, seen: Bits, from: Share, to: Share) {
        if seen.is_recorded() {
            ledger::changes(self.state.address(), hold(from), hold(to));
        }
    }
}

fn hold(share: Share) -> Hold {
    match share {
        Share::WRITE => Hold::Alone,
        Share::UPGRADABLE => Hold::Upgradable,
        _ => Hold::Shared,
    }
}
