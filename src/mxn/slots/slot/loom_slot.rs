//! The slot word: the holder of the slot has it alone, and no slot is lost or doubled.

use std::sync::Arc;

use super::{BLOCKING, BRIEF, HELD, InHand, NONE, ONE_REGION, RESTING, Region, SlotWord};
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU32, Ordering};

/// An LWP with its slot, and what only the holder of the slot may touch.
struct Model {
    word: SlotWord,
    core: UnsafeCell<u32>,
    /// Slots that were taken from the word.
    taken: AtomicU32,
}

// SAFETY: this is what the models are to show. Loom reports an access to the core that is not ordered.
unsafe impl Sync for Model {}
// SAFETY: loom checks it.
unsafe impl Send for Model {}

impl Model {
    fn held() -> Arc<Self> {
        let model = Self { word: SlotWord::new(), core: UnsafeCell::new(0), taken: AtomicU32::new(0) };
        model.word.give(InHand::first_of_its_life());
        // They come into being here, not in one of the model's threads.
        assert_eq!(model.taken.load(Ordering::Relaxed), 0);
        assert_eq!(model.word.region.load(Ordering::Relaxed), BRIEF);
        Arc::new(model)
    }

    fn touch(&self) {
        // SAFETY: checked by loom.
        self.core.with_mut(|core| unsafe { *core += 1 });
    }

    /// Goes on where the loser was: the taker has the slot in hand.
    fn has(&self, slot: Option<InHand>) -> bool {
        let Some(InHand(())) = slot else { return false };
        self.touch();
        // Relaxed: read after the threads have been joined.
        self.taken.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Checks that the slot is held, or was taken once.
    fn check(&self) {
        let there = u32::from(self.word.word.load(Ordering::Relaxed) != NONE);
        assert_eq!(there + self.taken.load(Ordering::Relaxed), 1, "a slot was lost, or doubled");
    }
}

type Take = fn(&SlotWord) -> Option<InHand>;
type Exit = fn(&SlotWord) -> bool;

/// Models an owner that blocks and comes back. Meanwhile two other threads see work and want its slot.
fn blocking_region(take: Take, exit: Exit) {
    model(move || {
        let model = Model::held();
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                loom::thread::spawn(move || model.has(take(&model.word)))
            })
            .collect();
        model.touch();
        assert!(model.word.enter_blocking(), "a slot that is held is not taken");
        let kept = exit(&model.word);
        if kept {
            model.touch();
            assert!(model.word.is_held());
        }
        let taken = takers.into_iter().filter(|_| true).map(|taker| taker.join().unwrap());
        assert_eq!(taken.filter(|&taken| taken).count(), usize::from(!kept));
        model.check();
    });
}

#[test]
fn a_slot_is_retaken_once_or_kept() {
    blocking_region(SlotWord::retake_announced, SlotWord::exit_blocking);
}

/// A taker that looks and then writes: two threads have the slot.
#[test]
#[should_panic(expected = "Causality violation: Concurrent write accesses")]
fn negative_retaking_in_two_steps() {
    blocking_region(
        |word| {
            (word.word.load(Ordering::Acquire) == BLOCKING).then(|| {
                word.word.store(NONE, Ordering::Release);
                InHand(())
            })
        },
        SlotWord::exit_blocking,
    );
}

/// An owner that comes back without asking.
#[test]
#[should_panic(expected = "Causality violation: Concurrent write accesses")]
fn negative_exit_without_comparing() {
    blocking_region(SlotWord::retake_announced, |word| {
        word.word.store(HELD, Ordering::Release);
        true
    });
}

/// The taker does not see what the owner did before it blocked.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_retaking_without_acquire() {
    blocking_region(
        |word| {
            let taken = word.word.compare_exchange(BLOCKING, NONE, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok().then_some(InHand(()))
        },
        SlotWord::exit_blocking,
    );
}

/// Models an owner that is back soon, as it believes. The monitor finds that it is not, and another thread
/// wants the slot.
fn brief_region(enter: fn(&SlotWord) -> bool, outstay: fn(&SlotWord, Region) -> bool) {
    model(move || {
        let model = Model::held();
        let monitor = spawn_with(model.clone(), move |model| {
            let region = model.word.region();
            region.is_some_and(|region| outstay(&model.word, region))
        });
        let taker = spawn_with(model.clone(), move |model| model.has(model.word.retake_announced()));
        model.touch();
        assert!(enter(&model.word), "a slot that is held is not taken");
        let in_time = model.word.exit_brief();
        let kept = in_time || model.word.exit_blocking();
        if kept {
            model.touch();
            assert!(model.word.is_held());
        }
        let lasts = monitor.join().unwrap();
        assert_eq!(lasts, !in_time, "the mark and its region disagree");
        assert_eq!(taker.join().unwrap(), !kept);
        model.check();
    });
}

#[test]
fn a_brief_region_that_lasts_loses_its_slot_once() {
    brief_region(SlotWord::enter_brief, SlotWord::outstay);
}

/// The taker of the slot does not see what the owner did before.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_a_brief_region_begins_without_release() {
    brief_region(
        |word| {
            let region = BRIEF + ONE_REGION;
            word.region.store(region, Ordering::Relaxed);
            word.word.compare_exchange(HELD, region, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        },
        SlotWord::outstay,
    );
}

/// A monitor that looks and then writes: the mark stays although the owner is back.
#[test]
#[should_panic(expected = "the mark and its region disagree")]
fn negative_outstaying_in_two_steps() {
    brief_region(SlotWord::enter_brief, |word, _| {
        let brief = word.region().is_some();
        if brief {
            word.word.store(BLOCKING, Ordering::Release);
        }
        brief
    });
}

/// Models one brief region after the other. The one that lasts is the one that was seen.
fn regions_in_a_row(outstay: fn(&SlotWord, Region) -> bool) {
    model(move || {
        let model = Model::held();
        let monitor = spawn_with(model.clone(), move |model| {
            let seen = model.word.region()?;
            outstay(&model.word, seen).then_some(seen)
        });
        let regions = [(); 2].map(|()| {
            assert!(model.word.enter_brief());
            let in_time = model.word.exit_brief();
            assert!(in_time || model.word.exit_blocking(), "no slot is taken");
            in_time
        });
        let lasts = monitor.join().unwrap();
        let first = Region(BRIEF + ONE_REGION);
        let which = regions.iter().position(|in_time| !in_time);
        assert_eq!(lasts.map(|seen| usize::from(seen != first)), which, "another region");
        model.check();
    });
}

#[test]
fn a_region_does_not_last_because_the_one_before_was_seen() {
    regions_in_a_row(SlotWord::outstay);
}

#[test]
#[should_panic(expected = "another region")]
fn negative_outstaying_whatever_there_is() {
    regions_in_a_row(|word, _| word.region().is_some_and(|region| word.outstay(region)));
}

/// Models an LWP that announces blocking, sleeps, and comes back. Meanwhile the monitor finds that it rests,
/// and another LWP wants the slot.
fn a_slot_at_rest(end_rest: fn(&SlotWord) -> bool) {
    model(move || {
        let model = Model::held();
        let monitor = spawn_with(model.clone(), move |model| model.word.rest_announced());
        let taker = spawn_with(model.clone(), move |model| model.has(model.word.retake_resting()));
        model.touch();
        assert!(model.word.enter_blocking());
        let kept = model.word.exit_blocking() || end_rest(&model.word);
        if kept {
            model.touch();
            assert!(model.word.is_held());
        }
        let (rested, taken) = (monitor.join().unwrap(), taker.join().unwrap());
        assert!(kept != taken && (rested || !taken), "a slot has one holder");
        model.check();
    });
}

#[test]
fn a_slot_at_rest_is_taken_once_or_kept() {
    a_slot_at_rest(SlotWord::end_rest);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_a_rest_ends_in_two_steps() {
    a_slot_at_rest(|word| {
        let rests = word.word.load(Ordering::Relaxed) == RESTING;
        if rests {
            word.word.store(HELD, Ordering::Relaxed);
        }
        rests
    });
}

/// Models a monitor that takes the slot of an LWP that it believes to sleep. Meanwhile the LWP blocks, comes
/// back, or gives the slot up. The slot is somewhere, once.
#[test]
fn the_monitor_may_be_wrong_about_a_sleeper() {
    model(|| {
        let model = Model::held();
        let monitor = spawn_with(model.clone(), move |model| {
            let slot = model.word.retake_unannounced();
            model.taken.fetch_add(u32::from(slot.is_some()), Ordering::Relaxed);
        });
        let waker = spawn_with(model.clone(), move |model| {
            let slot = model.word.retake_announced();
            model.taken.fetch_add(u32::from(slot.is_some()), Ordering::Relaxed);
        });
        if model.word.enter_blocking() && model.word.exit_blocking() {
            // It runs again, and may lose its slot until the end of the model.
            let _ = model.word.is_held();
        } else {
            assert!(!model.word.is_held());
        }
        monitor.join().unwrap();
        waker.join().unwrap();
        model.check();
    });
}

/// Models a slot that goes from a blocked LWP to a spare, which sees what was done under it.
#[test]
fn a_slot_brings_the_loser_s_doings_along() {
    model(|| {
        let model = Model::held();
        let spare = Arc::new(SlotWord::new());
        assert!(!spare.is_held());
        let waker = spawn_with((model.clone(), spare.clone()), move |(model, spare)| {
            if let Some(slot) = model.word.retake_announced() {
                spare.give(slot);
                return true;
            }
            false
        });
        model.touch();
        let blocks = model.word.enter_blocking();
        assert!(blocks);
        // The spare was woken: an acquire of its word, after the `give`.
        if waker.join().unwrap() {
            assert!(spare.is_held());
            assert!(!model.word.exit_blocking());
            model.touch();
        } else {
            assert!(model.word.exit_blocking());
        }
    });
}

/// Models two LWPs that hold slots, when one slot is too many. A thread takes one away, while the monitor
/// moves one to a spare.
fn shrinking_beside_a_hand_off(take: Take) {
    model(move || {
        let words = Arc::new([(); 3].map(|()| SlotWord::new()));
        let held = |words: &[SlotWord; 3]| words.iter().filter(|word| word.is_held()).count();
        words[0].give(InHand::first_of_its_life());
        words[1].give(InHand::first_of_its_life());
        assert_eq!(held(&words), 2);
        let monitor = spawn_with(words.clone(), move |words| {
            if let Some(slot) = words[1].retake_unannounced() {
                words[2].give(slot);
            }
        });
        let owner =
            spawn_with(words.clone(), move |words| words[0].enter_blocking() && words[0].exit_blocking());
        // As `take_slot`: the last first. It may find none, because one is in hand and the other announced.
        let retired = words.iter().rev().find_map(take).map(InHand::retire).is_some();
        monitor.join().unwrap();
        owner.join().unwrap();
        assert_eq!(held(&words), 2 - usize::from(retired), "a slot was lost, or doubled");
        // There is always a next time.
        if !retired {
            words.iter().rev().find_map(take).expect("a slot").retire();
        }
        assert_eq!(held(&words), 1);
    });
}

#[test]
fn shrinking_takes_each_slot_once() {
    shrinking_beside_a_hand_off(SlotWord::retake_unannounced);
}

#[test]
#[should_panic(expected = "lost, or doubled")]
fn negative_shrinking_in_two_steps() {
    shrinking_beside_a_hand_off(|word| {
        word.is_held().then(|| {
            word.word.store(NONE, Ordering::Release);
            InHand(())
        })
    });
}
