//! Models of messages that pass without the lock. They claim at both ends, use blocks again, and shut ends
//! for a thread that waits or goes. Negative models leave out the stamp, or the look at all stamps, or leave
//! an end open.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::core::loom_channel::{Body, Letter, channel};
use super::super::core::{Channel, ChannelState, Step};
use super::super::receiver::Source;
use super::super::segments::{Block, TICKET};
use super::super::wait::Refusal;
use super::super::waiters::{Entry, List};
use super::super::{Receiver, Sender};
use super::Passed;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{How, Sleeper};
use crate::park::tests::loom_model::{Letter as Deed, model, model_within, together};
use crate::park::wait::Wait;
use crate::shim::UnsafeCell;

fn inside(r: &Receiver<Letter>) -> &Channel<Letter> {
    let Source::Channel(channel) = &r.source else { unreachable!() };
    channel
}

fn send_all(s: &Sender<Letter>, texts: impl IntoIterator<Item = u32>) {
    texts.into_iter().for_each(|text| s.send(Letter::new(text)).unwrap());
}

#[test]
fn two_senders_have_a_ticket_each() {
    model_within(1, || {
        let (s, r) = channel(None);
        let t = s.clone();
        together([
            Box::new(move || send_all(&s, [1])),
            Box::new(move || send_all(&t, [2])),
            Box::new(move || assert_eq!(r.recv().unwrap().read() + r.recv().unwrap().read(), 3)),
        ]);
    });
}

#[test]
fn two_receivers_have_a_message_each() {
    model(|| {
        let (s, r) = channel(None);
        send_all(&s, [1, 2]);
        let (u, sum) = (r.clone(), Arc::new(AtomicU32::new(0)));
        let receive = |r: Receiver<Letter>| -> Body {
            let sum = sum.clone();
            Box::new(move || _ = sum.fetch_add(r.recv().unwrap().read(), Ordering::Relaxed))
        };
        together([receive(r), receive(u)]);
        assert_eq!(sum.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_length_is_that_of_one_moment() {
    model(|| {
        let (s, r) = channel(None);
        let u = r.clone();
        let one_after_the_other = move || {
            for n in 1..3 {
                send_all(&s, [n]);
                assert_eq!(u.recv().unwrap().read(), n);
            }
        };
        together([Box::new(one_after_the_other), Box::new(move || assert!(r.len() <= 1))]);
    });
}

/// Three messages are more than a block.
#[test]
fn messages_pass_from_block_to_block() {
    for capacity in [None, Some(2), Some(1)] {
        model_within(1, move || {
            let (s, r) = channel(capacity);
            let receive = move || (1..4).for_each(|n| assert_eq!(r.recv().unwrap().read(), n));
            together([Box::new(move || send_all(&s, 1..4)), Box::new(receive)]);
        });
    }
}

/// One receiver copies its message. The other leaves the block behind, which is then needed again.
fn use_blocks_again(before_the_last: impl Fn(&Channel<Letter>) + Send + Sync + Copy + 'static) {
    model_within(1, move || {
        let (s, r) = channel(None);
        send_all(&s, [1, 1]);
        // No destructors: they would be steps of a model that has ended.
        let (s, u, r) = (ManuallyDrop::new(s), ManuallyDrop::new(r.clone()), ManuallyDrop::new(r));
        // Any of the three messages: the other receiver may be faster.
        let receive = move || assert!(r.recv().unwrap().read() <= 2);
        let go_on = move || {
            assert!(u.recv().unwrap().read() <= 2);
            send_all(&s, [2]);
            assert!(u.recv().unwrap().read() <= 2);
            before_the_last(inside(&u));
            send_all(&s, [3, 4]);
        };
        together([Box::new(receive), Box::new(go_on)]);
    });
}

#[test]
fn a_block_is_used_again_when_no_thread_is_in_it() {
    use_blocks_again(|_| ());
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_a_block_is_used_again_unseen() {
    use_blocks_again(|channel| channel.with(|state| state.store.sweep_unseen()));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_taken_before_the_stamp() {
    model(|| {
        let (s, r) = channel(None);
        let (s, r) = (ManuallyDrop::new(s), ManuallyDrop::new(r));
        let receive = move || {
            let ends = &inside(&r).ends;
            let Ok((ticket, block)) = ends.head.claim(|| ends.tail.ticket()) else { return };
            let mut message = MaybeUninit::<Letter>::uninit();
            // SAFETY: the ticket has been claimed. The message may not be there: that is the bug.
            unsafe { Block::position(block, ticket).take_unseen(message.as_mut_ptr()) };
        };
        together([Box::new(receive), Box::new(move || send_all(&s, [7]))]);
    });
}

/// Makes a sleep known, and begins it, although the end at which others pass is open.
fn sleep_with_the_end_open(
    channel: &Channel<Letter>,
    message: MaybeUninit<Letter>,
    list: fn(&mut ChannelState<Letter>) -> &mut List,
    must_wait: fn(&super::Ends<Letter>) -> bool,
) {
    let frame = UnsafeCell::new(message);
    let sleeper = Sleeper::new();
    let entry = Entry::alone(&sleeper, &frame);
    let no_preempt = NoPreempt::hold();
    let waits = channel.with(|state| {
        let waits = must_wait(state.ends);
        if waits {
            // SAFETY: it stays until it has been taken out.
            unsafe { list(state.state).link(&entry) };
        }
        waits
    });
    if waits {
        let how = How { reason: WaitReason::Receive, wait: Wait::forever(), spin: true };
        let _ = sleeper.sleep(&no_preempt, &how, 0, || false);
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_receiver_waits_with_the_end_open() {
    model(|| {
        let (s, r) = channel(Some(1));
        let (s, r) = (ManuallyDrop::new(s), ManuallyDrop::new(r));
        let wait = move || {
            let empty = |ends: &super::Ends<Letter>| ends.is_empty();
            sleep_with_the_end_open(
                inside(&r),
                MaybeUninit::uninit(),
                |state| &mut state.receivers.waiting,
                empty,
            );
        };
        together([Box::new(wait), Box::new(move || send_all(&s, [7]))]);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_sender_waits_with_the_end_open() {
    model(|| {
        let (s, r) = channel(Some(1));
        send_all(&s, [1]);
        let (s, r) = (ManuallyDrop::new(s), ManuallyDrop::new(r));
        let wait = move || {
            let full = |ends: &super::Ends<Letter>| ends.len() == 1;
            let message = MaybeUninit::new(Letter::new(7));
            sleep_with_the_end_open(&s.channel, message, |state| &mut state.senders.waiting, full);
        };
        together([Box::new(wait), Box::new(move || assert_eq!(r.recv().unwrap().read(), 1))]);
    });
}

/// A message that holds a count while it exists.
struct Counted {
    _count: Arc<()>,
    letter: Letter,
}

/// A message is on its way when the last receiver goes. It comes back, or is dropped with those of the
/// channel; once.
#[test]
fn a_message_on_its_way_and_the_end_agree() {
    model(|| {
        let count = Arc::new(());
        let (s, r) = super::super::unbounded();
        let channel: &Channel<Counted> = &s.channel;
        channel.supply(Step::NeedsBlock);
        let _: bool = channel.with(|state| state.has_slot());
        assert!(s.try_send(Counted { _count: count.clone(), letter: Letter::new(1) }).is_ok());
        let message = Counted { _count: count.clone(), letter: Letter::new(2) };
        let send = move || {
            if let Err(back) = s.send(message) {
                assert_eq!(back.into_inner().letter.read(), 2);
            }
        };
        together([Box::new(send), Box::new(move || drop(r))]);
        assert_eq!(Arc::strong_count(&count), 1, "a message is lost");
    });
}

/// The rest is dropped at once. A sender that has claimed its ticket, and not written yet, writes into
/// memory that is gone.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_what_is_left_is_not_waited_for() {
    model(|| {
        let (s, r) = channel(None);
        let (s, r) = (ManuallyDrop::new(s), ManuallyDrop::new(r));
        let go = move || {
            let channel = inside(&r);
            channel.with(|state| {
                state.ends.tail.shut();
                state.ends.head.shut();
            });
            let (first, end) = (channel.ends.head.ticket(), channel.ends.tail.ticket());
            let block = channel.ends.head.block();
            let mut ticket = first;
            while ticket != end {
                let mut message = MaybeUninit::<Letter>::uninit();
                // SAFETY: it is not safe: that is the bug.
                unsafe { Block::position(block, ticket).take_unseen(message.as_mut_ptr()) };
                ticket = ticket.wrapping_add(TICKET);
            }
        };
        together([Box::new(go), Box::new(move || send_all(&s, [7]))]);
    });
}

/// The last receiver goes and leaves the end open: a message is sent to no receiver.
#[test]
#[should_panic(expected = "sent to no receiver")]
fn negative_gone_with_the_end_open() {
    model(|| {
        let (s, r) = channel(None);
        let (s, r) = (ManuallyDrop::new(s), ManuallyDrop::new(r));
        inside(&r).with(|state| state.state.receivers.gone = true);
        together([Box::new(move || {
            let sent = s.channel.send(Letter::new(7), None);
            assert_eq!(sent.map_err(|(_, why)| why), Err(Refusal::Disconnected), "sent to no receiver");
        })]);
    });
}

/// There is no more room than the capacity, whatever old limits are remembered.
#[test]
fn two_senders_share_the_room_of_one() {
    model(|| {
        let (s, r) = channel(Some(1));
        let sent = Arc::new(AtomicU32::new(0));
        let send = |text| -> Body {
            let (s, sent) = (s.clone(), sent.clone());
            Box::new(move || {
                let ok = s.try_send(Letter::new(text)).is_ok();
                sent.fetch_add(u32::from(ok), Ordering::Relaxed);
            })
        };
        together([send(1), send(2)]);
        assert_eq!((sent.load(Ordering::Relaxed), r.len()), (1, 1));
        let into = &mut MaybeUninit::<Letter>::uninit();
        // SAFETY: it may be written.
        let passed = unsafe { inside(&r).ends.pop(into.as_mut_ptr()) };
        assert_eq!(passed, Passed::Yes);
        // SAFETY: a message has been moved there.
        unsafe { into.assume_init_ref() }.read();
        // SAFETY: a message has been moved there; used once.
        drop(unsafe { into.assume_init_read() });
    });
}

/// What a receiver has done before it makes room happens before the send that uses the room returns. One
/// sender may have found the room, and another use it.
fn a_send_comes_after(receive: fn(&Receiver<Letter>)) {
    model_within(1, move || {
        let (s, r) = channel(Some(1));
        send_all(&s, [1]);
        // Something that a thread has done, for others to look at.
        let deed: Arc<Deed> = Arc::default();
        let send = |text| -> Body {
            let (s, deed) = (s.clone(), deed.clone());
            Box::new(move || {
                if s.try_send(Letter::new(text)).is_ok() {
                    assert_eq!(deed.read(), 1);
                }
            })
        };
        let bodies = [send(2), send(3)];
        // The receiver's handle outlives the sends, which would find the channel disconnected otherwise.
        let u = r.clone();
        let receive = move || {
            deed.write(1);
            receive(&u);
            // To be dropped last.
            drop(s);
        };
        let [one, other] = bodies;
        together([Box::new(receive), one, other]);
        drop(r);
    });
}

#[test]
fn a_send_comes_after_the_receive_that_made_its_room() {
    a_send_comes_after(|r| assert_eq!(r.recv().unwrap().read(), 1));
}

/// The senders' end is open all the time.
#[test]
fn a_send_comes_after_the_receive_with_the_lock_that_made_its_room() {
    a_send_comes_after(|r| {
        let (mut message, mut garbage) = (MaybeUninit::<Letter>::uninit(), None);
        let is_there = inside(r).with(|state| {
            let is_there = state.keeps_message();
            if is_there {
                // SAFETY: there is a message, and the end is shut; it may be written.
                unsafe { state.pop(message.as_mut_ptr(), &mut garbage) };
            }
            is_there
        });
        assert!(is_there);
        // SAFETY: a message has been moved there, and is used once.
        assert_eq!(unsafe { message.assume_init_read() }.read(), 1);
    });
}

/// A sender claims a ticket of the block that another sender has put there.
#[test]
fn a_sender_follows_another_into_the_next_block() {
    model_within(1, || {
        let (s, r) = channel(None);
        send_all(&s, [1]);
        let t = s.clone();
        together([Box::new(move || send_all(&s, [2, 4])), Box::new(move || send_all(&t, [8]))]);
        assert_eq!((0..4).map(|_| r.try_recv().unwrap().read()).sum::<u32>(), 15);
    });
}

/// A receiver claims a ticket of the block to which another receiver has moved the end.
#[test]
fn a_receiver_follows_another_into_the_next_block() {
    model_within(1, || {
        let (s, r) = channel(None);
        send_all(&s, [1, 2, 4, 8]);
        let (u, sum) = (r.clone(), Arc::new(AtomicU32::new(0)));
        let receive = |r: Receiver<Letter>, times| -> Body {
            let sum = sum.clone();
            Box::new(move || {
                for _ in 0..times {
                    sum.fetch_add(r.recv().unwrap().read(), Ordering::Relaxed);
                }
            })
        };
        together([receive(r, 3), receive(u, 1)]);
        assert_eq!(sum.load(Ordering::Relaxed), 15);
    });
}

/// Handles of both sides go at once. The last of them frees the channel after all that the others have done.
#[test]
fn the_last_handle_frees_the_channel() {
    model_within(2, || {
        let (s, r) = channel(Some(1));
        let t = s.clone();
        together([Box::new(move || drop(s)), Box::new(move || drop(t)), Box::new(move || drop(r))]);
    });
}
