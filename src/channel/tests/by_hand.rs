//! States of a channel that threads reach rarely, made by hand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{senders, until};
use crate::channel::waiters::{Deal, Entry, Role};
use crate::channel::{Select, SelectedOperation, TryRecvError, bounded, rendezvous};
use crate::park::sleeper::Sleeper;
use crate::park::tests::watched;
use crate::shim::UnsafeCell;

/// Drops an operation, which panics and gives back what it got.
fn give_up(operation: SelectedOperation<'_>) {
    assert!(catch_unwind(AssertUnwindSafe(|| drop(operation))).is_err());
}

/// A thread that selects may still be in a list after another channel has served it. It sends nothing
/// here.
#[test]
fn a_sender_that_was_served_elsewhere_is_passed_over() {
    watched(|| {
        let (s, r) = rendezvous::<u32>();
        let sleeper = Sleeper::new(false);
        assert!(sleeper.try_claim());
        let deal = UnsafeCell::new(Deal::Open);
        let entry = Entry::new(&sleeper, Role::OneOf { number: 0, deal: &deal });
        // SAFETY: in no list. It stays until it is out of this one.
        s.channel.with(|state| unsafe { state.senders.waiting.link(&entry) });
        let mut select = Select::new();
        select.recv(&r);
        assert!(select.try_ready().is_err());
        assert_eq!(senders(&s), 1);
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(senders(&s), 0);
    });
}

/// The channel has no block yet. The sender that gets the room needs one.
#[test]
fn room_is_given_back_with_a_block() {
    watched(|| {
        let (s, r) = bounded(1);
        let mut select = Select::new();
        select.send(&s);
        let operation = select.select();
        std::thread::scope(|scope| {
            scope.spawn(|| s.send(7).unwrap());
            until(|| senders(&s) == 1);
            give_up(operation);
            assert_eq!(r.recv(), Ok(7));
        });
    });
}

/// A message that is given back to a full channel is one too many: the next receive makes no room.
#[test]
fn a_message_too_many_is_in_the_way() {
    watched(|| {
        let (s, r) = bounded(1);
        s.send(1).unwrap();
        let mut select = Select::new();
        select.recv(&r);
        let operation = select.select();
        s.send(2).unwrap();
        give_up(operation);
        assert_eq!(s.len(), 2);
        std::thread::scope(|scope| {
            scope.spawn(|| s.send(3).unwrap());
            until(|| senders(&s) == 1);
            // It comes first, as it was sent first.
            assert_eq!(r.recv(), Ok(1));
            assert_eq!((senders(&s), s.len()), (1, 1));
            assert_eq!(r.recv(), Ok(2));
            assert_eq!((senders(&s), s.len()), (0, 1));
            assert_eq!(r.recv(), Ok(3));
        });
    });
}

/// A rendezvous channel never has room, even if it holds a message that was given back.
#[test]
fn a_message_given_back_to_a_rendezvous_makes_no_room() {
    watched(|| {
        let (s, r) = rendezvous();
        std::thread::scope(|scope| {
            scope.spawn(|| s.send(1).unwrap());
            until(|| senders(&s) == 1);
            let mut select = Select::new();
            select.recv(&r);
            give_up(select.select());
            scope.spawn(|| s.send(2).unwrap());
            until(|| senders(&s) == 1);
            assert_eq!(r.recv(), Ok(1));
            assert_eq!((senders(&s), s.len()), (1, 0));
            assert_eq!(r.recv(), Ok(2));
        });
    });
}
