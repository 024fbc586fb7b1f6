//! Models of channels: messages, closing, deadlines and interrupts, between two and three threads.
//! Negative models leave a step out.

use std::mem::ManuallyDrop;

use super::super::waiters::Entry;
use super::super::{Receiver, Sender, bounded, unbounded};
use super::{After, Channel, Locked, Step};
use crate::channel::error::{RecvTimeoutError, SendTimeoutError};
use crate::channel::wait::Refusal;
use crate::park::current::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{How, Sleeper, Slept};
use crate::park::tests::loom_model::{
    Green, both_outcomes, deadline, instant, model, model_within, on, spawn_with, together,
};
use crate::park::wait::{Wait, WaitError};
use crate::shim::{UnsafeCell, strike};
use crate::time::Moment;

/// A message: loom reports a thread that reads it without having got it properly.
pub(in crate::channel) struct Letter(Box<UnsafeCell<u32>>);

// SAFETY: what the models are to show: loom reports accesses that are not ordered.
unsafe impl Send for Letter {}

impl Letter {
    pub(in crate::channel) fn new(text: u32) -> Self {
        let letter = Self(Box::default());
        // SAFETY: checked by loom.
        letter.0.with_mut(|letter| unsafe { *letter = text });
        letter
    }

    pub(in crate::channel) fn read(&self) -> u32 {
        // SAFETY: checked by loom.
        self.0.with(|letter| unsafe { *letter })
    }
}

/// Creates a channel with all its parts in place.
pub(in crate::channel) fn channel(capacity: Option<usize>) -> (Sender<Letter>, Receiver<Letter>) {
    let (s, r) = capacity.map_or_else(unbounded, bounded);
    touch(&s);
    (s, r)
}

fn touch(s: &Sender<Letter>) {
    s.channel.supply(Step::NeedsBlock);
    s.channel.supply(Step::NeedsCell);
    // Both ends are open.
    let _: bool = s.channel.with(|state| state.has_slot());
}

type Both = (Sender<Letter>, Receiver<Letter>);

/// Creates two channels. Their locks are in the same order in every execution.
pub(in crate::channel) fn two_channels(capacity: Option<usize>) -> (Both, Both) {
    let make = || capacity.map_or_else(unbounded, bounded);
    let (one, two): (Both, Both) = (make(), make());
    let address = |(s, _): &Both| std::ptr::from_ref::<Channel<Letter>>(&s.channel).addr();
    let (one, two) = if address(&one) < address(&two) { (one, two) } else { (two, one) };
    touch(&one.0);
    touch(&two.0);
    (one, two)
}

pub(in crate::channel) type Body = Box<dyn FnOnce() + Send>;

/// One thread sends, one receives.
fn one_message(capacity: Option<usize>) {
    let (s, r) = channel(capacity);
    let send: Body = Box::new(move || s.send(Letter::new(7)).unwrap());
    together([send, Box::new(move || assert_eq!(r.recv().unwrap().read(), 7))]);
}

#[test]
fn a_message_passes_through_a_buffer() {
    model(|| one_message(Some(1)));
}

#[test]
fn a_message_passes_without_a_buffer() {
    model(|| one_message(Some(0)));
}

#[test]
fn a_green_receiver_is_woken() {
    model(|| {
        let (s, r) = channel(Some(0));
        let green = Green::new();
        let receiver = spawn_with(green.clone(), move |green| {
            on(green.thread(), || assert_eq!(r.recv().unwrap().read(), 7))
        });
        together([Box::new(move || s.send(Letter::new(7)).unwrap())]);
        receiver.join().unwrap();
    });
}

#[test]
fn a_green_sender_is_woken() {
    model(|| {
        let (s, r) = channel(Some(1));
        assert!(s.try_send(Letter::new(1)).is_ok());
        let green = Green::new();
        let sender =
            spawn_with(green.clone(), move |green| on(green.thread(), || s.send(Letter::new(2)).unwrap()));
        together([Box::new(move || {
            assert_eq!((r.recv().unwrap().read(), r.recv().unwrap().read()), (1, 2));
        })]);
        sender.join().unwrap();
    });
}

#[test]
fn two_senders_and_a_receiver() {
    model_within(1, || {
        let (s, r) = channel(Some(1));
        let t = s.clone();
        together([
            Box::new(move || s.send(Letter::new(1)).unwrap()),
            Box::new(move || t.send(Letter::new(2)).unwrap()),
            Box::new(move || assert_eq!(r.recv().unwrap().read() + r.recv().unwrap().read(), 3)),
        ]);
    });
}

#[test]
fn a_closed_channel_ends_a_receive() {
    model(|| {
        let (s, r) = channel(Some(1));
        together([Box::new(move || drop(s)), Box::new(move || assert!(r.recv().is_err()))]);
    });
}

#[test]
fn a_closed_channel_ends_a_send() {
    for capacity in [0, 1] {
        model(move || {
            let (s, r) = channel(Some(capacity));
            if capacity == 1 {
                assert!(s.try_send(Letter::new(1)).is_ok());
            }
            let send = move || assert_eq!(s.send(Letter::new(7)).unwrap_err().into_inner().read(), 7);
            together([Box::new(send), Box::new(move || drop(r))]);
        });
    }
}

/// A message that was sent before the last sender went is received.
#[test]
fn a_message_comes_before_the_end() {
    model(|| {
        let (s, r) = channel(None);
        let send = move || s.send(Letter::new(7)).unwrap();
        let receive = move || {
            assert_eq!(r.recv().unwrap().read(), 7);
            assert!(r.recv().is_err());
        };
        together([Box::new(send), Box::new(receive)]);
    });
}

#[test]
fn a_deadline_and_a_message_agree() {
    both_outcomes(model, |seen| {
        let (s, r) = channel(Some(0));
        let seen = seen.clone();
        let receive = move || match r.recv_deadline(instant()) {
            Ok(letter) => {
                assert_eq!(letter.read(), 7);
                seen.saw(false);
            }
            Err(error) => {
                assert_eq!(error, RecvTimeoutError::Timeout);
                seen.saw(true);
                // It is still with its sender.
                assert_eq!(r.recv().unwrap().read(), 7);
            }
        };
        let clock = loom::thread::spawn(strike);
        together([Box::new(receive), Box::new(move || s.send(Letter::new(7)).unwrap())]);
        clock.join().unwrap();
    });
}

#[test]
fn a_deadline_of_a_sender_and_a_receiver_agree() {
    both_outcomes(model, |seen| {
        let (s, r) = channel(Some(0));
        let seen = seen.clone();
        let send = move || match s.send_deadline(Letter::new(7), instant()) {
            Ok(()) => seen.saw(false),
            Err(SendTimeoutError::Timeout(letter)) => {
                seen.saw(true);
                s.send(letter).unwrap();
            }
            Err(error) => panic!("{error}"),
        };
        let clock = loom::thread::spawn(strike);
        together([Box::new(send), Box::new(move || assert_eq!(r.recv().unwrap().read(), 7))]);
        clock.join().unwrap();
    });
}

#[test]
fn an_interrupt_and_a_message_agree() {
    model_within(1, || {
        let (s, r) = channel(Some(1));
        let receive = move || {
            let me = current();
            let interrupter = loom::thread::spawn(move || me.interrupt());
            match r.recv_with(Wait::forever().interruptible()) {
                Ok(letter) => assert_eq!(letter.read(), 7),
                Err(_) => assert_eq!(r.recv().unwrap().read(), 7),
            }
            interrupter.join().unwrap();
        };
        together([Box::new(receive), Box::new(move || s.send(Letter::new(7)).unwrap())]);
    });
}

/// Receives by parts, for models that do one of them wrong.
fn receive_by(
    channel: &Channel<Letter>,
    step: impl Fn(&mut Locked<'_, Letter>, *mut Letter, &Entry, &mut After) -> Step,
    late: bool,
    deadline: Option<Moment>,
    withdraw: impl Fn(&Channel<Letter>, &Entry) -> bool,
) -> Option<Letter> {
    let frame = UnsafeCell::new(std::mem::MaybeUninit::<Letter>::uninit());
    let into = frame.with_mut(|frame| frame.cast::<Letter>());
    let sleeper = Sleeper::new();
    let entry = Entry::alone(&sleeper, &frame);
    let no_preempt = NoPreempt::hold();
    let mut after = After::nothing();
    let looked = channel.with(|state| step(state, into, &entry, &mut after));
    after.finish();
    if looked == Step::Waits && late {
        // SAFETY: in no list; its frame lasts until it is out of this one.
        channel.with(|state| unsafe { state.receivers.waiting.link(&entry) });
    }
    if looked == Step::Waits {
        let how = How { reason: WaitReason::Receive, wait: Wait::by(deadline), spin: true };
        match sleeper.sleep(&no_preempt, &how, 0, || withdraw(channel, &entry)) {
            Slept::Granted(_) => {}
            _ => return None,
        }
    }
    // SAFETY: a message has been moved there.
    Some(unsafe { into.read() })
}

/// A receiver looks and queues in two critical sections: the message that comes in between wakes no
/// thread.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_looked_before_queued() {
    model(|| {
        // No destructors: they would be steps of a model that has ended.
        let (s, r) = channel(Some(1));
        let (s, r) = (ManuallyDrop::new(s), ManuallyDrop::new(r));
        let wrong = move || {
            let super::super::receiver::Source::Channel(channel) = &r.source else { unreachable!() };
            // SAFETY: `into` may be written.
            let look = |state: &mut Locked<'_, Letter>, into, entry: &Entry, after: &mut After| unsafe {
                state.receive(into, Some(entry), after)
            };
            let letter = receive_by(channel, look, true, None, |_, _| false);
            assert_eq!(letter.unwrap().read(), 7);
        };
        let send = move || {
            let Ok(()) = s.channel.send(Letter::new(7), None) else { panic!("there is room") };
        };
        together([Box::new(wrong), Box::new(send)]);
    });
}

/// A receiver at its deadline does not ask if a sender has won it: it does not take a message that was
/// given to it.
#[test]
#[should_panic(expected = "lost")]
fn negative_expired_without_asking() {
    model(|| {
        let (s, r) = channel(Some(0));
        let (s, r) = (ManuallyDrop::new(s), ManuallyDrop::new(r));
        let wrong = move || {
            let super::super::receiver::Source::Channel(channel) = &r.source else { unreachable!() };
            let look = |state: &mut Locked<'_, Letter>, into, entry: &Entry, after: &mut After| {
                // SAFETY: `into` may be written.
                let step = unsafe { state.receive(into, Some(entry), after) };
                if step == Step::Waits {
                    // SAFETY: in no list; its frame lasts until it is out of this one.
                    unsafe { state.receivers.waiting.link(entry) };
                }
                step
            };
            let got = receive_by(channel, look, false, deadline(), |channel, entry| {
                channel.with(|state| state.receivers.waiting.unlink(entry));
                true
            });
            got.is_some()
        };
        let clock = loom::thread::spawn(strike);
        let sent = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let received = sent.clone();
        let send = move || {
            let did = match s.channel.send(Letter::new(7), None) {
                Ok(()) => true,
                Err((_, refusal)) => refusal != Refusal::Ended(WaitError::TimedOut),
            };
            sent.store(did, std::sync::atomic::Ordering::Relaxed);
        };
        let got = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let tell = got.clone();
        let receive = move || tell.store(wrong(), std::sync::atomic::Ordering::Relaxed);
        together([Box::new(receive), Box::new(send)]);
        clock.join().unwrap();
        let (sent, got) = (
            received.load(std::sync::atomic::Ordering::Relaxed),
            got.load(std::sync::atomic::Ordering::Relaxed),
        );
        assert_eq!(sent, got, "a message is lost");
    });
}

/// The last sender goes at the moment at which a receiver gives up: neither touches what is the other's.
#[test]
fn a_deadline_and_the_end_agree() {
    model(|| {
        let (s, r) = channel(None);
        let receive: Body = Box::new(move || assert!(r.recv_deadline(instant()).is_err()));
        let clock = loom::thread::spawn(strike);
        together([receive, Box::new(move || drop(s))]);
        clock.join().unwrap();
    });
}
