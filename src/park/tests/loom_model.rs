//! What the models share: threads with cores, a green backend, and how to run a model.
//!
//! A model is run in every order of its steps with at most `LOOM_MAX_PREEMPTIONS` preemptions. If that is
//! not set, the bound is 2, or what the model says. A *negative* model leaves out a step of the protocol,
//! and must fail. That shows that the model would find the mistake.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use loom::sync::{Condvar, Mutex};
use loom::thread::JoinHandle;

use crate::park::backend::{Backend, CorePool, Sleep};
use crate::park::core_pool;
use crate::park::current::set_current;
use crate::park::mutex_handoff::{self, HeldMutex};
use crate::park::permit;
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::thread::{NO_ID, ThreadCore, ThreadRef};
use crate::park::wait_queue;
use crate::shim::atomic::AtomicU32;
use crate::shim::{MODEL_STRIDE, UnsafeCell, futex};
use crate::time::Moment;

/// Runs `body` in all orders with at most two preemptions.
pub(crate) fn model(body: impl Fn() + Send + Sync + 'static) {
    model_within(2, body);
}

/// Runs `body` in all orders with at most `preemptions`, or as many as the environment says. With
/// `SELVEDGE_STRESS=full` it also tries more, up to [`DEEPEST`], for the time `LOOM_MAX_DURATION`, or
/// [`DEEPER`].
pub(crate) fn model_within(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let said = loom::model::Builder::new();
    let preemptions = said.preemption_bound.unwrap_or(preemptions);
    check(preemptions, None, &body);
    if std::env::var_os("SELVEDGE_STRESS").is_none_or(|value| value != "full") {
        return;
    }
    let end = Instant::now() + said.max_duration.unwrap_or(DEEPER);
    for more in preemptions + 1..=DEEPEST {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        check(more, Some(left), &body);
        let orders = if Instant::now() < end { "all" } else { "some" };
        println!("{orders} orders with {more} preemptions");
    }
}

/// The largest bound that `SELVEDGE_STRESS=full` tries.
const DEEPEST: usize = 3;
/// The time that it may take for each model.
const DEEPER: Duration = Duration::from_secs(20);

/// Runs `body` in all orders with at most `preemptions`, or in as many as `time` allows. Prints their number.
fn check(preemptions: usize, time: Option<Duration>, body: &Arc<impl Fn() + Send + Sync + 'static>) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.max_duration = time;
    // The number of executions between two looks at the clock.
    builder.checkpoint_interval = 500;
    let executions = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (counter, body) = (executions.clone(), body.clone());
    builder.check(move || {
        counter.fetch_add(1, Relaxed);
        // The globals must exist before the threads do, so that which thread is first at them is no step of
        // the model.
        wait_queue::if_empty(0, || ());
        wait_queue::if_empty(MODEL_STRIDE, || ());
        futex::wake(std::ptr::null(), 1);
        body();
    });
    println!("{} executions", executions.load(Relaxed));
}

/// Runs the body of a large model twice. The first run has at most two preemptions, and loads that do not
/// conflict with loads. The second has at most one preemption, and loads that do. The shim says why.
pub(crate) fn large_model(body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let again = body.clone();
    crate::shim::let_loads_conflict(false);
    model(move || body());
    crate::shim::let_loads_conflict(true);
    model_within(1, move || again());
}

/// The outcomes that a model has had, over all its executions. A model in which no deadline ever passed has
/// shown nothing.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(Arc<[std::sync::atomic::AtomicBool; 2]>);

impl Outcomes {
    pub(crate) fn saw(&self, expired: bool) {
        self.0[usize::from(expired)].store(true, Relaxed);
    }

    pub(crate) fn are_both(&self) {
        assert!(self.0.iter().all(|seen| seen.load(Relaxed)), "{:?}", self.0);
    }
}

/// Runs `body` by `model` or its like, and checks that it has had both outcomes.
pub(crate) fn both_outcomes(
    model: impl FnOnce(Box<dyn Fn() + Send + Sync>),
    body: impl Fn(&Outcomes) + Send + Sync + 'static,
) {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(Box::new(move || body(&seen)));
    outcomes.are_both();
}

/// Returns a deadline, which passes when the model's clock strikes.
pub(crate) fn deadline() -> Option<Moment> {
    crate::shim::now().checked_add(Duration::from_secs(1 << 20))
}

/// Returns such a deadline as programs have it.
pub(crate) fn instant() -> Instant {
    deadline().and_then(Moment::instant).expect("it is not that far")
}

/// A kernel thread's core, taken before the model's threads start.
pub(crate) struct Core(ThreadRef);

impl Core {
    pub(crate) fn new() -> Self {
        let thread = core_pool::take(1, None, None);
        touch(thread);
        Self(thread)
    }

    pub(crate) fn thread(&self) -> ThreadRef {
        self.0
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // After a deadlock no thread of the model is active. Then none may touch an atomic, not even to
            // free it.
            return;
        }
        // SAFETY: `take` created it in this very execution, with an empty free list, and the model's threads
        // are gone.
        unsafe { core_pool::free(self.0) };
    }
}

/// Creates what the model's threads share in a core before they start.
fn touch(thread: ThreadRef) {
    thread.interrupt();
    thread.core().interrupt.reset();
}

/// What one thread writes and another reads: loom reports accesses that are not ordered.
#[derive(Default)]
pub(crate) struct Letter(UnsafeCell<u32>);

// SAFETY: the models are to show it.
unsafe impl Sync for Letter {}
// SAFETY: the models are to show it.
unsafe impl Send for Letter {}

impl Letter {
    pub(crate) fn read(&self) -> u32 {
        // SAFETY: checked by loom.
        self.0.with(|text| unsafe { *text })
    }

    pub(crate) fn write(&self, new: u32) {
        // SAFETY: checked by loom.
        self.0.with_mut(|text| unsafe { *text = new });
    }

    pub(crate) fn add_one(&self) {
        // SAFETY: checked by loom.
        self.0.with_mut(|text| unsafe { *text += 1 });
    }
}

/// What a thread of a model does.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// A thread's part in what all of the threads have.
pub(crate) fn body<T: Send + Sync + 'static>(of_all: &Arc<T>, run: impl FnOnce(&T) + Send + 'static) -> Body {
    let of_all = of_all.clone();
    Box::new(move || run(&of_all))
}

/// Runs `body` as the thread of `core`.
pub(crate) fn on<R>(thread: ThreadRef, body: impl FnOnce() -> R) -> R {
    set_current(Some(thread));
    let result = body();
    set_current(None);
    result
}

/// Runs all bodies at once, each as a kernel thread of its own. The first runs on the model's main thread.
pub(crate) fn together<const N: usize>(bodies: [Body; N]) {
    let cores: Vec<Core> = (0..N).map(|_| Core::new()).collect();
    let mut bodies = bodies.into_iter().zip(cores.iter().map(Core::thread));
    let (first, me) = bodies.next().expect("a model has threads");
    let others: Vec<_> = bodies.map(|(body, thread)| loom::thread::spawn(move || on(thread, body))).collect();
    on(me, first);
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// Starts a thread with what it shares with others.
pub(crate) fn spawn_with<S: Send + 'static, R: 'static>(
    shared: S,
    run: impl FnOnce(S) -> R + Send + 'static,
) -> JoinHandle<R> {
    loom::thread::spawn(move || run(shared))
}

/// A green thread, as far as its backend shows. It is published as asleep before it blocks. Others wake it
/// in any case, and a timer handles its deadline.
pub(crate) struct Green {
    core: ThreadCore,
    scheduler: &'static Scheduler,
}

/// The backend of one green thread.
pub(crate) struct Scheduler {
    state: Mutex<RunState>,
    changed: Condvar,
    follower: OnceLock<Follower>,
}

/// The thread in the next-slot of another thread's LWP, while it is in one.
struct Follower {
    green: Arc<Green>,
    /// Set if the thread that passes a lock on takes the follower off its queue first.
    takes: bool,
    /// Counts if a lock was passed on.
    outcomes: Outcomes,
}

#[derive(Default)]
struct RunState {
    /// Set if it is on a run queue.
    runnable: bool,
    /// The timer's entry.
    armed: Option<NonNull<dyn Sleep>>,
    /// Set if deadlines have passed.
    struck: bool,
}

// SAFETY: the entry is used with the lock held, and taken out before the sleep ends.
unsafe impl Send for RunState {}

impl Green {
    pub(crate) fn new() -> Arc<Self> {
        let scheduler: &'static Scheduler = Box::leak(Box::new(Scheduler {
            state: Mutex::default(),
            changed: Condvar::new(),
            follower: OnceLock::new(),
        }));
        let green = Arc::new(Self { core: ThreadCore::new(scheduler, &Once), scheduler });
        // SAFETY: it is new.
        unsafe { green.core.begin(1, NO_ID, scheduler, None, None, Priority::Normal) };
        touch(green.thread());
        // The word must exist before the threads do.
        assert!(!green.core.handoff.wants(1));
        green
    }

    /// Puts `follower` into the next-slot whenever this thread sleeps, if `follower` is on a run queue.
    /// `takes` is `true` in a correct protocol.
    pub(crate) fn is_followed_by(&self, follower: &Arc<Self>, takes: bool, outcomes: &Outcomes) {
        let follower = Follower { green: follower.clone(), takes, outcomes: outcomes.clone() };
        assert!(self.scheduler.follower.set(follower).is_ok());
    }

    pub(crate) fn thread(&self) -> ThreadRef {
        // SAFETY: models keep the value until their threads are gone.
        ThreadRef::new(unsafe { &*std::ptr::from_ref(&self.core) })
    }

    /// Makes the timer find that deadlines have passed.
    pub(crate) fn fire(&self) {
        let mut state = self.scheduler.state.lock().unwrap();
        state.struck = true;
        if let Some(sleep) = state.armed.take() {
            // SAFETY: armed, so the thread is in `block`, and it leaves that with the lock held.
            if unsafe { sleep.as_ref() }.expire() {
                assert!(!state.runnable, "woken twice");
                state.runnable = true;
                drop(state);
                self.scheduler.changed.notify_one();
            }
        }
    }
}

impl Green {
    /// Does what [`fire`](Self::fire) does, for a timer that does not ask the sleep if it has won.
    pub(crate) fn fire_blindly(&self) {
        let mut state = self.scheduler.state.lock().unwrap();
        state.struck = true;
        if let Some(sleep) = state.armed.take() {
            // SAFETY: armed, so the thread is in `block`, and it leaves that with the lock held.
            let _ = unsafe { sleep.as_ref() }.expire();
            assert!(!state.runnable, "woken twice");
            state.runnable = true;
            drop(state);
            self.scheduler.changed.notify_one();
        }
    }
}

impl Drop for Green {
    fn drop(&mut self) {
        // SAFETY: leaked by `new`, and the model's threads are gone.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.scheduler).cast_mut()) });
    }
}

/// A lock that, when released, first puts the next thread back on its run queue. The release may wake that
/// thread.
struct Putting<'a, T> {
    back: Cell<Option<T>>,
    lock: &'a dyn HeldMutex,
}

impl<T> HeldMutex for Putting<'_, T> {
    fn is_alone(&self) -> bool {
        self.lock.is_alone()
    }

    fn release(&self) {
        drop(self.back.take());
        self.lock.release();
    }
}

impl Backend for Scheduler {
    fn block(&self, _me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Moment>, _reason: WaitReason) {
        let mut state = self.state.lock().unwrap();
        if deadline.is_some() && state.struck && sleep.expire() {
            return;
        }
        if deadline.is_some() && !state.runnable {
            // SAFETY: a longer lifetime in the type only: it is taken out before this returns.
            state.armed = Some(unsafe {
                std::mem::transmute::<NonNull<dyn Sleep + '_>, NonNull<dyn Sleep>>(sleep.into())
            });
        }
        while !state.runnable {
            state = self.changed.wait(state).unwrap();
        }
        state.runnable = false;
        state.armed = None;
        drop(state);
        assert!(!sleep.is_asleep(), "runs before its sleep is over");
    }

    fn block_with(&self, me: &ThreadRef, sleep: &dyn Sleep, reason: WaitReason, lock: &dyn HeldMutex) {
        let key = mutex_handoff::key_of(lock);
        match self.follower.get() {
            Some(follower) => {
                // While its state is locked, the follower stays on its run queue. Otherwise it takes itself
                // off.
                let state = follower.green.scheduler.state.lock().unwrap();
                let is_next = state.runnable || !follower.takes;
                let lock = &Putting { back: Cell::new(follower.takes.then_some(state)), lock };
                let next = is_next.then_some(&follower.green.core.handoff);
                let passed = mutex_handoff::part_with(lock, key, next);
                drop(lock.back.take());
                follower.outcomes.saw(passed);
            }
            None => _ = mutex_handoff::part_with(lock, key, None),
        }
        self.block(me, sleep, None, reason);
    }

    fn wake(&self, _target: ThreadRef, _word: *const AtomicU32) {
        let mut state = self.state.lock().unwrap();
        assert!(!state.runnable, "woken twice");
        state.runnable = true;
        drop(state);
        self.changed.notify_one();
    }

    fn yield_now(&self, _me: &ThreadRef) {
        crate::shim::yield_cpu();
    }
}

/// The pool of cores that live once.
struct Once;

impl CorePool for Once {
    fn recycle(&self, _core: ThreadRef) {}
}

/// A waker that unparks a thread. It counts its life.
pub(crate) struct Unparks {
    thread: ThreadRef,
    alive: Arc<AtomicUsize>,
}

impl Unparks {
    pub(crate) fn new(thread: ThreadRef, alive: &Arc<AtomicUsize>) -> Waker {
        alive.fetch_add(1, Relaxed);
        Waker::from(Arc::new(Self { thread, alive: Arc::clone(alive) }))
    }
}

impl Drop for Unparks {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Relaxed);
    }
}

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        permit::unpark(self.thread);
    }
}
