//! How the words of threads, LWPs and runtimes follow a switch that may change at any time.
//!
//! **Problem.** The trace is switched while threads begin, and while LWPs and runtimes start. Each of these
//! has words of its own that say what the switch says: a flag, or an account that is there. A newcomer reads
//! the switch. If that changes a moment later, the newcomer must not be missed. Nor may it undo what the
//! change has done to its words.
//!
//! **Protocol.** A newcomer is put on a list first, and then follows the switch. What changes the switch does
//! so first, and then lets everything on the list follow it. [`follow`] applies what the switch says, and
//! looks again. If the switch has changed, it applies that, too.
//!
//! **Proof.** Each look comes after a fence, and so does the change's look at the list.
//!
//! - *No newcomer is missed.* One of the two fences comes first. If it is the newcomer's, the change finds it
//!   on the list. Otherwise the newcomer finds the changed switch.
//! - *The last word is the switch's.* Take the last store into a word, and the caller of `follow` that made
//!   it. That caller looked again after it, and the switch said the same. A change after what that look found
//!   would have stored into the word, too: before that store, as that is the last. So the fence of the
//!   change's own `follow`, before its store, comes before the fence of that last look. The look would have
//!   found the change.

use crate::shim::atomic::{Ordering, fence};

/// Applies what `switch` says to words that others may let follow it at the same time. Called after these
/// words were listed, or after the switch was changed.
pub(crate) fn follow<T: Copy + PartialEq>(switch: impl Fn() -> T, mut apply: impl FnMut(T)) {
    let mut applied = None;
    loop {
        // Pairs with the same fence of other callers: see the proof.
        fence(Ordering::SeqCst);
        let says = switch();
        if applied == Some(says) {
            return;
        }
        apply(says);
        applied = Some(says);
    }
}

#[cfg(all(test, loom))]
mod loom_follow;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::follow;

    #[test]
    fn a_switch_that_changes_meanwhile_is_followed() {
        let (switch, applied) = (Cell::new(1), Cell::new(Vec::new()));
        follow(
            || switch.get(),
            |says| {
                applied.set([applied.take(), vec![says]].concat());
                switch.set(3.min(says + 1));
            },
        );
        assert_eq!(applied.take(), [1, 2, 3]);
    }
}
