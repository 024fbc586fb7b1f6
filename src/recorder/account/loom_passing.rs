//! Models: a thread goes from one LWP to another, which is when its account changes keepers. Meanwhile a
//! waker comes, and the trace is switched off and on again. The account, and the flag that passes the thread
//! on, are real.

use loom::sync::Arc;

use super::*;
use crate::fiber::on_cpu::Mounted;
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim;
use crate::shim::atomic::AtomicBool;

/// When the second session begins, and when the look comes.
const BEGAN: u64 = 40;
const END: u64 = 100;

struct Thread {
    account: Account,
    mounted: Mounted,
    queued: AtomicBool,
    /// The number of the session; 0 while the trace is off.
    session: AtomicU32,
}

impl Thread {
    /// Runs a hook, if the trace is on.
    fn hook<R>(&self, hook: impl FnOnce(&Account, Session) -> R) {
        // Relaxed: a switch.
        let number = self.session.load(Ordering::Relaxed);
        if number > 0 {
            hook(&self.account, Session { number, began: if number == 1 { 0 } else { BEGAN } });
        }
    }

    fn stops(&self) {
        self.hook(|account, session| account.stops(session, 20, State::Blocked, false));
    }

    /// Takes the thread off its queue, as another LWP does, and runs it.
    fn runs(&self) {
        while !self.queued.load(Ordering::Acquire) || !self.mounted.wait_clear() {
            spin_hint();
        }
        self.hook(|account, session| account.runs(session, account.not_before(50), 1, None));
        self.mounted.set();
    }
}

/// `leave` is what the LWP does that the thread leaves. The trace is then on in session `then`; 0: it is off.
fn passes(leave: fn(&Thread), then: u32) {
    shim::let_loads_conflict(false);
    model(move || {
        let thread = Arc::new(Thread {
            account: Account::new(),
            mounted: Mounted::new(),
            queued: AtomicBool::new(false),
            session: AtomicU32::new(1),
        });
        thread.hook(|account, session| account.spawned(session, 0, 0));
        thread.hook(|account, session| account.runs(session, 10, 0, None));
        thread.mounted.set();
        assert!(!thread.queued.load(Ordering::Relaxed));
        let others =
            [leave, Thread::runs].map(|does| spawn_with(Arc::clone(&thread), move |thread| does(&thread)));
        thread.hook(|account, _| account.readied(30, true));
        thread.queued.store(true, Ordering::Release);
        thread.session.store(then, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
        check(&thread.account);
    });
}

fn check(account: &Account) {
    for session in [Session { number: 1, began: 0 }, Session { number: 2, began: BEGAN }] {
        // The other session has it, or no keeper has come since the trace was switched.
        let Look::Says(says) = account.look(session, END) else { continue };
        assert_eq!(says.life, END - session.began, "a part of its life is missing: {says:?}");
        assert_eq!(says.times.iter().sum::<u64>(), says.life, "its times are not continuous: {says:?}");
        assert!(says.state != State::Blocked || says.dispatches < 2, "it was stopped after it ran: {says:?}");
        if says.dispatches == 2 {
            assert_eq!(says.times[..4], [60, 20, 10, 10], "it ran for all the rest: {says:?}");
        }
    }
}

/// What the LWP does: the thread is stopped while it is mounted.
fn leave(thread: &Thread) {
    thread.stops();
    thread.mounted.clear();
}

#[test]
fn an_account_goes_from_keeper_to_keeper() {
    passes(leave, 1);
}

#[test]
fn an_account_goes_on_in_the_next_session() {
    passes(leave, 2);
}

#[test]
fn an_account_stays_as_it_is_when_the_trace_is_off() {
    passes(leave, 0);
}

fn leave_too_early(thread: &Thread) {
    thread.mounted.clear();
    thread.stops();
}

#[test]
#[should_panic(expected = "it was stopped after it ran")]
fn negative_a_thread_that_is_stopped_late_has_two_keepers() {
    passes(leave_too_early, 1);
}
