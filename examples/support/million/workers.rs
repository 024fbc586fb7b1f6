//! Threads that park until they are woken, each by name.
//!
//! Every thread has a byte in a common table, so that all can be told apart at the end. The byte says whether
//! the thread has parked, may go, or has gone. Nothing else is shared but two counters, and no threads meet
//! at a lock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::library::Attributes;
use crate::support::parking::Named;

/// What becomes of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How many are wanted.
    pub(crate) threads: u32,
    pub(crate) attributes: Attributes,
}

/// How it went.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// How many have been started.
    pub(crate) started: u32,
    /// How many have counted themselves after they were woken.
    pub(crate) woken: u32,
    /// How many of them were not as they should have been, at the end: never started, woken or gone, or
    /// gone before they were woken.
    pub(crate) strays: u32,
    /// Until all had parked.
    pub(crate) start: Duration,
    /// From then until the last had been woken.
    pub(crate) wake: Duration,
    /// From then until all had been joined.
    pub(crate) join: Duration,
    /// Why there are not as many as were wanted.
    pub(crate) stopped: Option<String>,
}

/// Watches the threads come and go.
pub(crate) trait Watch {
    /// So many have been started. `Some`: there shall be no more, and why.
    fn started(&mut self, threads: u32) -> Option<String>;

    /// There can be no more. Gives the reason.
    fn refused(&mut self, error: &io::Error) -> String;

    /// All have parked.
    fn parked(&mut self, threads: u32);

    /// So many have been woken.
    fn woken(&mut self, threads: u32);
}

/// How many threads are started between two questions to the [`Watch`].
pub(crate) const BATCH: u32 = 1_000;
/// How often the watch is told which threads have come, while nothing else happens.
const GLANCE: Duration = Duration::from_millis(100);

/// The states of a thread's byte.
const ABSENT: u8 = 0;
const PARKED: u8 = 1;
const CALLED: u8 = 2;
const GONE: u8 = 3;

/// What the threads share with the one that starts and wakes them.
struct Field<L: Named> {
    states: Box<[AtomicU8]>,
    parked: AtomicU32,
    gone: AtomicU32,
    /// At which number of [`parked`](Self::parked) or [`gone`](Self::gone) the owner wants to be woken.
    expected: AtomicU32,
    owner: L::Handle,
}

/// Starts threads, wakes them when all have parked, and joins them. The calling thread is one of the
/// library's.
pub(crate) fn park_all<L: Named>(plan: Plan, watch: &mut impl Watch) -> Reached {
    let field = Arc::new(Field::<L> {
        states: (0..plan.threads).map(|_| AtomicU8::new(ABSENT)).collect(),
        parked: AtomicU32::new(0),
        gone: AtomicU32::new(0),
        expected: AtomicU32::new(u32::MAX),
        owner: L::current(),
    });
    let mut reached = Reached::default();

    let begin = Instant::now();
    let threads = start_all(&field, plan, watch, &mut reached);
    field.wait_for(&field.parked, reached.started, |_| ());
    reached.start = begin.elapsed();
    watch.parked(reached.started);

    let begin = Instant::now();
    for (thread, state) in threads.iter().zip(&field.states) {
        // Release: a thread that sees it may see what was before; there is nothing.
        if state.swap(CALLED, Ordering::Release) != PARKED {
            reached.strays += 1;
        }
        L::wake(thread);
    }
    field.wait_for(&field.gone, reached.started, |gone| watch.woken(gone));
    reached.wake = begin.elapsed();

    let begin = Instant::now();
    threads.into_iter().for_each(L::join);
    reached.join = begin.elapsed();
    reached.woken = field.gone.load(Ordering::Relaxed);
    let started = field.states.iter().take(reached.started as usize);
    reached.strays += started.filter(|state| state.load(Ordering::Relaxed) != GONE).count() as u32;
    reached
}

fn start_all<L: Named>(
    field: &Arc<Field<L>>,
    plan: Plan,
    watch: &mut impl Watch,
    reached: &mut Reached,
) -> Vec<L::Thread> {
    // At once: a process with as many mappings as are allowed cannot get a larger list.
    let mut threads = Vec::with_capacity(plan.threads as usize);
    for number in 0..plan.threads {
        if number % BATCH == 0 && number > 0 {
            // What they take is known when they have parked.
            field.wait_for(&field.parked, number, |_| ());
            reached.stopped = watch.started(number);
            if reached.stopped.is_some() {
                break;
            }
        }
        let theirs = Arc::clone(field);
        match L::spawn(plan.attributes, move || theirs.stand(number as usize)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                reached.stopped = Some(watch.refused(&error));
                break;
            }
        }
    }
    reached.started = threads.len() as u32;
    threads
}

impl<L: Named> Field<L> {
    /// One thread's life.
    fn stand(&self, number: usize) {
        let state = &self.states[number];
        // Relaxed: the counter orders it for the owner.
        state.store(PARKED, Ordering::Relaxed);
        self.count(&self.parked);
        // Acquire: pairs with the owner's release.
        while state.load(Ordering::Acquire) != CALLED {
            L::park();
        }
        state.store(GONE, Ordering::Relaxed);
        self.count(&self.gone);
    }

    /// One more. SeqCst, with [`wait_for`](Self::wait_for): either we see what is expected, or the owner
    /// sees our count.
    fn count(&self, counter: &AtomicU32) {
        let count = counter.fetch_add(1, Ordering::SeqCst) + 1;
        if count == self.expected.load(Ordering::SeqCst) {
            L::unpark(&self.owner);
        }
    }

    /// Waits until the counter has reached `expected`.
    fn wait_for(&self, counter: &AtomicU32, expected: u32, mut glance: impl FnMut(u32)) {
        self.expected.store(expected, Ordering::SeqCst);
        loop {
            let count = counter.load(Ordering::SeqCst);
            glance(count);
            if count >= expected {
                return;
            }
            L::park_timeout(GLANCE);
        }
    }
}
