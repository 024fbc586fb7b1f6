//! Models of selecting: against two senders, another thread that selects, a deadline, the end of a thread
//! and the end of the other side. Negative models leave out the claim, or the one look at all channels.

use std::mem::{ManuallyDrop, MaybeUninit};

use super::super::Select;
use super::super::internal;
use crate::channel::core::loom_channel::{Body, Letter, channel, two_channels};
use crate::channel::core::{After, SERVED, Step};
use crate::channel::receiver::Source;
use crate::channel::waiters::{Deal, Entry, Role};
use crate::channel::{Receiver, Sender};
use crate::park::exit::Watch;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{How, Sleeper};
use crate::park::tests::loom_model::{
    Core, Green, both_outcomes, instant, model, model_within, on, spawn_with, together,
};
use crate::park::wait::Wait;
use crate::shim::{UnsafeCell, strike};

/// Receives from either channel.
fn receive_one(r1: &Receiver<Letter>, r2: &Receiver<Letter>) -> u32 {
    let arms = [internal::recv(r1), internal::recv(r2)];
    let operation = internal::select(arms, false, Some(Wait::forever()));
    let r = if operation.index() == 0 { r1 } else { r2 };
    operation.recv(r).map_or(0, |letter| letter.read())
}

/// Sends. The sender is never dropped, which would be another event.
fn sends(s: Sender<Letter>, text: u32) -> Body {
    let s = ManuallyDrop::new(s);
    Box::new(move || s.send(Letter::new(text)).unwrap())
}

#[test]
fn one_of_two_senders_is_taken_and_the_other_waits() {
    // Two preemptions take minutes here.
    model_within(1, || {
        let ((s1, r1), (s2, r2)) = two_channels(Some(0));
        let receive = move || assert_eq!(receive_one(&r1, &r2) + receive_one(&r1, &r2), 3);
        together([Box::new(receive), sends(s1, 1), sends(s2, 2)]);
    });
}

#[test]
fn a_message_is_not_missed() {
    for capacity in [Some(0), Some(1)] {
        model(move || {
            let ((s1, r1), (_s2, r2)) = two_channels(capacity);
            together([Box::new(move || assert_eq!(receive_one(&r1, &r2), 1)), sends(s1, 1)]);
        });
    }
}

#[test]
fn a_green_thread_that_selects_is_woken_once() {
    model(|| {
        let ((s1, r1), (s2, r2)) = two_channels(Some(1));
        let green = Green::new();
        let receiver = {
            let green = green.clone();
            let receive = move || assert_eq!(receive_one(&r1, &r2) + receive_one(&r1, &r2), 3);
            loom::thread::spawn(move || on(green.thread(), receive))
        };
        together([sends(s1, 1), sends(s2, 2)]);
        receiver.join().unwrap();
    });
}

/// One thread offers to send, the other to receive, both by selecting.
#[test]
fn two_that_select_meet() {
    model(|| {
        let (s, r) = channel(Some(0));
        let send = move || {
            let operation = internal::select([internal::send(&s)], false, Some(Wait::forever()));
            operation.send(&s, Letter::new(7)).unwrap();
        };
        let receive = move || {
            let operation = internal::select([internal::recv(&r)], false, Some(Wait::forever()));
            assert_eq!(operation.recv(&r).unwrap().read(), 7);
        };
        together([Box::new(send), Box::new(receive)]);
    });
}

/// Both threads offer both: one sends what the other receives.
#[test]
fn two_that_offer_both_agree() {
    model(|| {
        let ((s1, r1), (s2, r2)) = two_channels(Some(0));
        let player = |s: Sender<Letter>, r: Receiver<Letter>, text| -> Body {
            Box::new(move || {
                let operation =
                    internal::select([internal::send(&s), internal::recv(&r)], false, Some(Wait::forever()));
                if operation.index() == 0 {
                    operation.send(&s, Letter::new(text)).unwrap();
                } else {
                    assert_eq!(operation.recv(&r).unwrap().read(), 3 - text);
                }
            })
        };
        together([player(s1, r2, 1), player(s2, r1, 2)]);
    });
}

#[test]
fn a_deadline_and_a_message_agree() {
    both_outcomes(model, |seen| {
        let ((s1, r1), (_s2, r2)) = two_channels(Some(0));
        let seen = seen.clone();
        let receive = move || {
            let mut select = Select::new();
            select.recv(&r1);
            select.recv(&r2);
            let selected = select.select_deadline(instant());
            seen.saw(selected.is_err());
            let letter = selected.map_or_else(|_| r1.recv(), |operation| operation.recv(&r1));
            assert_eq!(letter.unwrap().read(), 7);
        };
        let clock = loom::thread::spawn(strike);
        together([Box::new(receive), sends(s1, 7)]);
        clock.join().unwrap();
    });
}

#[test]
fn the_end_of_a_channel_ends_a_select() {
    model(|| {
        let ((s1, r1), (_s2, r2)) = two_channels(Some(0));
        together([Box::new(move || assert_eq!(receive_one(&r1, &r2), 0)), Box::new(move || drop(s1))]);
    });
}

#[test]
fn a_watcher_is_told() {
    model(|| {
        let (s, r) = channel(Some(1));
        let watch = move || {
            let mut select = Select::new();
            select.recv(&r);
            assert_eq!(select.ready(), 0);
            assert_eq!(r.recv().unwrap().read(), 7);
        };
        together([Box::new(watch), sends(s, 7)]);
    });
}

/// Waits for the first of a message and the end of a thread, as `choose` does.
#[test]
fn the_end_of_a_thread_and_a_message_race() {
    model(|| {
        let (s, r) = channel(Some(1));
        let core = Core::new();
        let thread = core.thread();
        let wait = move || {
            let ending = super::super::port::Ending(Some(thread));
            let mut cases = [super::Case::new(&ending, 0), super::Case::new(r.port(), 1)];
            let manner = super::Manner { watches: false, biased: true, wait: Some(Wait::forever()) };
            let (number, deal) = super::choose(&mut cases, manner).unwrap();
            if cases[number].index == 0 {
                assert_eq!(deal, Deal::Ready);
                assert!(thread.is_done());
                assert_eq!(r.recv().unwrap().read(), 7);
            } else {
                let operation = super::super::SelectedOperation { port: Some(r.port()), index: 1, deal };
                assert_eq!(operation.recv(&r).unwrap().read(), 7);
            }
        };
        let end = loom::thread::spawn(move || assert!(!thread.finish()));
        together([Box::new(wait), sends(s, 7)]);
        end.join().unwrap();
        drop(core);
    });
}

/// Receives from two channels, and makes that known to one after the other. The frame that others may
/// find is leaked.
fn receive_from_two(r1: &Receiver<Letter>, r2: &Receiver<Letter>) {
    let sleeper = Box::leak(Box::new(Sleeper::new()));
    let deal = &*Box::leak(Box::new(UnsafeCell::new(Deal::Open)));
    let entry = |number| Entry::new(&*sleeper, Role::OneOf { number, deal });
    let entries = &*Box::leak(Box::new([entry(0), entry(1)]));
    let no_preempt = NoPreempt::hold();
    for (r, entry) in [r1, r2].into_iter().zip(entries) {
        let Source::Channel(channel) = &r.source else { unreachable!() };
        let mut message = MaybeUninit::<Letter>::uninit();
        let mut after = After::nothing();
        // SAFETY: it may be written; the entry stays.
        let step = channel.with(|state| unsafe {
            let step = state.receive(message.as_mut_ptr(), None, &mut after);
            if step == Step::Waits {
                state.receivers.waiting.link(entry);
            }
            step
        });
        after.finish();
        if step == Step::Done {
            // The bug: the sleep is known to the first channel, and a sender there gives it another
            // message.
            return;
        }
    }
    let how = How { reason: WaitReason::Select, wait: Wait::forever(), spin: true };
    let _ = sleeper.sleep(&no_preempt, &how, 0, || false);
}

/// A receiver makes its sleep known to one channel after the other, and takes the message that it finds
/// at the second. A message that came to the first meanwhile is lost.
#[test]
#[should_panic(expected = "lost")]
fn negative_known_one_after_the_other() {
    model(|| {
        let ((s1, r1), (s2, r2)) = two_channels(Some(1));
        let (s1, s2) = (ManuallyDrop::new(s1), ManuallyDrop::new(s2));
        let (r1, r2) = (ManuallyDrop::new(r1), ManuallyDrop::new(r2));
        let send = move || {
            assert!(s2.try_send(Letter::new(2)).is_ok());
            assert!(s1.try_send(Letter::new(1)).is_ok());
        };
        let seen = [r1.clone(), r2.clone()].map(ManuallyDrop::new);
        together([Box::new(move || receive_from_two(&r1, &r2)), Box::new(send)]);
        // Two were sent, one was received.
        let left = seen.iter().filter(|r| r.try_recv().is_ok()).count();
        assert_eq!(left, 1, "a message is lost");
    });
}

/// Senders do not claim the sleep of a thread that is in two lists: both give it their message.
#[test]
#[should_panic(expected = "Causality violation: Concurrent write accesses")]
fn negative_settled_without_a_claim() {
    model(|| {
        let ((s1, r1), (s2, r2)) = two_channels(Some(0));
        let (s1, s2) = (ManuallyDrop::new(s1), ManuallyDrop::new(s2));
        let (r1, r2) = (ManuallyDrop::new(r1), ManuallyDrop::new(r2));
        let wrong = |s: ManuallyDrop<Sender<Letter>>| -> Body {
            Box::new(move || {
                let grant = s.channel.with(|state| {
                    let entry = state.receivers.waiting.first;
                    // SAFETY: null, or in the list.
                    state.receivers.waiting.unlink(unsafe { entry.as_ref() }?);
                    // SAFETY: it is not safe: that is the bug.
                    Some(unsafe { Entry::settle(entry, SERVED, Deal::Ready) })
                });
                assert!(grant.is_some(), "it is asleep in both lists");
                grant.unwrap().wake();
            })
        };
        let green = Green::new();
        let sleeping = std::sync::Arc::new(loom::sync::Notify::new());
        let receiver = spawn_with((green.clone(), sleeping.clone()), move |(green, sleeping)| {
            on(green.thread(), || {
                // Never freed: the second sender comes when the sleep is over.
                let sleeper: &Sleeper = Box::leak(Box::new(Sleeper::new()));
                let deal = &*Box::leak(Box::new(UnsafeCell::new(Deal::Open)));
                let entry = |number| Entry::new(sleeper, Role::OneOf { number, deal });
                let entries = &*Box::leak(Box::new([entry(0), entry(1)]));
                for (r, entry) in [&r1, &r2].into_iter().zip(entries) {
                    let Source::Channel(channel) = &r.source else { unreachable!() };
                    // SAFETY: the entries stay until the end of the model.
                    channel.with(|state| unsafe { state.receivers.waiting.link(entry) });
                }
                sleeping.notify();
                let how = How { reason: WaitReason::Select, wait: Wait::forever(), spin: true };
                let _ = sleeper.sleep(&NoPreempt::hold(), &how, 0, || false);
            });
        });
        sleeping.wait();
        together([wrong(s1), wrong(s2)]);
        receiver.join().unwrap();
    });
}

/// A thread ends while the one that watches it leaves: the watch stays until the ending thread is through
/// with it.
#[test]
fn a_watch_is_left_when_the_thread_is_through_with_it() {
    model(|| {
        let core = Core::new();
        let thread = core.thread();
        let end = loom::thread::spawn(move || assert!(!thread.finish()));
        together([Box::new(move || {
            let sleeper = Sleeper::new();
            // Another thread has won.
            assert!(sleeper.try_claim());
            let watch = Watch::new(thread, &sleeper, 0);
            // SAFETY: it is left before it goes.
            if unsafe { watch.enter() } {
                watch.leave();
            }
        })]);
        end.join().unwrap();
        drop(core);
    });
}
