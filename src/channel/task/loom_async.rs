//! Models of a task at a channel, beside a thread. Its last waker wakes it. No message is lost if its future
//! is dropped meanwhile. Negative models leave a waker without a second look, and leave a dropped future to
//! the winner without a look.

use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use super::{Operation, State, Waiter};
use crate::channel::core::loom_channel::{Letter, channel};
use crate::channel::receiver::Source;
use crate::channel::side::Receives;
use crate::channel::{Receiver, Select, Sender};
use crate::future::block_on;
use crate::park::permit;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Core, Unparks, model, model_within, on, together};
use crate::park::wait::Wait;

type Receive<'a> = Operation<'a, Letter, Receives>;
type LetterWaiter = Waiter<Letter, Receives>;

fn receive(r: &Receiver<Letter>) -> Receive<'_> {
    let Source::Channel(handle) = &r.source else { unreachable!("it is a channel") };
    Operation::new(handle)
}

/// Polls; returns the message.
fn poll(receive: &mut Receive<'_>, waker: &Waker) -> Option<Letter> {
    // SAFETY: it is no send.
    match unsafe { receive.poll(&Context::from_waker(waker), Some(MaybeUninit::uninit())) } {
        // SAFETY: a message was received.
        Poll::Ready((frame, true)) => Some(unsafe { frame.assume_init() }),
        Poll::Ready((_, false)) => panic!("the sender is there"),
        Poll::Pending => None,
    }
}

/// One side is a task that its thread runs, the other a thread.
fn one_message(capacity: Option<usize>, sends: bool) {
    let (s, r) = channel(capacity);
    let send = move || match sends {
        true => block_on(s.send_async(Letter::new(7))).unwrap(),
        false => s.send(Letter::new(7)).unwrap(),
    };
    let receive = move || {
        let letter = if sends { r.recv() } else { block_on(r.recv_async()) };
        assert_eq!(letter.unwrap().read(), 7);
    };
    together([Box::new(send), Box::new(receive)]);
}

#[test]
fn a_task_receives() {
    model(|| one_message(Some(1), false));
}

#[test]
fn a_task_receives_without_a_buffer() {
    model(|| one_message(Some(0), false));
}

#[test]
fn a_task_sends_without_a_buffer() {
    model(|| one_message(Some(0), true));
}

/// Runs `task` as one thread, while another sends a message.
fn beside_a_send(
    capacity: Option<usize>,
    send: fn(Sender<Letter>),
    task: impl FnOnce(&Receiver<Letter>, &dyn Fn() -> Waker),
) {
    let (mine, theirs) = (Core::new(), Core::new());
    let (me, other, alive) = (mine.thread(), theirs.thread(), Arc::new(AtomicUsize::new(0)));
    permit::unpark(me);
    on(me, || permit::park(Wait::forever, WaitReason::Park).unwrap());
    let (s, r) = channel(capacity);
    // After a deadlock, nothing may be dropped that has an atomic.
    let r = ManuallyDrop::new(r);
    let sender = loom::thread::spawn(move || on(other, || send(s)));
    on(me, || task(&r, &|| Unparks::new(me, &alive)));
    on(me, || drop(ManuallyDrop::into_inner(r)));
    sender.join().unwrap();
    assert_eq!(alive.load(Relaxed), 0, "wakers left behind");
}

/// A waiting task is polled with another waker by `again`, which returns `true` if its turn has come. It then
/// waits for that waker.
fn another_waker(again: fn(&LetterWaiter, &Waker) -> bool) {
    beside_a_send(
        None,
        |s| s.send(Letter::new(7)).unwrap(),
        |r, waker| {
            let mut receive = ManuallyDrop::new(receive(r));
            let mut letter = poll(&mut receive, Waker::noop());
            let last = waker();
            if letter.is_none() && !again(receive.waiter.as_ref().unwrap(), &last) {
                permit::park(Wait::forever, WaitReason::Park).unwrap();
            }
            letter = letter.or_else(|| poll(&mut receive, &last));
            assert_eq!(letter.expect("it was woken").read(), 7);
            drop(ManuallyDrop::into_inner(receive));
        },
    );
}

#[test]
fn a_task_gets_another_waker() {
    model(|| another_waker(|waiter, waker| waiter.poll(waker).is_some()));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_waker_is_left_without_a_second_look() {
    let again = |waiter: &LetterWaiter, waker: &Waker| {
        if waiter.sleep.sleeper().settled().is_some() {
            return true;
        }
        let _old = waiter.state.with(|state| mem::replace(state, State::Waits(waker.clone())));
        false
    };
    model(move || another_waker(again));
}

/// A waiting task's future is dropped by `drops`. Then the message is received by the thread.
fn dropped(capacity: Option<usize>, send: fn(Sender<Letter>), drops: fn(Receive<'_>)) {
    beside_a_send(capacity, send, |r, waker| {
        let mut receive = receive(r);
        match poll(&mut receive, &waker()) {
            Some(letter) => assert_eq!(letter.read(), 7),
            None => {
                drops(receive);
                assert_eq!(r.recv().expect("a message is lost").read(), 7);
            }
        }
    });
}

#[test]
fn a_future_is_dropped() {
    model(|| dropped(None, |s| s.send(Letter::new(7)).unwrap(), |receive| drop(receive)));
}

#[test]
fn a_future_is_dropped_without_a_buffer() {
    model(|| dropped(Some(0), |s| s.send(Letter::new(7)).unwrap(), |receive| drop(receive)));
}

/// A select has won the task, and makes its message while the future is dropped.
#[test]
fn a_future_is_dropped_that_a_select_has_won() {
    model_within(1, || {
        let send = |s: Sender<Letter>| {
            let mut select = Select::new();
            select.send(&s);
            select.select().send(&s, Letter::new(7)).unwrap();
        };
        dropped(Some(0), send, |receive| drop(receive));
    });
}

/// The drop leaves it to the winner, which may be through already.
#[test]
#[should_panic(expected = "a message is lost")]
fn negative_a_dropped_future_does_not_look() {
    let drops = |mut receive: Receive<'_>| {
        let waiter = receive.waiter.take().unwrap();
        if receive.handle.with(|state| state.receivers.waiting.unlink(waiter.entry())) {
            // SAFETY: the share of the list.
            return drop(unsafe { Arc::from_raw(Arc::as_ptr(&waiter)) });
        }
        let left = State::Left(receive.handle.clone());
        drop(waiter.state.with(|state| mem::replace(state, left)));
        // What is left there keeps the channel, and is in it itself.
        drop(waiter.state.with(|state| mem::replace(state, State::Told)));
    };
    model(move || dropped(None, |s| s.send(Letter::new(7)).unwrap(), drops));
}

/// The sender goes while a future is dropped, or waits.
#[test]
fn the_sender_goes() {
    model(|| {
        beside_a_send(None, drop, |r, waker| {
            let mut receive = receive(r);
            // SAFETY: it is no send.
            let poll = |receive: &mut Receive<'_>| unsafe {
                receive.poll(&Context::from_waker(&waker()), Some(MaybeUninit::uninit()))
            };
            if poll(&mut receive).is_pending() {
                drop(receive);
                assert!(r.recv().is_err());
            }
        });
    });
}
