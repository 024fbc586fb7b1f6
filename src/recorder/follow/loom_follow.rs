//! Models: the trace is switched while an LWP joins it. The switch, the list and the flag are words of the
//! model; [`follow`] and the reference to the account are real.

use std::sync::Arc;

use super::super::late::Late;
use super::*;
use crate::park::tests::loom_model::model;
use crate::shim::atomic::{AtomicBool, AtomicU32};

/// What a negative model does in the place of `follow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// It does not look again.
    LooksOnce,
    /// It does not fence.
    NoFence,
    /// An LWP looks at the switch before it is on the list.
    LooksFirst,
}

/// The switch, and one LWP that follows it.
struct Model {
    /// How often the trace was switched: odd if it is on.
    switch: AtomicU32,
    listed: AtomicBool,
    flag: AtomicBool,
    account: Late<u32>,
    wrong: Wrong,
}

impl Model {
    fn new(wrong: Wrong) -> Arc<Self> {
        let model = Self {
            switch: AtomicU32::new(0),
            listed: AtomicBool::new(false),
            flag: AtomicBool::new(false),
            account: Late::new(),
            wrong,
        };
        // Atomics come into being at their first use, so this is before the model's threads.
        assert!(model.switch.load(Ordering::Relaxed) == 0 && !model.listed.load(Ordering::Relaxed));
        assert!(!model.flag.load(Ordering::Relaxed) && model.account.get().is_none());
        Arc::new(model)
    }

    fn says(&self) -> u32 {
        self.switch.load(Ordering::Relaxed)
    }

    fn apply(&self, says: u32) {
        if says % 2 == 1 {
            self.account.fill(&1);
        }
        self.flag.store(says % 2 == 1, Ordering::Relaxed);
    }

    fn follow(&self) {
        match self.wrong {
            Wrong::Nothing | Wrong::LooksFirst => follow(|| self.says(), |says| self.apply(says)),
            Wrong::LooksOnce => {
                fence(Ordering::SeqCst);
                self.apply(self.says());
            }
            Wrong::NoFence => loop {
                let says = self.says();
                self.apply(says);
                if self.says() == says {
                    return;
                }
            },
        }
    }

    /// Does what `set_level` does.
    fn change(&self) {
        self.switch.fetch_add(1, Ordering::Relaxed);
        if self.wrong != Wrong::NoFence {
            fence(Ordering::SeqCst);
        }
        if self.listed.load(Ordering::Acquire) {
            self.follow();
        }
    }

    /// Does what an LWP does that starts.
    fn join(&self) {
        if self.wrong == Wrong::LooksFirst {
            self.follow();
            self.listed.store(true, Ordering::Release);
        } else {
            self.listed.store(true, Ordering::Release);
            self.follow();
        }
    }

    /// The LWP has what it needs for what the switch says, and does that.
    fn check(&self) {
        let on = self.says() % 2 == 1;
        assert_eq!(self.flag.load(Ordering::Relaxed), on, "the flag is not what the switch says");
        assert!(!on || self.account.get().is_some(), "it is traced, and has no account");
    }
}

/// An LWP starts while the trace is switched `changes` times.
fn switched(wrong: Wrong, changes: u32) {
    model(move || {
        let model = Model::new(wrong);
        let joins = loom::thread::spawn({
            let model = Arc::clone(&model);
            move || model.join()
        });
        (0..changes).for_each(|_| model.change());
        joins.join().unwrap();
        model.check();
    });
}

#[test]
fn an_lwp_that_starts_while_the_trace_is_switched_on_joins_it() {
    switched(Wrong::Nothing, 1);
}

#[test]
fn an_lwp_that_starts_while_the_trace_is_switched_on_and_off_is_not_traced() {
    switched(Wrong::Nothing, 2);
}

#[test]
#[should_panic(expected = "the flag is not what the switch says")]
fn negative_without_a_second_look_an_lwp_undoes_the_change() {
    switched(Wrong::LooksOnce, 1);
}

#[test]
#[should_panic(expected = "the flag is not what the switch says")]
fn negative_without_a_fence_an_lwp_is_missed() {
    switched(Wrong::NoFence, 1);
}

#[test]
#[should_panic(expected = "the flag is not what the switch says")]
fn negative_an_lwp_that_looks_before_it_is_listed_is_missed() {
    switched(Wrong::LooksFirst, 1);
}

/// An LWP that follows the trace already, and a runtime that has just been listed, let it follow at once.
#[test]
fn two_that_follow_at_once_agree() {
    model(|| {
        let model = Model::new(Wrong::Nothing);
        model.join();
        let follows = loom::thread::spawn({
            let model = Arc::clone(&model);
            move || model.follow()
        });
        (0..2).for_each(|_| model.change());
        follows.join().unwrap();
        model.check();
    });
}
