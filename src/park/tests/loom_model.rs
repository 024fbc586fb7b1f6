//! What the models share: threads with cores, a green backend, and how to run a model.
//!
//! A model is run in every order of its steps with at most `LOOM_MAX_PREEMPTIONS` preemptions (2 or what the model says, if that is not set).
//! A *negative* model leaves out a step of the protocol, and must fail: it shows that the model would see the mistake.

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use loom::sync::{Condvar, Mutex};

use crate::park::backend::{Backend, Keeper, Sleep};
use crate::park::current::set_current;
use crate::park::reason::WaitReason;
use crate::park::registry;
use crate::park::relay::Held;
use crate::park::thread::{ThreadCore, ThreadRef};
use crate::park::wait_queue;
use crate::shim::atomic::AtomicU32;
use crate::shim::{MODEL_STRIDE, UnsafeCell, futex};

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
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // The globals come into being before the threads do, so that who is first at them is no step of the model.
        wait_queue::if_empty(0, || ());
        wait_queue::if_empty(MODEL_STRIDE, || ());
        futex::wake(std::ptr::null(), 1);
        body();
    });
    println!("{} executions", executions.load(std::sync::atomic::Ordering::Relaxed));
}

/// Runs the body of a large model twice: with at most two preemptions, and loads that do not conflict with loads; and then
/// with at most one, and loads that do (the shim says why).
pub(crate) fn large_model(body: impl Fn() + Send + Sync + Clone + 'static) {
    crate::shim::let_loads_conflict(false);
    model(body.clone());
    crate::shim::let_loads_conflict(true);
    model_within(1, body);
}

/// Which outcomes a model has had, over all its executions: one that never saw a deadline pass has shown nothing.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(Arc<[std::sync::atomic::AtomicBool; 2]>);

impl Outcomes {
    pub(crate) fn saw(&self, expired: bool) {
        self.0[usize::from(expired)].store(true, std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn are_both(&self) {
        assert!(self.0.iter().all(|seen| seen.load(std::sync::atomic::Ordering::Relaxed)), "{:?}", self.0);
    }
}

/// A deadline: it passes when the model's clock strikes.
pub(crate) fn deadline() -> Option<Instant> {
    crate::shim::now().checked_add(Duration::from_secs(1 << 20))
}

/// A kernel thread's core, taken before the model's threads start.
pub(crate) struct Core(ThreadRef);

impl Core {
    pub(crate) fn new() -> Self {
        let thread = registry::take(1, None, None);
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
        // SAFETY: `take` made it in this very execution, whose free list is empty, and the model's threads are gone.
        unsafe { registry::free(self.0) };
    }
}

/// What the model's threads meet at in a core comes into being before they do.
fn touch(thread: ThreadRef) {
    thread.interrupt();
    thread.core().interrupt.reset();
}

/// What one thread writes and another reads: loom reports accesses that are not ordered.
#[derive(Default)]
pub(crate) struct Letter(UnsafeCell<u32>);

// SAFETY: what the models are to show.
unsafe impl Sync for Letter {}
// SAFETY: as above.
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

/// A thread's part in what all of them have.
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

/// Runs all bodies at once, each as a kernel thread of its own; the first on the model's main thread.
pub(crate) fn together<const N: usize>(bodies: [Body; N]) {
    let cores: Vec<Core> = (0..N).map(|_| Core::new()).collect();
    let mut bodies = bodies.into_iter().zip(cores.iter().map(Core::thread));
    let (first, me) = bodies.next().expect("a model has threads");
    let others: Vec<_> = bodies.map(|(body, thread)| loom::thread::spawn(move || on(thread, body))).collect();
    on(me, first);
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// A green thread as far as its backend shows: published as asleep before it blocks, woken by others in any case, its
/// deadline handled by a timer.
pub(crate) struct Green {
    core: ThreadCore,
    scheduler: &'static Scheduler,
}

/// The backend of one green thread.
pub(crate) struct Scheduler {
    state: Mutex<State>,
    changed: Condvar,
    follower: OnceLock<Follower>,
}

/// Who is in the next-slot of a thread's LWP, when it is in one.
struct Follower {
    green: Arc<Green>,
    /// Whether who passes a lock on takes the follower off its queue first.
    takes: bool,
    /// Whether a lock was passed on.
    outcomes: Outcomes,
}

#[derive(Default)]
struct State {
    /// On a run queue.
    runnable: bool,
    /// The timer's entry.
    armed: Option<NonNull<dyn Sleep>>,
    /// Deadlines have passed.
    struck: bool,
}

// SAFETY: the entry is used with the lock held, and taken out before the sleep ends.
unsafe impl Send for State {}

impl Green {
    pub(crate) fn new() -> Arc<Self> {
        let scheduler: &'static Scheduler = Box::leak(Box::new(Scheduler {
            state: Mutex::default(),
            changed: Condvar::new(),
            follower: OnceLock::new(),
        }));
        let green = Arc::new(Self { core: ThreadCore::new(scheduler, &Once), scheduler });
        // SAFETY: new.
        unsafe { green.core.begin(1, scheduler, None, None) };
        touch(green.thread());
        green.core.relay.give();
        green
    }

    /// From now on, `follower` is in the next-slot when this one sleeps, if it is on a run queue. `takes`: as it should be.
    pub(crate) fn is_followed_by(&self, follower: &Arc<Self>, takes: bool, outcomes: &Outcomes) {
        let follower = Follower { green: follower.clone(), takes, outcomes: outcomes.clone() };
        assert!(self.scheduler.follower.set(follower).is_ok());
    }

    pub(crate) fn thread(&self) -> ThreadRef {
        // SAFETY: models keep the value until their threads are gone.
        ThreadRef::new(unsafe { &*std::ptr::from_ref(&self.core) })
    }

    /// The timer finds that deadlines have passed.
    pub(crate) fn fire(&self) {
        let mut state = self.scheduler.state.lock().unwrap();
        state.struck = true;
        if let Some(sleep) = state.armed.take() {
            // SAFETY: armed: the thread is in `block`, which it leaves with the lock held.
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
    /// [`fire`](Self::fire) of a timer that does not ask the sleep whether it has won.
    pub(crate) fn fire_blindly(&self) {
        let mut state = self.scheduler.state.lock().unwrap();
        state.struck = true;
        if let Some(sleep) = state.armed.take() {
            // SAFETY: as in `fire`.
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
        // SAFETY: leaked by `new`; the model's threads are gone.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.scheduler).cast_mut()) });
    }
}

impl Backend for Scheduler {
    fn block(&self, _me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Instant>, _reason: WaitReason) {
        let mut state = self.state.lock().unwrap();
        if deadline.is_some() && state.struck && sleep.expire() {
            return;
        }
        if deadline.is_some() && !state.runnable {
            // SAFETY: a longer life in the type only: it is taken out before this returns.
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

    fn block_with(&self, me: &ThreadRef, sleep: &dyn Sleep, reason: WaitReason, key: usize, lock: &dyn Held) {
        let passed = self.follower.get().is_some_and(|follower| {
            let relay = &follower.green.core.relay;
            // With its state locked it stays on its run queue, whence it takes itself otherwise.
            let state = follower.green.scheduler.state.lock().unwrap();
            let is_taken = state.runnable;
            let taken = follower.takes.then_some(state);
            let passed = (is_taken || !follower.takes) && relay.wants(key);
            if passed {
                relay.give();
            }
            drop(taken);
            follower.outcomes.saw(passed);
            passed
        });
        if !passed {
            lock.release();
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

    fn sleeps_in_kernel(&self) -> bool {
        false
    }
}

/// Each core lives once.
struct Once;

impl Keeper for Once {
    fn recycle(&self, _core: ThreadRef) {}
}
