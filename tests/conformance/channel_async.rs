//! Async ends of channels: between tasks and threads, in turn, and dropped at all moments.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use selvedge::channel::{
    self, Receiver, RecvError, Select, SendError, Sender, bounded, rendezvous, unbounded,
};
use selvedge::future::block_on;
use selvedge::thread::{ThreadState, WaitReason};
use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    messages_pass_between_tasks_and_threads,
    the_other_side_goes,
    tasks_and_threads_take_turns,
    a_dropped_receive_loses_no_message,
    a_dropped_receive_passes_its_message_on,
    a_dropped_send_leaves_nothing,
    the_last_waker_is_called,
    a_task_meets_a_select,
    a_task_receives_from_clocks,
    a_storm_of_dropped_futures_loses_nothing,
}

/// Counts its calls.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Calls {
    fn new() -> (Arc<Self>, Waker) {
        let calls = Arc::<Self>::default();
        (Arc::clone(&calls), Waker::from(calls))
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(waker))
}

/// Waits until so many threads of `rt` wait for this.
fn until_waiting<R: Runtime>(rt: &R, count: usize, wanted: WaitReason) {
    let waits = |state| matches!(state, ThreadState::Waiting { reason, .. } if reason == wanted);
    while rt.threads().iter().filter(|thread| waits(thread.state())).count() != count {
        std::thread::yield_now();
    }
}

fn channels<T>() -> [(Sender<T>, Receiver<T>); 4] {
    [rendezvous(), bounded(1), bounded(5), unbounded()]
}

fn messages_pass_between_tasks_and_threads<L: Leg>() {
    const COUNT: usize = 300;
    let rt = L::new();
    for sends_async in [false, true] {
        for receives_async in [false, true] {
            for (s, r) in channels() {
                let sender = rt.spawn(move || {
                    for n in 0..COUNT {
                        if sends_async { block_on(s.send_async(n)) } else { s.send(n) }.unwrap();
                    }
                });
                let receiver = rt.spawn(move || {
                    for n in 0..COUNT {
                        let got = if receives_async { block_on(r.recv_async()) } else { r.recv() };
                        assert_eq!(got, Ok(n));
                    }
                    assert_eq!(block_on(r.recv_async()), Err(RecvError));
                });
                sender.join().unwrap();
                receiver.join().unwrap();
            }
        }
    }
}

fn the_other_side_goes<L: Leg>() {
    L::new().run(|| {
        for (s, r) in channels::<String>() {
            let ((calls, waker), other) = (Calls::new(), r.clone());
            let mut receives = r.recv_async();
            assert!(poll(&mut receives, &waker).is_pending());
            let waits = thread::spawn(move || other.recv());
            drop(s);
            assert_eq!(poll(&mut receives, &waker), Poll::Ready(Err(RecvError)));
            assert_eq!((calls.count(), waits.join().unwrap()), (1, Err(RecvError)));
        }
        let (s, r) = bounded(1);
        s.send("first".to_string()).unwrap();
        let ((calls, waker), mut sends) = (Calls::new(), s.send_async("second".to_string()));
        assert!(poll(&mut sends, &waker).is_pending());
        drop(r);
        assert_eq!(calls.count(), 1);
        assert_eq!(poll(&mut sends, &waker), Poll::Ready(Err(SendError("second".to_string()))));
        assert_eq!(block_on(s.send_async("third".to_string())), Err(SendError("third".to_string())));
    });
}

/// A task that waits first is served first. It is not passed by those that come later.
fn tasks_and_threads_take_turns<L: Leg>() {
    let rt = L::new();
    for (s, r) in channels() {
        let (calls, waker) = Calls::new();
        let mut first = r.recv_async();
        assert!(poll(&mut first, &waker).is_pending());
        let mut third = r.recv_async();
        let theirs = r.clone();
        // Of kernel threads that wait, the last is served first.
        let waits = rt.spawn(move || theirs.recv());
        until_waiting(&rt, 1, WaitReason::Receive);
        assert!(poll(&mut third, &waker).is_pending());
        let mut got = Vec::new();
        for n in 0..3 {
            s.send(n).unwrap();
        }
        assert_eq!(r.try_recv().ok(), None, "each has its message");
        assert_eq!(calls.count(), 2);
        for future in [&mut first, &mut third] {
            let Poll::Ready(Ok(message)) = poll(future, &waker) else { panic!("it was served") };
            got.push(message);
        }
        let theirs = waits.join().unwrap().unwrap();
        assert!(got[0] < got[1], "{got:?}");
        got.push(theirs);
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
    }
    // The same for senders.
    let (s, r) = bounded(1);
    s.send(0).unwrap();
    let (calls, waker) = Calls::new();
    let (mut first, mut second) = (s.send_async(1), s.send_async(2));
    assert!(poll(&mut first, &waker).is_pending() && poll(&mut second, &waker).is_pending());
    assert!(s.try_send(3).is_err());
    assert_eq!(r.recv(), Ok(0));
    assert!(s.try_send(3).is_err(), "the first has the room");
    assert_eq!((calls.count(), poll(&mut first, &waker)), (1, Poll::Ready(Ok(()))));
    assert_eq!((r.recv(), r.recv(), r.try_recv().ok()), (Ok(1), Ok(2), None));
    assert_eq!(poll(&mut second, &waker), Poll::Ready(Ok(())));
}

/// The message that a dropped future was given comes before those that were sent later.
fn a_dropped_receive_loses_no_message<L: Leg>() {
    L::new().run(|| {
        for (s, r) in [bounded(1), bounded(5), unbounded()] {
            let (calls, waker) = Calls::new();
            let mut receives = r.recv_async();
            assert!(poll(&mut receives, &waker).is_pending());
            s.send(1).unwrap();
            assert_eq!((calls.count(), r.len()), (1, 0));
            s.send(2).unwrap();
            drop(receives);
            assert_eq!(r.len(), 2);
            assert_eq!((block_on(r.recv_async()), r.recv(), r.try_recv().ok()), (Ok(1), Ok(2), None));
            // The channel is as it was.
            assert!(r.is_empty());
            s.send(3).unwrap();
            assert_eq!(r.try_recv(), Ok(3));
            // A future that waits, and has got nothing.
            let mut receives = r.recv_async();
            assert!(poll(&mut receives, &waker).is_pending());
            drop(receives);
            s.send(4).unwrap();
            assert_eq!((calls.count(), r.recv()), (1, Ok(4)));
        }
        // Without a buffer, and with a select that finds the message.
        let (s, r) = rendezvous();
        let mut receives = r.recv_async();
        assert!(poll(&mut receives, Waker::noop()).is_pending());
        s.try_send(1).unwrap();
        drop(receives);
        assert!(s.try_send(2).is_err());
        let mut select = Select::new();
        select.recv(&r);
        assert_eq!(select.ready(), 0);
        assert_eq!(select.select().recv(&r), Ok(1));
        // What is left when the channel goes is dropped.
        let (s, r) = unbounded();
        let message = Arc::new(());
        let mut receives = r.recv_async();
        assert!(poll(&mut receives, Waker::noop()).is_pending());
        s.send(Arc::clone(&message)).unwrap();
        drop(receives);
        assert_eq!(Arc::strong_count(&message), 2);
        drop(r);
        assert_eq!(Arc::strong_count(&message), 1);
    });
}

fn a_dropped_receive_passes_its_message_on<L: Leg>() {
    let rt = L::new();
    for (s, r) in channels() {
        let (calls, waker) = Calls::new();
        let (mut first, mut second) = (r.recv_async(), r.recv_async());
        assert!(poll(&mut first, Waker::noop()).is_pending() && poll(&mut second, &waker).is_pending());
        s.send(1).unwrap();
        assert_eq!(calls.count(), 0);
        drop(first);
        assert_eq!((calls.count(), poll(&mut second, &waker)), (1, Poll::Ready(Ok(1))));
        // A thread that waits behind.
        let mut first = r.recv_async();
        assert!(poll(&mut first, Waker::noop()).is_pending());
        s.send(2).unwrap();
        let theirs = r.clone();
        let waits = rt.spawn(move || theirs.recv());
        until_waiting(&rt, 1, WaitReason::Receive);
        drop(first);
        assert_eq!(waits.join().unwrap(), Ok(2));
    }
}

fn a_dropped_send_leaves_nothing<L: Leg>() {
    L::new().run(|| {
        let message = Arc::new(());
        for (s, r) in [rendezvous(), bounded(1)] {
            let fill = || (s.capacity() == Some(1)).then(|| s.send(Arc::clone(&message)).unwrap());
            fill();
            // Never polled; waiting; sent.
            drop(s.send_async(Arc::clone(&message)));
            let mut sends = s.send_async(Arc::clone(&message));
            assert!(poll(&mut sends, Waker::noop()).is_pending());
            drop(sends);
            assert_eq!(Arc::strong_count(&message), 1 + r.len());
            let mut sends = s.send_async(Arc::clone(&message));
            assert!(poll(&mut sends, Waker::noop()).is_pending());
            drop(r.recv().unwrap());
            drop(sends);
            assert_eq!(Arc::strong_count(&message), 1 + r.len());
            assert_eq!(r.try_recv().is_ok(), s.capacity() == Some(1));
            assert_eq!(Arc::strong_count(&message), 1);
        }
    });
}

fn the_last_waker_is_called<L: Leg>() {
    L::new().run(|| {
        let (s, r) = unbounded();
        let ((first, one), (second, other)) = (Calls::new(), Calls::new());
        let mut receives = r.recv_async();
        assert!(poll(&mut receives, &one).is_pending() && poll(&mut receives, &one).is_pending());
        assert!(poll(&mut receives, &other).is_pending());
        drop(one);
        assert_eq!(Arc::strong_count(&first), 1, "the first waker is still there");
        s.send(1).unwrap();
        assert_eq!((first.count(), second.count()), (0, 1));
        assert_eq!(poll(&mut receives, &other), Poll::Ready(Ok(1)));
        drop((receives, other));
        assert_eq!(Arc::strong_count(&second), 1, "the waker is still there");
    });
}

/// A select that sends without a buffer wins a task first, and makes its message then.
fn a_task_meets_a_select<L: Leg>() {
    L::new().run(|| {
        for dropped in [false, true] {
            let (s, r) = rendezvous();
            let mut receives = r.recv_async();
            let (calls, waker) = Calls::new();
            assert!(poll(&mut receives, &waker).is_pending());
            let mut select = Select::new();
            select.send(&s);
            let chosen = select.select();
            assert!(poll(&mut receives, &waker).is_pending(), "the message is not made yet");
            if dropped {
                drop(receives);
                chosen.send(&s, 7).unwrap();
                assert_eq!((calls.count(), r.try_recv()), (0, Ok(7)));
            } else {
                chosen.send(&s, 7).unwrap();
                assert_eq!((calls.count(), poll(&mut receives, &waker)), (1, Poll::Ready(Ok(7))));
            }
        }
        // The select waits first. Then its sender wins the task in its poll.
        let (s, r) = rendezvous();
        let selects = thread::spawn(move || {
            let mut select = Select::new();
            select.send(&s);
            select.select().send(&s, 8).unwrap();
        });
        assert_eq!(block_on(r.recv_async()), Ok(8));
        selects.join().unwrap();
    });
}

fn a_task_receives_from_clocks<L: Leg>() {
    L::new().run(|| {
        let start = Instant::now();
        let after = channel::after(Duration::from_millis(5));
        let moment = block_on(after.recv_async()).unwrap();
        assert!(moment >= start + Duration::from_millis(5) && start.elapsed() >= Duration::from_millis(5));
        // It never comes again.
        assert!(poll(&mut after.recv_async(), Waker::noop()).is_pending());
        let period = Duration::from_millis(2);
        let (start, tick) = (Instant::now(), channel::tick(period));
        assert!((0..3).all(|_| block_on(tick.recv_async()).is_ok()));
        assert!(start.elapsed() >= 3 * period);
        assert!(poll(&mut channel::never::<u8>().recv_async(), Waker::noop()).is_pending());
        // Its thread does not sleep on. Otherwise the runtime would not end.
        let late = channel::after(Duration::from_secs(1000));
        assert!(poll(&mut late.recv_async(), Waker::noop()).is_pending());
    });
}

/// Receivers give up at any moment; what they had got goes to others. Each message arrives once, and those of
/// one sender in order, if there is one receiver.
fn a_storm_of_dropped_futures_loses_nothing<L: Leg>() {
    const COUNT: usize = if cfg!(debug_assertions) { 500 } else { 5000 };
    let rt = L::new();
    for (s, r) in [rendezvous(), bounded(1), bounded(5), unbounded()] {
        for receivers in [1, 3] {
            let senders: Vec<_> = (0..2)
                .map(|sender| {
                    let s = s.clone();
                    rt.spawn(move || {
                        for n in 0..COUNT {
                            if n % 2 == 0 {
                                s.send((sender, n))
                            } else {
                                block_on(s.send_async((sender, n)))
                            }
                            .unwrap();
                        }
                    })
                })
                .collect();
            let threads: Vec<_> = (0..receivers)
                .map(|_| {
                    let r = r.clone();
                    rt.spawn(move || {
                        let (mut got, mut last) = (0, [None; 2]);
                        while let Some((sender, n)) = receive_impatiently(&r) {
                            if receivers == 1 {
                                assert_eq!(n, last[sender].map_or(0, |last| last + 1));
                                last[sender] = Some(n);
                            }
                            got += 1;
                        }
                        got
                    })
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            // One message for each receiver says that this was all.
            (0..receivers).for_each(|_| s.send((0, usize::MAX)).unwrap());
            let got: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!((got, r.len()), (2 * COUNT, 0));
        }
    }
}

/// Receives by futures each of which is polled twice, and then dropped.
fn receive_impatiently(r: &Receiver<(usize, usize)>) -> Option<(usize, usize)> {
    loop {
        let mut receives = r.recv_async();
        let mut polls = 0;
        let got = block_on(poll_fn(|context| {
            polls += 1;
            match pin!(&mut receives).poll(context) {
                Poll::Ready(got) => Poll::Ready(Some(got.unwrap())),
                Poll::Pending if polls == 2 => Poll::Ready(None),
                Poll::Pending => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        }));
        drop(receives);
        if let Some(got) = got {
            return (got.1 != usize::MAX).then_some(got);
        }
        thread::yield_now();
    }
}
