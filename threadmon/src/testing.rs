//! Snapshots for tests. What the library returns cannot be made elsewhere, so this process is asked first.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use selvedge::thread::{ThreadId, ThreadTimes, WaitReason};
use selvedge::threadmon::{Client, HistoryView, LockView, LwpView, Overview, ThreadPageView, ThreadView};
use selvedge::trace::{EventKind, Level, State, Track, set_level};
use selvedge::{LatencyHistogram, LwpState, Mxn, RunQueueLength, Runtime, sync, thread};
use syscalls::Sysno;

use crate::cpus::CpuTimes;
use crate::kernel_threads::KernelThread;
use crate::model::{Model, index};
use crate::source::Snapshot;

struct Seed {
    overview: Overview,
    lwp: LwpView,
    thread: ThreadView,
    lock: LockView,
    history: HistoryView,
}

/// Returns one of each, of a runtime with one thread.
fn seed() -> &'static Seed {
    static SEED: OnceLock<Seed> = OnceLock::new();
    SEED.get_or_init(|| {
        set_level(Level::Events);
        sync::stats::enable();
        selvedge::threadmon::serve().unwrap();
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        let lock = Arc::new(sync::Mutex::new(()));
        let held = lock.lock();
        let waiter = Arc::clone(&lock);
        let waiter = rt.spawn_with(thread::Builder::new(), move || drop(waiter.lock())).unwrap();
        let mut client = Client::connect(std::process::id()).unwrap();
        let (overview, thread) = loop {
            let overview = client.overview().unwrap();
            let page = client.threads(overview.runtimes[0].number, 9, true).unwrap();
            match page.threads.into_iter().next() {
                Some(thread) if thread.state == State::Blocked && thread.times.is_some() => {
                    break (overview, thread);
                }
                _ => std::thread::yield_now(),
            }
        };
        let history = client.history(thread.id, true).unwrap();
        drop(held);
        waiter.join().unwrap();
        let lock = client.locks().unwrap().remove(0);
        let lwp = overview.runtimes[0].lwps[0].clone();
        Seed { overview, lwp, thread, lock, history }
    })
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns a thread that events may name as a waker.
pub(crate) fn waker() -> ThreadId {
    seed().history.events[0].thread.expect("it has events of a thread")
}

/// A moment of a made-up program.
pub(crate) struct Scene {
    pub(crate) snapshot: Snapshot,
}

impl Scene {
    /// Begins with one `mxn` runtime of this concurrency, at this time.
    pub(crate) fn at(at: Duration, concurrency: usize) -> Self {
        let mut overview = seed().overview.clone();
        overview.pid = 4242;
        overview.program = "made-up".into();
        overview.at = at;
        (overview.user, overview.system, overview.monitor) = (at, ms(0), at / 100);
        overview.level = Level::Times;
        overview.runtimes.truncate(1);
        let runtime = &mut overview.runtimes[0];
        (runtime.number, runtime.concurrency, runtime.max_lwps) = (1, concurrency, Some(64));
        (runtime.threads, runtime.bound, runtime.bound_reached) = (0, 0, 0);
        runtime.lwps.clear();
        runtime.run_queue = Some(RunQueueLength::default());
        runtime.run_queue_latency = Some(LatencyHistogram::default());
        (runtime.compensated, runtime.handed_off, runtime.preempted) = (0, 0, 0);
        let page = ThreadPageView::default();
        let mut it = Self {
            snapshot: Snapshot {
                anew: false,
                overview,
                pages: vec![(1, page)],
                locks: None,
                deadlocks: None,
                cpus: vec![],
                own: HashMap::new(),
                calls: HashMap::new(),
                history: None,
            },
        };
        it.snapshot.pages[0].1.last = true;
        it
    }

    /// Lets threads wait in run queues: so many for which an LWP was chosen, and others.
    pub(crate) fn queues(mut self, dispatchable: usize, queued: usize) -> Self {
        let mut length = RunQueueLength::default();
        (length.dispatchable, length.queued) = (dispatchable, queued);
        self.snapshot.overview.runtimes[0].run_queue = Some(length);
        self
    }

    /// Adds waits of this length to the run-queue latency.
    pub(crate) fn waited(mut self, many: u64, wait: Duration) -> Self {
        let latency = &mut self.snapshot.overview.runtimes[0].run_queue_latency;
        (0..many).for_each(|_| latency.get_or_insert_default().record(wait));
        self
    }

    /// Adds an LWP.
    pub(crate) fn lwp(mut self, state: LwpState, thread: Option<u64>, dispatches: u64) -> Self {
        let mut lwp = seed().lwp.clone();
        let lwps = &mut self.snapshot.overview.runtimes[0].lwps;
        (lwp.number, lwp.tid, lwp.cpu) = (lwps.len(), 100 + lwps.len() as u32, Some(lwps.len() as u32));
        (lwp.state, lwp.thread, lwp.dispatches, lwp.steals) = (state, thread, dispatches, 0);
        let ran = if thread.is_some() { self.snapshot.overview.at } else { ms(0) };
        (lwp.cpu_time, lwp.times, lwp.queued) = (Some((ran, ms(0))), None, 0);
        lwps.push(lwp);
        self
    }

    /// Adds a thread, which has always been in this state.
    pub(crate) fn thread(mut self, id: u64, name: &str, state: State) -> Self {
        let mut view = seed().thread.clone();
        (view.id, view.name, view.state) = (id, Some(name.into()), state);
        (view.reason, view.at, view.object, view.owner) = (None, None, None, None);
        (view.lwp, view.cpu, view.tid, view.bound) = (None, None, None, false);
        let mut times: ThreadTimes = view.times.take().unwrap();
        let at = self.snapshot.overview.at;
        (times.life, times.since, times.states) = (at, at, [ms(0); 6]);
        times.states[index(state)] = at;
        (times.dispatches, times.preempted, times.migrations) = (at.as_millis() as u64, 3, 4);
        view.times = Some(times);
        self.snapshot.overview.runtimes[0].threads += 1;
        self.snapshot.pages[0].1.threads.push(view);
        self
    }

    /// Lets the thread that was added last own a kernel thread on CPU 1, which has always run or slept.
    pub(crate) fn own(mut self, tid: u32, asleep: bool) -> Self {
        let view = self.snapshot.pages[0].1.threads.last_mut().unwrap();
        (view.bound, view.tid) = (true, Some(tid));
        let ran = if asleep { ms(0) } else { self.snapshot.overview.at };
        let waits = matches!(view.state, State::Blocked | State::Sleeping);
        let own = KernelThread { tid, waits, asleep, cpu: Some(1), cpu_time: Some((ran, ms(0))) };
        self.snapshot.own.insert(view.id, own);
        self
    }

    /// Lets a kernel thread wait in `read`.
    pub(crate) fn reads(mut self, tid: u32) -> Self {
        self.snapshot.calls.insert(tid, Sysno::read);
        self
    }

    /// Lets the thread that was added last wait for a mutex, or for something else.
    pub(crate) fn waits(mut self, reason: WaitReason, at: u64, object: &str, owner: Option<u64>) -> Self {
        let view = self.snapshot.pages[0].1.threads.last_mut().unwrap();
        (view.reason, view.at, view.object) = (Some(reason), Some(at), Some(object.into()));
        view.owner = owner.map(|id| (id, None));
        self
    }

    /// Adds a lock.
    pub(crate) fn lock(mut self, at: u64, name: &str, contended: u64, owner: u64) -> Self {
        let mut lock = seed().lock.clone();
        (lock.at, lock.name, lock.kind) = (at, Some(name.into()), Some(WaitReason::Mutex));
        (lock.contended, lock.slept, lock.waited, lock.longest) = (contended, contended, ms(70), ms(7));
        lock.owner = Some((owner, None));
        self.snapshot.locks.get_or_insert_default().push(lock);
        self
    }

    /// Lets events be recorded, and this one happen to the followed thread, on LWP 7.
    pub(crate) fn event(mut self, followed: u64, at: Duration, kind: EventKind) -> Self {
        let overview = &mut self.snapshot.overview;
        overview.level = Level::Events;
        let (_, history) = self.snapshot.history.get_or_insert_with(|| {
            let mut history = seed().history.clone();
            (history.at, history.whole_since) = (overview.at, ms(0));
            history.events.clear();
            history.objects = vec![(0xbeef, "table".into())];
            (followed, history)
        });
        let mut event = seed().history.events[0];
        (event.at, event.track, event.kind) = (at, Track::Lwp { runtime: 1, lwp: 7 }, kind);
        history.events.push(event);
        self
    }

    /// Lets all events before this moment be lost.
    pub(crate) fn lost_until(mut self, moment: Duration) -> Self {
        if let Some((_, history)) = &mut self.snapshot.history {
            history.whole_since = moment;
        }
        self
    }

    /// Sets the ticks of the CPUs: all busy.
    pub(crate) fn cpus(mut self, count: u32) -> Self {
        let busy = self.snapshot.overview.at.as_millis() as u64 / 10;
        self.snapshot.cpus = (0..count).map(|number| CpuTimes { number, busy, idle: 0 }).collect();
        self
    }
}

/// Returns a program with two hogs, a queue, and a convoy at a lock, seen three times in 600 ms.
pub(crate) fn busy_program() -> Model {
    let mut model = Model::default();
    for at in [1000, 1300, 1600] {
        let mut scene = Scene::at(ms(at), 2)
            .lwp(LwpState::Running, Some(1), 5)
            .lwp(LwpState::Running, Some(2), 5 + at)
            .lwp(LwpState::Spare, None, 1)
            .cpus(2)
            .thread(1, "hog-1", State::Running)
            .thread(2, "writer", State::Running)
            .thread(3, "late", State::Runnable)
            .thread(4, "clock", State::Sleeping)
            .waits(WaitReason::Sleep, 0, "", None)
            .lock(0xbeef, "table", at, 2);
        for id in 10..16 {
            let name = format!("reader-{id}");
            scene =
                scene.thread(id, &name, State::Blocked).waits(WaitReason::Mutex, 0xbeef, "table", Some(2));
        }
        model.apply(scene.snapshot);
    }
    model
}
