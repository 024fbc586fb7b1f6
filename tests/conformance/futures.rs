//! `future::block_on`: what ends it, what does not, and what it leaves behind.

use std::future::{Future, pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use selvedge::future::{block_on, block_on_with};
use selvedge::thread::{Builder, EndsBy, ThreadState, WaitReason};
use selvedge::{Runtime, Wait, WaitError, thread};
use tokio::sync::{mpsc, oneshot};

use crate::legs::{Leg, one_slot};
use crate::watchdog::Watchdog;

both! {
    a_ready_future_does_not_wait,
    threads_of_all_kinds_wake_threads_of_all_kinds,
    a_future_may_wake_itself,
    an_unpark_is_neither_eaten_nor_a_wake_up,
    a_wait_ends_in_time,
    a_wait_is_interrupted,
    the_end_of_a_wait_ends_a_future_that_wakes_itself,
    calls_are_nested,
    a_panic_leaves_nothing_broken,
    wakers_outlive_the_call,
    a_waiting_thread_says_so,
    a_storm_loses_no_wake_up,
}

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(1000);

/// What comes once, and wakes the future that waits for it.
#[derive(Default)]
pub(crate) struct Event {
    has_come: AtomicBool,
    polls: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Event {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn comes(&self) {
        self.has_come.store(true, SeqCst);
        self.wake();
    }

    /// Wakes without a reason.
    fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap() {
            waker.wake_by_ref();
        }
    }

    fn waker(&self) -> Waker {
        self.waker.lock().unwrap().clone().unwrap()
    }
}

/// The future of an event.
pub(crate) struct Awaited(pub(crate) Arc<Event>);

impl Future for Awaited {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self(event) = &*self;
        event.polls.fetch_add(1, SeqCst);
        *event.waker.lock().unwrap() = Some(context.waker().clone());
        if event.has_come.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Waits until so many threads of `rt` wait for futures. The watchdog ends a wait that would not.
pub(crate) fn until_waiting<R: Runtime>(rt: &R, count: usize) {
    let waits = |state| matches!(state, ThreadState::Waiting { reason: WaitReason::Future, .. });
    while rt.threads().iter().filter(|thread| waits(thread.state())).count() != count {
        std::thread::yield_now();
    }
}

fn a_ready_future_does_not_wait<L: Leg>() {
    L::new().run(|| {
        assert_eq!(block_on(ready(7)), 7);
        assert_eq!(block_on(async { ready(7).await + 1 }), 8);
        assert_eq!(block_on_with(ready(7), Wait::until(Instant::now())), Ok(7));
    });
    assert_eq!(block_on(ready(7)), 7);
}

fn threads_of_all_kinds_wake_threads_of_all_kinds<L: Leg>() {
    let rt = L::new();
    type Start<'a, R> = &'a dyn Fn(&R, Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce()>;
    let own: Start<'_, L::Rt> = &|rt, body| {
        let thread = rt.spawn(body);
        Box::new(move || thread.join().unwrap())
    };
    let bound: Start<'_, L::Rt> = &|rt, body| {
        let thread = Builder::new().bound(true).spawn_on(rt, body).unwrap();
        Box::new(move || thread.join().unwrap())
    };
    let foreign: Start<'_, L::Rt> = &|_, body| {
        let thread = std::thread::spawn(body);
        Box::new(move || thread.join().unwrap())
    };
    for waits in [own, bound, foreign] {
        for wakes in [own, bound, foreign] {
            for forbids in [false, true] {
                let (event, awaited) = (Event::new(), Event::new());
                let (theirs, polled) = (Arc::clone(&event), Arc::clone(&awaited));
                let join = waits(
                    &rt,
                    Box::new(move || {
                        let mut first = pin!(Awaited(Arc::clone(&theirs)));
                        block_on(poll_fn(|context| {
                            let poll = first.as_mut().poll(context);
                            // It is known to the waker by now.
                            polled.comes();
                            poll
                        }));
                        assert!(theirs.has_come.load(Relaxed));
                    }),
                );
                let wake = wakes(
                    &rt,
                    Box::new(move || {
                        block_on(Awaited(awaited));
                        if forbids { thread::no_preempt(|| event.comes()) } else { event.comes() }
                    }),
                );
                join();
                wake();
            }
        }
    }
}

fn a_future_may_wake_itself<L: Leg>() {
    L::new().run(|| {
        let mut polls = 0;
        let counted = poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            let waker = context.waker().clone();
            waker.wake_by_ref();
            drop(waker);
            context.waker().wake_by_ref();
            if polls == 100 { Poll::Ready(polls) } else { Poll::Pending }
        });
        assert_eq!(block_on(counted), 100);
    });
}

/// On one slot, the other threads run only if this one lets them, or when its time slice is over.
#[test]
fn a_future_that_wakes_itself_lets_others_run() {
    let _watchdog = Watchdog::start("a_future_that_wakes_itself_lets_others_run");
    one_slot().build().expect("an M:N runtime").run(|| {
        let (begun, ran) = (Event::new(), Arc::new(AtomicBool::new(false)));
        let (begins, runs) = (Arc::clone(&begun), Arc::clone(&ran));
        let waits = thread::spawn(move || {
            let mut polls = 0;
            block_on(poll_fn(|context| {
                polls += 1;
                begins.comes();
                context.waker().wake_by_ref();
                if ran.load(SeqCst) { Poll::Ready(polls) } else { Poll::Pending }
            }))
        });
        block_on(Awaited(begun));
        thread::spawn(move || runs.store(true, SeqCst)).join().unwrap();
        let polls = waits.join().unwrap();
        assert!(polls < 500, "{polls} polls");
    });
}

fn an_unpark_is_neither_eaten_nor_a_wake_up<L: Leg>() {
    let rt = L::new();
    let event = Event::new();
    let awaited = Awaited(Arc::clone(&event));
    let waits = rt.spawn(move || {
        block_on(awaited);
        // The permit is still there. No other is on its way.
        thread::park();
        let start = Instant::now();
        thread::park_timeout(Duration::from_millis(5));
        assert!(start.elapsed() >= Duration::from_millis(5), "there was a second permit");
    });
    until_waiting(&rt, 1);
    (0..3).for_each(|_| waits.thread().unpark());
    until_waiting(&rt, 1);
    assert_eq!(event.polls.load(SeqCst), 1, "an unpark woke the future");
    event.wake();
    while event.polls.load(SeqCst) < 2 {
        std::thread::yield_now();
    }
    event.comes();
    waits.join().unwrap();
}

fn a_wait_ends_in_time<L: Leg>() {
    L::new().run(|| {
        let event = Event::new();
        let mut awaited = pin!(Awaited(Arc::clone(&event)));
        let start = Instant::now();
        let wait = Wait::timeout(Duration::from_millis(5));
        assert_eq!(block_on_with(awaited.as_mut(), wait), Err(WaitError::TimedOut));
        assert!(start.elapsed() >= Duration::from_millis(5));
        assert_eq!(block_on_with(awaited.as_mut(), Wait::until(start)), Err(WaitError::TimedOut));
        // A wake-up of a call that has ended goes nowhere. The future is whole.
        let late = event.waker();
        let theirs = Arc::clone(&event);
        let wakes = thread::spawn(move || {
            late.wake();
            theirs.comes();
        });
        assert_eq!(block_on_with(awaited, Wait::timeout(LONG)), Ok(()));
        wakes.join().unwrap();
    });
}

fn a_wait_is_interrupted<L: Leg>() {
    let rt = L::new();
    let wait = Wait::timeout(LONG).interruptible();
    let waits = rt.spawn(move || {
        // One before the wait, even if it need not wait; then one in it.
        thread::current().interrupt();
        assert_eq!(block_on_with(ready(7), wait), Err(WaitError::Interrupted));
        assert_eq!(block_on_with(ready(7), wait), Ok(7));
        assert_eq!(block_on_with(pending::<()>(), wait), Err(WaitError::Interrupted));
        assert!(!thread::take_interrupt(), "the wait has used it up");
        assert_eq!(block_on_with(ready(7), wait), Ok(7));
    });
    until_waiting(&rt, 1);
    waits.thread().interrupt();
    waits.join().unwrap();
    // Others take no notice.
    let event = Event::new();
    let awaited = Awaited(Arc::clone(&event));
    let waits = rt.spawn(move || {
        block_on(awaited);
        assert!(thread::take_interrupt());
    });
    until_waiting(&rt, 1);
    waits.thread().interrupt();
    until_waiting(&rt, 1);
    event.comes();
    waits.join().unwrap();
}

fn the_end_of_a_wait_ends_a_future_that_wakes_itself<L: Leg>() {
    fn busy() -> impl Future<Output = ()> {
        poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }
    L::new().run(|| {
        let wait = Wait::timeout(Duration::from_millis(2));
        assert_eq!(block_on_with(busy(), wait), Err(WaitError::TimedOut));
        let wait = Wait::forever().interruptible();
        let begun = Event::new();
        let begins = Arc::clone(&begun);
        let waits = thread::spawn(move || {
            let mut busy = pin!(busy());
            let told = poll_fn(|context| {
                begins.comes();
                busy.as_mut().poll(context)
            });
            assert_eq!(block_on_with(told, wait), Err(WaitError::Interrupted));
            assert!(!thread::take_interrupt(), "the wait has used it up");
        });
        block_on(Awaited(begun));
        waits.thread().interrupt();
        waits.join().unwrap();
    });
}

/// Each level waits in the poll of the level above, and is woken for itself.
fn calls_are_nested<L: Leg>() {
    fn level(depth: usize, events: Vec<Arc<Event>>) -> Pin<Box<dyn Future<Output = usize>>> {
        Box::pin(async move {
            let below = if depth == 0 { 0 } else { block_on(level(depth - 1, events.clone())) };
            Awaited(Arc::clone(&events[depth])).await;
            below + 1
        })
    }
    let rt = L::new();
    let events: Vec<_> = (0..4).map(|_| Event::new()).collect();
    let theirs = events.clone();
    let waits = rt.spawn(move || block_on(level(3, theirs)));
    // The innermost is first. What comes early for the others is not taken by it.
    until_waiting(&rt, 1);
    events[2].comes();
    events[1].comes();
    events[0].comes();
    while events[3].polls.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    until_waiting(&rt, 1);
    events[3].comes();
    assert_eq!(waits.join().unwrap(), 4);
}

fn a_panic_leaves_nothing_broken<L: Leg>() {
    L::new().run(|| {
        let event = Event::new();
        let mut awaited = pin!(Awaited(Arc::clone(&event)));
        let panics = poll_fn(|context| -> Poll<()> {
            let _ = awaited.as_mut().poll(context);
            panic!("in poll");
        });
        let error = catch_unwind(AssertUnwindSafe(|| block_on(panics))).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&"in poll"));
        event.comes();
        block_on(awaited);
        // The permit was not used for anything.
        let start = Instant::now();
        thread::park_timeout(Duration::from_millis(2));
        assert!(start.elapsed() >= Duration::from_millis(2));
    });
}

fn wakers_outlive_the_call<L: Leg>() {
    let rt = L::new();
    let waker = rt.run(|| block_on(poll_fn(|context| Poll::Ready(context.waker().clone()))));
    rt.run(move || {
        let (event, other) = (Event::new(), waker.clone());
        let theirs = Arc::clone(&event);
        let wakes = thread::spawn(move || {
            (0..1000).for_each(|_| other.wake_by_ref());
            other.wake();
            theirs.comes();
        });
        block_on(Awaited(event));
        (0..1000).for_each(|_| waker.wake_by_ref());
        wakes.join().unwrap();
        // The first call's frame is gone, and its waker is not that of another call.
        block_on(poll_fn(|context| {
            assert!(!context.waker().will_wake(&waker));
            Poll::Ready(())
        }));
        drop(waker);
    });
}

fn a_waiting_thread_says_so<L: Leg>() {
    let rt = L::new();
    let event = Event::new();
    let awaited = Awaited(Arc::clone(&event));
    let waits = rt.spawn(move || block_on(awaited));
    until_waiting(&rt, 1);
    let report = rt.deadlocks();
    event.comes();
    waits.join().unwrap();
    assert!(!report.any(), "{report}");
    let [blocked] = report.waiting() else { panic!("{report}") };
    assert_eq!((blocked.reason(), blocked.ends_by()), (WaitReason::Future, EndsBy::Outside));
    let said = blocked.to_string();
    let words = "waits for a future (block_on): what it waits for may come from outside at any time";
    assert!(said.contains(words), "{said}");
}

/// Threads of all kinds pass messages by tokio's channels, as fast as they can.
fn a_storm_loses_no_wake_up<L: Leg>() {
    const ROUNDS: usize = if cfg!(debug_assertions) { 300 } else { 3000 };
    let rt = L::new();
    let (answer, mut answers) = mpsc::channel(1);
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let answer = answer.clone();
            let body = move || {
                for round in 0..ROUNDS {
                    let (reply, replied) = oneshot::channel();
                    block_on(answer.send((n, round, reply))).unwrap();
                    assert_eq!(block_on(replied), Ok(n * round));
                }
            };
            Builder::new().bound(n == 0).spawn_on(&rt, body).unwrap()
        })
        .collect();
    drop(answer);
    let mut count = 0;
    while let Some((n, round, reply)) = block_on(answers.recv()) {
        reply.send(n * round).unwrap();
        count += 1;
    }
    assert_eq!(count, 4 * ROUNDS);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
