//! Models of a nudge: a thread changes something twice, nudges an LWP that is about to sleep, and waits until
//! the LWP has seen that. What is changed is what idle LWPs block. Negative models leave out a fence, or look
//! before they take the nudge.

use std::sync::Arc;

use super::{ASLEEP, AWAKE, IdleSleep, NUDGED};
use crate::mxn::lwp::mask::{LwpMask, loom_mask, set_idle};
use crate::park::tests::loom_model::{model_within, spawn_with};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::futex;
use crate::shim::poll_set::{Events, PollSet};
use crate::sys::preempt::Mask;

struct Model {
    sleep: IdleSleep,
    set: PollSet,
    mask: LwpMask,
    /// What the LWP has seen.
    seen: AtomicU32,
}

impl Model {
    fn look(&self) {
        self.mask.adopt_idle_by(|_| ());
        self.show(self.mask.get().map_or(0, Mask::bits));
    }

    /// Looks as [`LwpMask::adopt_idle_by`] does, without its first fence.
    fn look_without_fence(&self) {
        self.show(loom_mask::idle());
    }

    fn show(&self, seen: u64) {
        self.seen.store(seen as u32, Ordering::Release);
        futex::wake(&self.seen, 1);
    }

    fn change(&self, to: u64) {
        set_idle(Mask::from_bits(to));
        if self.sleep.nudge() {
            self.set.ring().unwrap();
        }
    }

    fn sleep(&self) {
        self.sleep.prepare();
        assert!(self.sleep.wait(None, || self.look()));
    }

    fn sleep_in_set(&self) {
        self.sleep.prepare();
        loop {
            let (woken, there) = self.sleep.wait_in(&self.set, None, &mut Events::new(), || self.look());
            assert!(there);
            if woken {
                return;
            }
        }
    }

    /// Sleeps as [`IdleSleep::wait`] does, but takes a nudge after it has looked.
    fn sleep_and_look_first(&self) {
        let word = &self.sleep.0;
        self.sleep.prepare();
        self.look();
        loop {
            match word.load(Ordering::Acquire) {
                ASLEEP => _ = futex::wait(word, ASLEEP, None),
                NUDGED => {
                    self.look();
                    let _ = word.compare_exchange(NUDGED, ASLEEP, Ordering::AcqRel, Ordering::Relaxed);
                }
                _ => return,
            }
        }
    }
}

fn is_seen_by(sleep: fn(&Model)) {
    // The last negative model needs three.
    model_within(3, move || {
        let model = Arc::new(Model {
            sleep: IdleSleep(AtomicU32::from(AWAKE)),
            set: PollSet::new().unwrap(),
            mask: LwpMask::new(),
            seen: AtomicU32::from(0),
        });
        let _ = model.set.look(&mut Events::new());
        // The LWP is asleep for others before it looks. A real one is in a list by then.
        let lwp = spawn_with(Arc::clone(&model), move |model| sleep(&model));
        model.change(1);
        model.change(3);
        loop {
            let seen = model.seen.load(Ordering::Acquire);
            if seen == 3 {
                break;
            }
            let _ = futex::wait(&model.seen, seen, None);
        }
        if model.sleep.wake() {
            model.set.ring().unwrap();
        }
        lwp.join().unwrap();
    });
}

#[test]
fn a_nudge_is_seen() {
    is_seen_by(Model::sleep);
}

#[test]
fn a_nudge_is_seen_in_the_set() {
    is_seen_by(Model::sleep_in_set);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_fence() {
    is_seen_by(|model| {
        model.sleep.prepare();
        assert!(model.sleep.wait(None, || model.look_without_fence()));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_look_before_the_nudge_is_taken() {
    is_seen_by(Model::sleep_and_look_first);
}
