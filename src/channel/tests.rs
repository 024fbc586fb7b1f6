//! Channels between kernel threads: kinds, order of service, and what only the inside shows.

mod by_hand;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::receiver::Source;
use super::segments::{Block, OwnedBlock, Store, TICKET};
use super::{
    Receiver, RecvError, RecvTimeoutError, RecvWithError, Select, SendError, SendTimeoutError, SendWithError,
    Sender, TryRecvError, TrySendError, bounded, rendezvous, unbounded,
};
use crate::mxn::Mxn;
use crate::onetoone::OneToOne;
use crate::park::tests::{until, watched};
use crate::runtime::Runtime;
use crate::thread::{Builder, Priority};

#[test]
fn kinds_are_as_in_crossbeam() {
    fn both<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    both::<Sender<u32>>();
    both::<Receiver<std::cell::Cell<u32>>>();
    fn sent<T: Send + Sync>() {}
    sent::<Select<'_>>();
    sent::<super::IntoIter<u32>>();

    /// For a type that is `Send`, two impls match: it cannot name the trait without saying which.
    trait NotSend<A> {
        fn check() {}
    }
    impl<T: ?Sized> NotSend<()> for T {}
    impl<T: ?Sized + Send> NotSend<u8> for T {}
    // Compile only because these are not `Send`.
    <Sender<std::rc::Rc<u32>> as NotSend<_>>::check();
    <Receiver<std::rc::Rc<u32>> as NotSend<_>>::check();

    assert_eq!(
        format!("{:?} {:?}", bounded::<u32>(1).0, bounded::<u32>(1).1),
        "Sender { .. } Receiver { .. }"
    );
    assert_eq!(format!("{:?}", Select::new()), "Select { .. }");
    let (s, r) = unbounded::<u32>();
    assert!(s.same_channel(&s.clone()) && r.same_channel(&r.clone()));
    assert!(!s.same_channel(&unbounded().0) && !r.same_channel(&unbounded().1));
}

/// Returns how many threads wait to receive.
fn receivers<T>(s: &Sender<T>) -> usize {
    s.channel.with(|state| state.receivers.waiting.len())
}

fn senders<T>(s: &Sender<T>) -> usize {
    s.channel.with(|state| state.senders.waiting.len())
}

/// Green threads are served in order of arrival; of kernel threads, the last is first.
#[test]
fn the_order_of_service() {
    if !crate::sys::tcb::SUPPORTED {
        return println!("skipped: there are no green threads here");
    }
    let _watched = watched();
    let serve = |spawn: &dyn Fn(Receiver<u32>) -> crate::thread::JoinHandle<u32>| {
        let (s, r) = unbounded();
        let mut waiters = Vec::new();
        for n in 0..6 {
            waiters.push(spawn(r.clone()));
            until(|| receivers(&s) == n + 1);
        }
        (0..6).for_each(|n| s.send(n).unwrap());
        waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect::<Vec<_>>()
    };
    let green = crate::Mxn::new().unwrap();
    assert!(serve(&|r| green.spawn(move || r.recv().unwrap())).into_iter().eq(0..6));
    let kernel = OneToOne::new().unwrap();
    assert!(serve(&|r| kernel.spawn(move || r.recv().unwrap())).into_iter().eq((0..6).rev()));
}

/// Threads of one priority do not pass each other, however many have been served.
#[test]
fn a_long_line_of_equals_keeps_its_order() {
    let _watched = watched();
    let (s, r) = unbounded();
    std::thread::scope(|scope| {
        let mut waiters = Vec::new();
        for n in 0..20 {
            waiters.push(scope.spawn(|| r.recv().unwrap()));
            until(|| receivers(&s) == n + 1);
        }
        (0..20).for_each(|n| s.send(n).unwrap());
        let got: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        // The last comes first, but one of sixteen has gone to the back.
        let order = (17..20).rev().chain((0..16).rev()).chain([16]);
        assert!(order.enumerate().all(|(message, waiter)| got[waiter] == message), "{got:?}");
    });
}

/// No thread waits forever: every 16th goes to the back.
#[test]
fn the_first_to_come_is_served_at_last() {
    let _watched = watched();
    let (s, r) = rendezvous();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| s.send(0).unwrap());
        until(|| senders(&s) == 1);
        for n in 1..40 {
            scope.spawn(|| s.send(1).unwrap());
            until(|| senders(&s) == 2);
            if r.recv().unwrap() == 0 {
                assert!((10..=16).contains(&n), "{n}");
                assert_eq!(r.recv(), Ok(1));
                first.join().unwrap();
                return;
            }
        }
        unreachable!("forty have passed it");
    });
}

#[test]
fn urgent_threads_are_served_first_and_the_others_too() {
    let _watched = watched();
    let rt = OneToOne::new().unwrap();
    let (s, r) = unbounded();
    let mut waiters = Vec::new();
    for (n, priority) in
        [Priority::Low, Priority::Normal, Priority::High, Priority::Normal].into_iter().enumerate()
    {
        let r = r.clone();
        let builder = Builder::new().priority(priority);
        waiters.push(rt.spawn_with(builder, move || r.recv().unwrap()).unwrap());
        until(|| receivers(&s) == n + 1);
    }
    (0..4).for_each(|n| s.send(n).unwrap());
    let got: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
    assert_eq!(got, [3, 2, 0, 1]);
    // A waiter that has let enough others pass goes next, whatever its priority.
    let low = {
        let r = r.clone();
        rt.spawn_with(Builder::new().priority(Priority::Low), move || r.recv().unwrap()).unwrap()
    };
    until(|| receivers(&s) == 1);
    let mut high = Vec::new();
    for n in 0..20 {
        let r = r.clone();
        high.push(rt.spawn_with(Builder::new().priority(Priority::High), move || r.recv().unwrap()).unwrap());
        until(|| receivers(&s) == n + 2);
    }
    (0..21).for_each(|n| s.send(n).unwrap());
    assert_eq!(low.join().unwrap(), 16);
    high.into_iter().for_each(|thread| assert_ne!(thread.join().unwrap(), 16));
}

/// Of several green threads that were passed, the one that has waited longest goes first.
#[test]
fn passed_green_threads_go_in_order() {
    if !crate::sys::tcb::SUPPORTED {
        return println!("skipped: there are no green threads here");
    }
    let _watched = watched();
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let (s, r) = unbounded();
    let mut waiters = Vec::new();
    let priorities = [Priority::High].into_iter().chain([Priority::Low; 3]).chain([Priority::High; 20]);
    for (n, priority) in priorities.enumerate() {
        let r = r.clone();
        let builder = Builder::new().priority(priority);
        waiters.push(rt.spawn_with(builder, move || r.recv().unwrap()).unwrap());
        until(|| receivers(&s) == n + 1);
    }
    (0..24).for_each(|n| s.send(n).unwrap());
    let got: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
    assert_eq!(got[1..4], [16, 22, 23]);
}

/// A message goes to the receiver that waits, and no later one takes it away.
#[test]
fn a_message_is_handed_over() {
    let _watched = watched();
    let (s, r) = bounded(1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| r.recv().unwrap());
        until(|| receivers(&s) == 1);
        s.send(1).unwrap();
        assert!(r.try_recv().is_err() && s.is_empty());
        assert_eq!(waiter.join().unwrap(), 1);
        let has_cell = s.channel.with(|state| !state.cells.is_empty());
        assert!(!has_cell, "a cell is made for selects only");
    });
}

#[test]
fn a_waiter_that_gives_up_is_out_of_the_list() {
    let _watched = watched();
    let (s, r) = rendezvous::<u32>();
    for _ in 0..3 {
        assert!(r.recv_timeout(Duration::from_millis(1)).is_err());
        assert!(s.send_timeout(1, Duration::from_millis(1)).is_err());
        let mut select = Select::new();
        select.recv(&r);
        select.send(&s);
        select.recv(&r);
        assert!(select.select_timeout(Duration::from_millis(1)).is_err());
        assert!(select.ready_timeout(Duration::from_millis(1)).is_err());
        assert_eq!((receivers(&s), senders(&s)), (0, 0));
        let watchers = s.channel.with(|state| state.senders.watching.len() + state.receivers.watching.len());
        assert_eq!(watchers, 0);
    }
}

/// A selected send has not filled its room yet. Others wait for that room, and a receiver takes directly
/// from one that waits.
#[test]
fn reserved_room_is_not_for_others() {
    // A channel that was used before has a block, so its ends can be open.
    let _watched = watched();
    [false, true].into_iter().for_each(reserved_room_of);
}

fn reserved_room_of(used: bool) {
    let (s, r) = bounded(1);
    if used {
        assert_eq!((s.send(1), r.recv()), (Ok(()), Ok(1)));
    }
    let mut select = Select::new();
    select.send(&s);
    let operation = select.select();
    assert!(s.try_send(2).is_err() && r.try_recv().is_err());
    assert!(s.len() <= 1);
    std::thread::scope(|scope| {
        scope.spawn(|| s.send(3).unwrap());
        until(|| senders(&s) == 1);
        assert_eq!(r.recv(), Ok(3));
        let waiter = scope.spawn(|| r.recv().unwrap());
        until(|| receivers(&s) == 1);
        operation.send(&s, 4).unwrap();
        assert_eq!(waiter.join().unwrap(), 4);
    });
    assert!(s.is_empty());
    // A reservation takes room once, whatever happened in between.
    let mut select = Select::new();
    select.send(&s);
    let operation = select.select();
    assert!(s.try_send(5).is_err());
    operation.send(&s, 6).unwrap();
    assert!(s.try_send(7).is_err() && s.len() == 1);
    assert_eq!((r.recv(), s.try_send(8), r.recv()), (Ok(6), Ok(()), Ok(8)));
}

#[test]
fn forgotten_handles_do_not_free_what_others_use() {
    let (s, r) = unbounded();
    std::mem::forget(s.clone());
    s.send(1).unwrap();
    drop(s);
    assert_eq!(r.try_recv(), Ok(1));
    assert!(r.try_recv().unwrap_err().is_empty(), "one sender is left, which no thread has");
}

/// A destructor of a message may use the channel that it was in.
#[test]
fn a_message_may_hold_its_own_channel() {
    struct Nested(Option<Sender<Nested>>);
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    impl Drop for Nested {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
            if let Some(s) = self.0.take() {
                assert!(s.send(Nested(None)).is_err());
            }
        }
    }
    let (s, r) = unbounded();
    s.send(Nested(Some(s.clone()))).unwrap();
    drop(s);
    drop(r);
    assert_eq!(DROPS.load(Ordering::Relaxed), 2);
}

#[test]
fn a_panicking_message_does_not_leak_the_channel() {
    struct Bomb(std::sync::Arc<()>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::sync::Arc::strong_count(&self.0) > 2, "on purpose");
        }
    }
    let token = std::sync::Arc::new(());
    let (s, r) = unbounded();
    s.send(Bomb(token.clone())).unwrap();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(r)));
    assert!(dropped.is_err());
    assert!(s.send(Bomb(std::sync::Arc::new(()))).map_err(std::mem::forget).is_err());
    drop(s);
    assert_eq!(std::sync::Arc::strong_count(&token), 1);
}

#[test]
fn sources_are_told_apart() {
    assert!(matches!(super::never::<u32>().source, Source::Never));
    assert!(matches!(super::after(Duration::MAX).source, Source::Never));
    assert!(matches!(super::tick(Duration::MAX).source, Source::Never));
    assert!(matches!(super::after(Duration::ZERO).source, Source::Clock(..)));
}

/// A block was unused while the tickets wrapped, and gets the same again.
#[test]
fn a_block_with_its_old_tickets_waits_for_its_receivers() {
    let mut store = Store::<u32>::new();
    assert!(store.supply(OwnedBlock::new()).is_none());
    for _ in 0..3 {
        let block = store.take().expect("it is not in use").as_ptr();
        // SAFETY: in no list, and not freed before the store is.
        unsafe { Block::begin(block, 0) };
        // SAFETY: in no list, and not freed before the store is.
        unsafe { store.retire(block, &mut None) };
        for n in 0..Block::<u32>::LEN {
            assert!(store.take().is_none(), "message {n} has not been taken");
            let (message, mut taken) = (n as u32, 0);
            // SAFETY: not freed before the store is.
            let position = unsafe { Block::position(block, TICKET * n) };
            // SAFETY: both sides of the ticket.
            unsafe { position.put(TICKET * n, &raw const message) };
            // SAFETY: both sides of the ticket.
            unsafe { position.take(TICKET * n, &raw mut taken) };
            assert_eq!(taken, message);
        }
    }
}

/// Blocks of large messages are short: with 64 positions, a channel for one message of 1 MiB would take 134
/// MiB.
#[test]
fn blocks_of_large_messages_are_short() {
    const MIB: usize = 1 << 20;
    assert_eq!(Block::<u64>::LEN, 64);
    assert_eq!(Block::<[u8; 480]>::LEN, 64);
    assert_eq!(Block::<[u8; 4000]>::LEN, 8);
    assert_eq!(Block::<[u8; MIB]>::LEN, 2);
    assert!(Block::<[u8; MIB]>::LAYOUT.size() < 3 * MIB);
    assert!(Block::<[u8; 4000]>::LAYOUT.size() < 40 << 10);
}

#[test]
fn large_messages_pass_through_short_blocks() {
    const EACH: usize = 300;
    type Large = [usize; 4096];
    assert_eq!(Block::<Large>::LEN, 2);
    let _watched = watched();
    for capacity in [Some(1), Some(3), None] {
        let (s, r) = super::handles::pair(super::core::Channel::new(capacity));
        let (s, r) = (Sender { channel: s }, Receiver { source: Source::Channel(r) });
        std::thread::scope(|scope| {
            for me in 0..2 {
                let s: Sender<Large> = s.clone();
                scope.spawn(move || (0..EACH).for_each(|n| s.send([n * 2 + me; 4096]).unwrap()));
            }
            drop(s);
            let sums = [(); 2].map(|()| {
                let r = r.clone();
                scope.spawn(move || {
                    r.iter()
                        .inspect(|message| assert!(message.iter().all(|&word| word == message[0])))
                        .map(|message| message[0])
                        .sum::<usize>()
                })
            });
            let sum: usize = sums.into_iter().map(|sum| sum.join().unwrap()).sum();
            assert_eq!(sum, 2 * EACH * (2 * EACH - 1) / 2);
        });
    }
}

/// The tickets wrap while threads send and receive.
#[test]
fn tickets_begin_again() {
    const EACH: usize = 3000;
    let _watched = watched();
    for capacity in [Some(1), Some(2), Some(3), Some(64), Some(200), None] {
        let first = 0_usize.wrapping_sub(TICKET * Block::<usize>::LEN * 20);
        let (s, r) = super::handles::pair(super::core::Channel::beginning_at(capacity, first));
        let (s, r) = (Sender { channel: s }, Receiver { source: Source::Channel(r) });
        std::thread::scope(|scope| {
            for me in 0..3 {
                let s = s.clone();
                scope.spawn(move || (0..EACH).for_each(|n| s.send(n * 3 + me).unwrap()));
            }
            drop(s);
            let sums = [(); 2].map(|()| {
                let r = r.clone();
                scope.spawn(move || {
                    r.iter()
                        .inspect(|_| assert!(capacity.is_none_or(|capacity| r.len() <= capacity)))
                        .sum::<usize>()
                })
            });
            let sum: usize = sums.into_iter().map(|sum| sum.join().unwrap()).sum();
            assert_eq!(sum, 3 * EACH * (3 * EACH - 1) / 2);
        });
        assert!(r.recv().is_err() && r.is_empty());
    }
}

#[test]
fn errors_say_what_they_are() {
    let full: TrySendError<u8> = TrySendError::Full(7);
    let gone = TrySendError::from(SendError(7));
    assert_eq!([full.is_full(), full.is_disconnected()], [true, false]);
    assert_eq!([gone.is_full(), gone.is_disconnected()], [false, true]);
    assert_eq!((full.into_inner(), gone.into_inner()), (7, 7));

    let late: SendTimeoutError<u8> = SendTimeoutError::Timeout(7);
    let gone = SendTimeoutError::from(SendError(7));
    assert_eq!([late.is_timeout(), late.is_disconnected()], [true, false]);
    assert_eq!([gone.is_timeout(), gone.is_disconnected()], [false, true]);
    assert_eq!((late.into_inner(), gone.into_inner()), (7, 7));

    type Sent = SendWithError<u8>;
    for (nth, error) in
        [Sent::Interrupted(7), Sent::Timeout(7), Sent::Disconnected(7)].into_iter().enumerate()
    {
        let said = [error.is_interrupted(), error.is_timeout(), error.is_disconnected()];
        assert_eq!(said, std::array::from_fn(|n| n == nth));
        assert_eq!(error.into_inner(), 7);
    }
    type Got = RecvWithError;
    for (nth, error) in [Got::Interrupted, Got::Timeout, Got::Disconnected].into_iter().enumerate() {
        let said = [error.is_interrupted(), error.is_timeout(), error.is_disconnected()];
        assert_eq!(said, std::array::from_fn(|n| n == nth));
    }

    assert_eq!([TryRecvError::Empty.is_empty(), TryRecvError::Empty.is_disconnected()], [true, false]);
    let gone = TryRecvError::from(RecvError);
    assert_eq!([gone.is_empty(), gone.is_disconnected()], [false, true]);
    let late = RecvTimeoutError::Timeout;
    assert_eq!([late.is_timeout(), late.is_disconnected()], [true, false]);
    let gone = RecvTimeoutError::from(RecvError);
    assert_eq!([gone.is_timeout(), gone.is_disconnected()], [false, true]);
}

/// Of operations that are all ready, each has the same chance.
#[test]
fn selects_draw_lots() {
    const DRAWS: usize = 3000;
    let channels: [_; 3] = std::array::from_fn(|_| unbounded::<()>());
    channels.iter().for_each(|(s, _)| s.send(()).unwrap());
    let mut select = Select::new();
    for (_, r) in &channels {
        select.recv(r);
    }
    let mut counts = [0; 3];
    let mut runs = 0;
    let mut last = 0;
    for _ in 0..DRAWS {
        let drawn = select.ready();
        counts[drawn] += 1;
        runs += usize::from(drawn != last);
        last = drawn;
    }
    // Six standard deviations.
    let near = |count: usize, expected: usize| count.abs_diff(expected) < 160;
    assert!(
        counts.iter().all(|&count| near(count, DRAWS / 3)) && near(runs, DRAWS * 2 / 3),
        "{counts:?}, {runs}"
    );
}
