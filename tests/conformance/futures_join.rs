//! Threads whose ends are awaited: in threads, and on tokio's runtime.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use selvedge::future::{block_on, block_on_with};
use selvedge::thread::{Builder, JoinHandle};
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::futures::{LONG, until_waiting};
use crate::legs::{Leg, settle};

both! {
    an_awaited_thread_gives_its_result,
    an_await_sees_the_payload_of_a_panic,
    a_future_that_is_dropped_detaches,
    a_future_outlives_a_wait_that_ended,
    the_last_waker_is_called,
    a_thread_that_awaits_itself_panics,
    scoped_threads_are_awaited,
    a_storm_of_awaited_threads,
}

mod locals {
    use super::{a_waker_finds_thread_locals, an_end_comes_after_thread_locals};

    both! {
        own locals:
        an_end_comes_after_thread_locals,
        a_waker_finds_thread_locals,
    }
}

fn spawn<R: Runtime, T: Send + 'static>(
    rt: &R,
    bound: bool,
    body: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    Builder::new().bound(bound).spawn_on(rt, body).unwrap()
}

/// Runs a future on an executor of its own, beside the runtimes.
fn on_tokio<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn an_awaited_thread_gives_its_result<L: Leg>() {
    let rt = L::new();
    for bound in [false, true] {
        // It waits until it is awaited, or has ended before that.
        let waits = spawn(&rt, bound, || {
            thread::park();
            "a result"
        });
        let thread = waits.thread().clone();
        let awaits = rt.spawn(move || block_on(waits).unwrap());
        until_waiting(&rt, 1);
        thread.unpark();
        assert_eq!(awaits.join().unwrap(), "a result");
        let ended = spawn(&rt, bound, || vec![1, 2, 3]);
        while !ended.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(rt.run(move || block_on(ended).unwrap()), [1, 2, 3]);
        // Large results do not lie in the thread's own memory.
        let (first, second) = (spawn(&rt, bound, || [7_u64; 100]), spawn(&rt, bound, || 8));
        let sum = on_tokio(async { first.await.unwrap()[99] + second.await.unwrap() });
        assert_eq!(sum, 15);
    }
}

fn an_await_sees_the_payload_of_a_panic<L: Leg>() {
    let rt = L::new();
    for bound in [false, true] {
        let panics: JoinHandle<()> = spawn(&rt, bound, || std::panic::resume_unwind(Box::new(7_u8)));
        let payload: Box<dyn std::any::Any + Send> = on_tokio(panics.into_future()).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&7_u8));
    }
}

fn a_future_that_is_dropped_detaches<L: Leg>() {
    struct Drops(Arc<AtomicUsize>);
    impl Drop for Drops {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let (rt, drops) = (L::new(), Arc::new(AtomicUsize::new(0)));
    for bound in [false, true] {
        for polled in [false, true] {
            let result = Drops(Arc::clone(&drops));
            let waits = spawn(&rt, bound, move || {
                thread::park();
                result
            });
            let thread = waits.thread().clone();
            let mut future = waits.into_future();
            if polled {
                assert!(pin!(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            drop(future);
            thread.unpark();
        }
    }
    settle(&rt, 0);
    assert_eq!(drops.load(SeqCst), 4, "results dropped");
}

fn a_future_outlives_a_wait_that_ended<L: Leg>() {
    let rt = L::new();
    for bound in [false, true] {
        let waits = spawn(&rt, bound, || {
            thread::park();
            7
        });
        let thread = waits.thread().clone();
        let mut future = waits.into_future();
        let short = Wait::timeout(Duration::from_millis(2));
        assert_eq!(block_on_with(&mut future, short).unwrap_err(), WaitError::TimedOut);
        thread.unpark();
        assert_eq!(block_on_with(&mut future, Wait::timeout(LONG)).unwrap().unwrap(), 7);
    }
}

/// Counts its calls.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn the_last_waker_is_called<L: Leg>() {
    let rt = L::new();
    for bound in [false, true] {
        let waits = spawn(&rt, bound, thread::park);
        let thread = waits.thread().clone();
        let mut future = waits.into_future();
        let calls = [Arc::new(Calls::default()), Arc::new(Calls::default())];
        let mut poll = |calls: &Arc<Calls>| {
            let waker = Waker::from(Arc::clone(calls));
            pin!(&mut future).poll(&mut Context::from_waker(&waker))
        };
        assert!(poll(&calls[0]).is_pending() && poll(&calls[0]).is_pending());
        assert!(poll(&calls[1]).is_pending());
        assert_eq!(Arc::strong_count(&calls[0]), 1, "the first waker is still there");
        thread.unpark();
        while calls[1].0.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(poll(&calls[1]).is_ready());
        settle(&rt, 0);
        assert_eq!((calls[0].0.load(SeqCst), calls[1].0.load(SeqCst)), (0, 1));
        drop(future);
        assert_eq!(Arc::strong_count(&calls[1]), 1, "the waker is still there");
    }
}

fn a_thread_that_awaits_itself_panics<L: Leg>() {
    let rt = L::new();
    let (give, own) = selvedge::channel::bounded::<JoinHandle<()>>(1);
    let (tell, told) = selvedge::channel::bounded(1);
    let handle = rt.spawn(move || {
        let own = AssertUnwindSafe(own.recv().unwrap());
        tell.send(catch_unwind(move || block_on({ own }.0)).is_err()).unwrap();
    });
    give.send(handle).unwrap();
    assert_eq!(told.recv(), Ok(true));
    settle(&rt, 0);
}

fn scoped_threads_are_awaited<L: Leg>() {
    L::new().run(|| {
        let numbers = [1, 2, 3];
        let sum = thread::scope(|s| {
            let (one, other) = (s.spawn(|| numbers[0] + numbers[1]), s.spawn(|| numbers[2]));
            let panics: thread::ScopedJoinHandle<'_, ()> = s.spawn(|| std::panic::resume_unwind(Box::new(7)));
            assert!(block_on(panics).is_err(), "then the scope does not panic");
            // Dropped: the scope waits for it.
            drop(s.spawn(|| numbers.len()).into_future());
            block_on(async { one.await.unwrap() + other.await.unwrap() })
        });
        assert_eq!(sum, 6);
        // A panic that nothing has seen: of a thread that has ended when its future is dropped, or ends
        // later.
        for ended in [true, false] {
            let unread = catch_unwind(|| {
                thread::scope(|s| {
                    let panics = s.spawn(move || {
                        if !ended {
                            thread::park();
                        }
                        std::panic::resume_unwind(Box::new(7));
                    });
                    while ended && !panics.is_finished() {
                        thread::yield_now();
                    }
                    let thread = panics.thread().clone();
                    let mut future = panics.into_future();
                    let polled = |future: &mut thread::ScopedJoinFuture<'_, ()>| {
                        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
                    };
                    assert!(ended || polled(&mut future));
                    drop(future);
                    thread.unpark();
                });
            });
            assert_eq!(unread.unwrap_err().downcast_ref(), Some(&"a scoped thread panicked"));
        }
    });
}

fn a_storm_of_awaited_threads<L: Leg>() {
    const THREADS: usize = if cfg!(debug_assertions) { 200 } else { 2000 };
    let rt = L::new();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (0..THREADS)
        .map(|n| {
            let handle = spawn(&rt, n % 50 == 0, move || {
                if n % 3 == 0 {
                    thread::yield_now();
                }
                n
            });
            tokio.spawn(async { handle.await.unwrap() })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(block_on(task).unwrap(), n);
    }
    settle(&rt, 0);
}

/// A thread-local whose destructor takes a while, and says that it has run.
struct Local(Arc<AtomicBool>);

impl Drop for Local {
    fn drop(&mut self) {
        (0..10).for_each(|_| std::thread::yield_now());
        self.0.store(true, SeqCst);
    }
}

fn an_end_comes_after_thread_locals<L: Leg>() {
    std::thread_local! {
        static LOCAL: std::cell::RefCell<Option<Local>> = const { std::cell::RefCell::new(None) };
    }
    let rt = L::new();
    for bound in [false, true] {
        let destroyed = Arc::new(AtomicBool::new(false));
        let local = Local(Arc::clone(&destroyed));
        let waits = spawn(&rt, bound, move || {
            LOCAL.set(Some(local));
            thread::park();
        });
        let thread = waits.thread().clone();
        let awaits = rt.spawn(move || {
            block_on(waits).unwrap();
            assert!(destroyed.load(SeqCst), "it ends after its thread-locals");
        });
        until_waiting(&rt, 1);
        thread.unpark();
        awaits.join().unwrap();
    }
}

/// A waker may use thread-locals that have destructors, and need room.
fn a_waker_finds_thread_locals<L: Leg>() {
    struct Uses {
        found: AtomicUsize,
        waits: thread::Thread,
    }
    std::thread_local! {
        static LOCAL: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    impl Wake for Uses {
        fn wake(self: Arc<Self>) {
            let found = LOCAL.try_with(|local| {
                local.borrow_mut().extend([0; 1000]);
                local.borrow().len()
            });
            // Of another thread, it is empty. Of the ended one, it has 1000 bytes, or is gone.
            self.found.store(found.unwrap_or(1), SeqCst);
            self.waits.unpark();
        }
    }
    let rt = L::new();
    for bound in [false, true] {
        let waits = spawn(&rt, bound, || {
            LOCAL.with(|local| local.borrow_mut().extend([0; 1000]));
            thread::park();
        });
        let thread = waits.thread().clone();
        let uses = Arc::new(Uses { found: AtomicUsize::new(0), waits: thread::current() });
        let waker = Waker::from(Arc::clone(&uses));
        let mut future = waits.into_future();
        assert!(pin!(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        thread.unpark();
        while uses.found.load(SeqCst) == 0 {
            thread::park();
        }
        assert_eq!(uses.found.load(SeqCst), 1000);
        let Poll::Ready(Ok(())) = pin!(&mut future).poll(&mut Context::from_waker(&waker)) else {
            panic!("the thread has ended")
        };
    }
}
