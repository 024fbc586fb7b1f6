//! An LWP that adopts what idle LWPs block, while a thread adds a signal to that. Negative twins do not look
//! again, or have no fence on one side.

use std::sync::Arc;

use super::{IDLE, LwpMask, set_idle};
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{AtomicU64, Ordering, fence};
use crate::sys::preempt::Mask;

const OLD: u64 = 1;
const ADDED: u64 = 2;
/// The signal that is added has come.
const SENT: u64 = 4;

/// Returns what idle LWPs block, without a fence.
pub(in crate::mxn::lwp) fn idle() -> u64 {
    IDLE.load(Ordering::Relaxed)
}

/// An LWP that has run a thread which blocked both.
#[repr(align(2048))]
struct Model {
    mask: LwpMask,
    /// What its kernel thread blocks.
    kernel: AtomicU64,
}

impl Model {
    fn new() -> Arc<Self> {
        let model = Self { mask: LwpMask::new(), kernel: AtomicU64::from(OLD | ADDED) };
        model.mask.note(Mask::from_bits(OLD | ADDED));
        set_idle(Mask::from_bits(OLD));
        Arc::new(model)
    }

    fn set(&self, mask: Mask) {
        let change = |was| Some(was & SENT | mask.bits());
        let was = self.kernel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).unwrap();
        assert!(was & SENT == 0 || mask.bits() & ADDED != 0, "the LWP has unblocked it");
    }

    /// The signal comes to this LWP.
    fn send(&self) {
        let was = self.kernel.fetch_or(SENT, Ordering::Relaxed);
        assert!(was & ADDED != 0, "the LWP has unblocked it");
    }
}

/// If the signal's adder sees that the LWP blocks it, the LWP blocks it from then on.
fn added(adopt: fn(&Model), set_idle: fn(Mask)) {
    let lwp = Model::new();
    let adder = spawn_with(lwp.clone(), move |lwp| {
        set_idle(Mask::from_bits(OLD | ADDED));
        if lwp.mask.blocks(ADDED) {
            lwp.send();
        }
    });
    adopt(&lwp);
    adder.join().unwrap();
}

#[test]
fn no_lwp_unblocks_what_was_seen_blocked() {
    model(|| {
        added(|lwp| assert!(lwp.mask.adopt_idle_by(|mask| lwp.set(mask))), set_idle);
    });
}

/// What is seen blocked has been blocked before.
#[test]
fn a_mask_is_noted_when_it_is_set() {
    model(|| {
        let lwp = Model::new();
        lwp.kernel.store(OLD, Ordering::Relaxed);
        lwp.mask.note(Mask::from_bits(OLD));
        set_idle(Mask::from_bits(OLD | ADDED));
        let looker = spawn_with(lwp.clone(), |lwp| {
            let blocks = lwp.mask.blocks(ADDED);
            assert!(!blocks || lwp.kernel.load(Ordering::Relaxed) & ADDED != 0);
        });
        lwp.mask.adopt_idle_by(|mask| lwp.set(mask));
        looker.join().unwrap();
    });
}

/// Adopts as [`LwpMask::adopt_idle_by`] does, once, with `before_look` between the announcement and the look.
fn adopt_once(lwp: &Model, before_look: fn(), looks_again: bool) {
    fence(Ordering::SeqCst);
    let idle = IDLE.load(Ordering::Relaxed);
    lwp.mask.announce(Mask::from_bits(idle));
    before_look();
    if !looks_again || IDLE.load(Ordering::Relaxed) == idle {
        lwp.set(Mask::from_bits(idle));
        lwp.mask.note(Mask::from_bits(idle));
    }
}

#[test]
fn the_twins_are_wrong_for_their_own_reasons() {
    model(|| added(|lwp| adopt_once(lwp, || fence(Ordering::SeqCst), true), set_idle));
}

#[test]
#[should_panic(expected = "the LWP has unblocked it")]
fn negative_no_second_look() {
    model(|| added(|lwp| adopt_once(lwp, || fence(Ordering::SeqCst), false), set_idle));
}

#[test]
#[should_panic(expected = "the LWP has unblocked it")]
fn negative_no_fence_before_the_look() {
    model(|| added(|lwp| adopt_once(lwp, || (), true), set_idle));
}

#[test]
#[should_panic(expected = "the LWP has unblocked it")]
fn negative_no_fence_after_the_change() {
    let unfenced: fn(Mask) = |mask| IDLE.store(mask.bits(), Ordering::Relaxed);
    model(move || added(|lwp| adopt_once(lwp, || fence(Ordering::SeqCst), true), unfenced));
}
