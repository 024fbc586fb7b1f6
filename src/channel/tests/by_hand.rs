//! States of a channel that threads reach rarely, made by hand.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

use super::{senders, until};
use crate::channel::waiters::{Deal, Entry, Role};
use crate::channel::{Select, SelectedOperation, TryRecvError, bounded, rendezvous, unbounded};
use crate::park::no_preempt;
use crate::park::sleeper::Sleeper;
use crate::park::tests::{unclonable, watched};
use crate::shim::UnsafeCell;

/// Drops an operation, which panics and gives back what it got.
fn give_up(operation: SelectedOperation<'_>) {
    assert!(catch_unwind(AssertUnwindSafe(|| drop(operation))).is_err());
}

/// A thread that selects may still be in a list after another channel has served it. It sends nothing
/// here.
#[test]
fn a_sender_that_was_served_elsewhere_is_passed_over() {
    let _watched = watched();
    let (s, r) = rendezvous::<u32>();
    let sleeper = Sleeper::new();
    assert!(sleeper.try_claim());
    let deal = UnsafeCell::new(Deal::Open);
    let entry = Entry::new(&sleeper, Role::OneOf { number: 0, deal: &deal });
    let mut select = Select::new();
    select.recv(&r);
    for looks in [true, false] {
        // SAFETY: in no list. It stays until it is out of this one.
        s.channel.with(|state| unsafe { state.senders.waiting.link(&entry) });
        if looks {
            assert!(select.try_ready().is_err());
        } else {
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        }
        assert_eq!(senders(&s), 0, "the next look does not find it again");
    }
}

/// The channel has no block yet. The sender that gets the room needs one.
#[test]
fn room_is_given_back_with_a_block() {
    let _watched = watched();
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
}

/// A message that is given back to a full channel is one too many: the next receive makes no room.
#[test]
fn a_message_too_many_is_in_the_way() {
    let _watched = watched();
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
}

/// A rendezvous channel never has room, even if it holds a message that was given back.
#[test]
fn a_message_given_back_to_a_rendezvous_makes_no_room() {
    let _watched = watched();
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
}

/// A `Select` may go to another thread, whatever the messages are. So it drops none, even if it has chosen a
/// receiver that is the last and has given up.
#[test]
fn a_message_that_is_not_send_is_dropped_by_its_own_thread() {
    struct Message(Arc<Mutex<Vec<ThreadId>>>, PhantomData<*const ()>);
    impl Drop for Message {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(thread::current().id());
        }
    }
    let _watched = watched();
    let drops = Arc::default();
    let (s, r) = bounded(2);
    let step = Barrier::new(2);
    let (sender, step) = (&s, &step);
    let (mut here, mut elsewhere) = (Select::new(), Select::new());
    here.send(sender);
    elsewhere.send(sender);
    let message = Message(Arc::clone(&drops), PhantomData);
    thread::scope(move |scope| {
        let (room, more) = (here.select(), here.select());
        let mut receives = r.recv_async();
        let poll = Pin::new(&mut receives).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        scope.spawn(move || {
            // There is no room left, so this chooses the receiver.
            let operation = elsewhere.select();
            step.wait();
            step.wait();
            give_up(operation);
        });
        step.wait();
        room.send(sender, message).unwrap();
        give_up(more);
        drop(receives);
        drop(r);
        step.wait();
    });
    assert!(s.send(Message(Arc::default(), PhantomData)).is_err(), "there is room, but no receiver");
    drop(s);
    assert_eq!(*drops.lock().unwrap(), [thread::current().id()]);
}

/// As of the other messages, they are dropped in their order until one panics.
#[cfg(unix)]
#[test]
fn messages_given_back_are_dropped_first_and_panic_once() {
    struct Bomb(u32, Arc<Mutex<Vec<u32>>>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
            assert!(self.0 < 2, "as the test wants");
        }
    }
    // Two panics at once would abort the process.
    let name = concat!(module_path!(), "::messages_given_back_are_dropped_first_and_panic_once");
    crate::sys::child_tests::isolated(name, || {
        let drops = Arc::default();
        let (s, r) = bounded(3);
        (1..=3).for_each(|n| _ = s.send(Bomb(n, Arc::clone(&drops))));
        let mut select = Select::new();
        select.recv(&r);
        let (first, second) = (select.select(), select.select());
        give_up(second);
        give_up(first);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(r))).is_err());
        assert_eq!(*drops.lock().unwrap(), [1, 2]);
    });
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Each dropped future that had got a message gives it back in a cell.
#[test]
fn cells_of_messages_given_back_are_used_again() {
    let (s, r) = unbounded();
    for n in 0..10 {
        let mut receives = r.recv_async();
        assert!(poll(&mut receives, Waker::noop()).is_pending());
        s.send(n).unwrap();
        drop(receives);
        assert_eq!(r.try_recv(), Ok(n));
    }
    assert_eq!(s.channel.with(|state| state.cells.len()), 1);
}

/// A waker is the user's code. It may take long, and is no handler that has interrupted this crate's code.
#[test]
fn wakers_may_be_preempted() {
    /// Counts the calls, and those at which preemption was forbidden.
    #[derive(Default)]
    struct Asks(AtomicUsize, AtomicUsize);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.1.fetch_add(usize::from(!no_preempt::is_allowed()), Ordering::Relaxed);
        }
    }
    let asks = Arc::<Asks>::default();
    let waker = Waker::from(Arc::clone(&asks));
    let are = |calls| {
        let [called, forbidden] = [&asks.0, &asks.1].map(|count| count.load(Ordering::Relaxed));
        assert_eq!((called, forbidden), (calls, 0));
        assert!(no_preempt::is_allowed());
    };
    // A message, one that is passed on, and the end.
    let (s, r) = unbounded();
    let (mut first, mut second, mut third) = (r.recv_async(), r.recv_async(), r.recv_async());
    assert!(poll(&mut first, &waker).is_pending() && poll(&mut second, &waker).is_pending());
    assert!(poll(&mut third, &waker).is_pending());
    s.send(1).unwrap();
    are(1);
    drop(first);
    are(2);
    drop(s);
    are(3);
    // Room, also by a select.
    let (s, r) = bounded(1);
    s.send(1).unwrap();
    let (mut first, mut second) = (s.send_async(2), s.send_async(3));
    assert!(poll(&mut first, &waker).is_pending() && poll(&mut second, &waker).is_pending());
    r.recv().unwrap();
    are(4);
    let mut select = Select::new();
    select.recv(&r);
    assert_eq!(select.select().recv(&r), Ok(2));
    are(5);
    // A select that sends, and one that gives up.
    let (s, r) = rendezvous();
    let mut select = Select::new();
    select.send(&s);
    let mut receives = r.recv_async();
    assert!(poll(&mut receives, &waker).is_pending());
    give_up(select.select());
    are(6);
    assert!(poll(&mut receives, &waker).is_pending());
    select.select().send(&s, 7).unwrap();
    are(7);
    assert_eq!(poll(&mut receives, &waker), Poll::Ready(Ok(7)));
}

/// The first poll of a send panics, when the message is on its way to where it waits.
#[test]
fn a_waker_that_cannot_be_cloned_loses_no_message() {
    let (s, r) = bounded(1);
    let message = Arc::new(());
    s.send(Arc::clone(&message)).unwrap();
    let mut sends = s.send_async(Arc::clone(&message));
    let waker = unclonable();
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut sends, &waker))).is_err());
    drop(sends);
    assert_eq!(Arc::strong_count(&message), 2, "one is in the channel");
    drop(r.recv());
    let mut receives = r.recv_async();
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut receives, &waker))).is_err());
    s.send(message).unwrap();
    assert_eq!(s.len(), 1, "no future waits");
}
