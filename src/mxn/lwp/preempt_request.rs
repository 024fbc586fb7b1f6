//! A request to an LWP to preempt the thread that it runs, and the answer.
//!
//! The monitor asks by this word and then by a signal. The handler, on that very LWP, answers. The word names
//! the dispatch that is meant. If the signal comes late, when another thread has been mounted, it must not
//! cost that thread its slice.
//!
//! | state | means | next, and by what |
//! |---|---|---|
//! | NONE | nothing is asked | `ask` -> ASKED (monitor) |
//! | ASKED, tick, a manner | the signal is on its way | `take` -> NONE (handler); `ask` (monitor) |
//! | REFUSED, tick | the thread might not be preempted when it came | `ask` -> ASKED (monitor) |
//! | DEFERRED, tick | not at that instruction; a moment later it may be | the same |
//!
//! From ASKED, the monitor asks only for another tick.
//!
//! Handler and LWP are one kernel thread, and the monitor is one too. So plain loads and stores would do in
//! all cases but one: a handler answers while the monitor asks again. There the later of the two stands, and
//! either is right.

use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};

const NONE: u64 = 0;
const ASKED: u64 = 1 << 32;
const REFUSED: u64 = 2 << 32;
const DEFERRED: u64 = 4 << 32;
const IN_CALL: u64 = 8 << 32;
const ANYWHERE: u64 = 16 << 32;
const MANNER: u64 = IN_CALL | ANYWHERE;

/// See the table above.
#[derive(Debug)]
pub(crate) struct PreemptRequest {
    word: AtomicU64,
    /// How many signals were sent, or are about to be. Written by the monitor only.
    sent: AtomicU32,
    /// How many signals have arrived. Written by the handler only.
    come: AtomicU32,
}

/// What the handler is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    /// The dispatch that is meant.
    pub(crate) tick: u32,
    pub(crate) manner: Manner,
}

/// Where the thread may be found, and still leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Not where it may hold a lock that every thread wants.
    Polite,
    /// There too, if it is in a system call that is about to begin again. It slept there.
    InCall,
    /// Wherever it is.
    Anywhere,
}

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing was asked of this dispatch, or it was done.
    None,
    /// The signal has not come yet.
    Pending,
    /// The thread may not be preempted.
    Refused,
    /// The thread may be preempted, but not where it was.
    Deferred,
}

impl PreemptRequest {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(NONE), sent: AtomicU32::new(0), come: AtomicU32::new(0) }
    }

    /// Asks for a preemption. Monitor only. The signal comes after.
    pub(crate) fn ask(&self, Preemption { tick, manner }: Preemption) {
        let manner = match manner {
            Manner::Polite => 0,
            Manner::InCall => IN_CALL,
            Manner::Anywhere => ANYWHERE,
        };
        // Release: pairs with `take`. (The signal orders more than that.)
        self.word.store(ASKED | manner | u64::from(tick), Ordering::Release);
    }

    /// Counts a signal that is about to be sent. Monitor only.
    pub(crate) fn announce_signal(&self) {
        // Relaxed: the signal is sent after this store, and orders it.
        self.sent.store(self.sent.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Uncounts a signal that could not be sent. Monitor only.
    pub(crate) fn retract_signal(&self) {
        // Relaxed: as in `announce_signal`.
        self.sent.store(self.sent.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    /// Counts a signal that has arrived. Handler only. Returns `true` if one was on its way. Several signals
    /// may arrive as one, so a later signal may get `true` although none was on its way.
    pub(crate) fn note_signal(&self) -> bool {
        // Relaxed: the signal orders the monitor's store before this load.
        let come = self.come.load(Ordering::Relaxed);
        let is_due = self.sent.load(Ordering::Relaxed).wrapping_sub(come).cast_signed() > 0;
        if is_due {
            self.come.store(come.wrapping_add(1), Ordering::Relaxed);
        }
        is_due
    }

    /// Resets the counts for a new kernel thread: no signal is on its way to it.
    pub(crate) fn forget_signals(&self) {
        // Relaxed: the monitor does not know the kernel thread yet.
        self.come.store(self.sent.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns how the request for dispatch `tick` stands. For the monitor.
    pub(crate) fn answer(&self, tick: u32) -> Answer {
        // Relaxed: the word is all there is.
        match self.word.load(Ordering::Relaxed) & !MANNER {
            word if word == ASKED | u64::from(tick) => Answer::Pending,
            word if word == REFUSED | u64::from(tick) => Answer::Refused,
            word if word == DEFERRED | u64::from(tick) => Answer::Deferred,
            _ => Answer::None,
        }
    }

    /// Takes what is asked for, which the caller must answer. Handler only. Returns `None` if nothing is
    /// asked.
    #[must_use]
    pub(crate) fn take(&self) -> Option<Preemption> {
        // Acquire: pairs with `ask`.
        let word = self.word.swap(NONE, Ordering::Acquire);
        let manner = match word & MANNER {
            IN_CALL => Manner::InCall,
            ANYWHERE => Manner::Anywhere,
            _ => Manner::Polite,
        };
        (word & ASKED != 0).then_some(Preemption { tick: word as u32, manner })
    }

    /// Answers that the thread of dispatch `tick` may not be preempted now. Handler only.
    pub(crate) fn refuse(&self, tick: u32) {
        // Relaxed: the word is all there is.
        self.word.store(REFUSED | u64::from(tick), Ordering::Relaxed);
    }

    /// Answers that the thread of dispatch `tick` may be preempted, but not where it is. Handler only.
    pub(crate) fn defer(&self, tick: u32) {
        // Relaxed: the word is all there is.
        self.word.store(DEFERRED | u64::from(tick), Ordering::Relaxed);
    }

    /// Returns `true` if the calling thread, which has just become preemptible again, was asked to leave
    /// meanwhile.
    pub(crate) fn was_refused(&self, tick: u32) -> bool {
        self.answer(tick) == Answer::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_expected_once_it_was_announced() {
        let request = PreemptRequest::new();
        assert!(!request.note_signal());
        request.announce_signal();
        request.announce_signal();
        request.retract_signal();
        assert!(request.note_signal() && !request.note_signal());
        request.announce_signal();
        request.forget_signals();
        assert!(!request.note_signal(), "the kernel thread is a new one");
        request.announce_signal();
        assert!(request.note_signal());
    }

    #[test]
    fn an_answer_is_for_one_dispatch() {
        let request = PreemptRequest::new();
        assert_eq!((request.take(), request.answer(7)), (None, Answer::None));
        let asked = Preemption { tick: 7, manner: Manner::Polite };
        request.ask(asked);
        assert_eq!((request.answer(7), request.answer(8)), (Answer::Pending, Answer::None));
        assert_eq!((request.take(), request.take()), (Some(asked), None));
        request.refuse(7);
        assert_eq!((request.answer(7), request.take()), (Answer::Refused, None));
        for manner in [Manner::InCall, Manner::Anywhere] {
            let asked = Preemption { tick: 0, manner };
            request.ask(asked);
            assert_eq!((request.answer(0), request.take()), (Answer::Pending, Some(asked)));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_preempt_request;
