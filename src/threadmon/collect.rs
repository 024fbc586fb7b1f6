//! What the program answers: collected when it is asked for.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use super::dump::dump;
use super::views::{HistoryView, LockView, LwpView, Overview, RuntimeView, ThreadPageView, ThreadView};
use super::wire::{Request, Response};
use crate::observe::{contention, lock_owners, names};
use crate::runtime::registry::{self, Observed};
use crate::runtime::stats::{LwpStats, RuntimeStats};
use crate::sys::clock::monotonic;
use crate::sys::once::Mutex;
use crate::sys::task_state::Tasks;
use crate::sys::{affinity, poll};
use crate::thread::info::{ThreadInfo, ThreadState};
use crate::thread::seen::ThreadsSeen;
use crate::trace::history::{self, History};
use crate::trace::{EventKind, Level, State, level, parts, want_level};

/// The most threads of one page. So an answer has room for names of 4,000 bytes.
const MOST: usize = 4_096;

/// The most events of one history.
const EVENTS: usize = 1_000;

/// What one client has seen, and what it wants.
#[derive(Default)]
pub(super) struct Collector {
    /// What it has got of the threads, by the runtimes' numbers.
    seen: HashMap<u32, ThreadsSeen>,
    /// How much of each ring it has.
    rings: HashMap<usize, u64>,
    /// The thread that it follows, and how much of each ring it has seen of that.
    followed: (u64, HashMap<usize, u64>),
    wants: Wants,
}

impl Collector {
    pub(super) fn answer(&mut self, request: &Request) -> Response {
        match *request {
            Request::Hello(_) => Response::Done,
            Request::Overview => Response::Overview(overview()),
            Request::Threads(number, max, anew) => self.threads(number, max, anew),
            Request::Locks => Response::Locks(locks()),
            Request::SetLevel(level) => {
                self.wants.change(|it| it.level = level);
                Response::Done
            }
            Request::CountLocks(on) => {
                if on {
                    lock_owners::turn_on();
                }
                self.wants.change(|it| it.locks = on);
                Response::Done
            }
            Request::Events(all) => {
                if all {
                    self.rings.clear();
                }
                parts::take(&mut self.rings)
                    .map_or_else(|error| Response::Refused(error.to_string()), Response::Events)
            }
            Request::SetSample(one_of) => match NonZeroU32::new(one_of) {
                Some(one_of) => {
                    self.wants.change(|it| it.one_of = Some(one_of));
                    Response::Done
                }
                None => Response::Refused("expected at least 1 as the size of a sample, not 0".into()),
            },
            Request::Dump => Response::Text(dump()),
            Request::Deadlocks => Response::Text(deadlocks()),
            Request::History(thread, anew) => {
                if anew || self.followed.0 != thread {
                    self.followed = (thread, HashMap::new());
                }
                Response::History(history_view(history::take(thread, &mut self.followed.1, EVENTS)))
            }
        }
    }

    fn threads(&mut self, number: u32, max: u32, anew: bool) -> Response {
        let runtimes = registry::all();
        self.seen.retain(|number, _| runtimes.iter().any(|it| it.number() == *number));
        let Some(runtime) = runtimes.into_iter().find(|it| it.number() == number) else {
            return Response::Refused(format!("there is no runtime {number}"));
        };
        let seen = self.seen.entry(number).or_default();
        if anew {
            *seen = ThreadsSeen::new();
        }
        let changes = runtime.threads_changed(seen, MOST.min(max as usize));
        let ended = changes.ended().iter().map(|id| id.as_u64().get()).collect();
        let last = changes.is_last();
        let threads = changes.into_threads().into_iter().map(view).collect();
        Response::Threads(ThreadPageView { threads, ended, last })
    }
}

fn overview() -> Overview {
    let (user, system) = poll::cpu_times();
    let program = std::env::current_exe().ok();
    let program = program.and_then(|it| Some(it.file_name()?.to_string_lossy().into_owned()));
    Overview {
        pid: std::process::id(),
        program: program.unwrap_or_default(),
        at: Duration::from_nanos(monotonic()),
        cpus: affinity::available(),
        user,
        system,
        monitor: poll::thread_cpu_time(),
        level: level(),
        runtimes: registry::all().iter().map(|it| runtime_view(&**it, &it.stats())).collect(),
    }
}

pub(super) fn runtime_view(runtime: &dyn Observed, stats: &RuntimeStats) -> RuntimeView {
    let &RuntimeStats { threads, bound, concurrency, max_lwps, .. } = stats;
    RuntimeView {
        number: runtime.number(),
        model: stats.model.into(),
        threads,
        bound,
        concurrency,
        max_lwps,
        lwps: stats.lwps.iter().map(|lwp| lwp_view(runtime, lwp)).collect(),
        helpers: stats.helpers.iter().map(|helper| (helper.name.into(), helper.tid)).collect(),
        compensated: stats.compensated,
        handed_off: stats.handed_off,
        preempted: stats.preempted,
        bound_reached: stats.bound_reached,
        run_queue: stats.run_queue,
        run_queue_latency: stats.run_queue_latency.clone(),
    }
}

fn lwp_view(runtime: &dyn Observed, lwp: &LwpStats) -> LwpView {
    LwpView {
        number: lwp.number,
        tid: lwp.tid,
        state: lwp.state,
        thread: lwp.thread.map(|id| id.as_u64().get()),
        cpu: lwp.cpu,
        dispatches: lwp.dispatches,
        steals: lwp.steals,
        wakes: lwp.wakes,
        cpu_time: cpu_time(lwp.tid),
        times: runtime.lwp_times(lwp.number),
        queued: lwp.queued,
    }
}

/// Returns the CPU time of a kernel thread, and the time that it waited for a CPU.
fn cpu_time(tid: u32) -> Option<(Duration, Duration)> {
    let time = Tasks::SHARED.cpu_time(tid.cast_signed()).ok()?;
    Some((Duration::from_nanos(time.ran), Duration::from_nanos(time.waited)))
}

pub(super) fn view(info: ThreadInfo) -> ThreadView {
    let (mut state, mut reason, mut at, mut tid, mut lwp) = (State::Running, None, None, None, info.lwp());
    let stack = info.stack().map(|stack| (stack.high_water(), stack.size()));
    let mut owner = info.owner().map(|(id, name)| (id.as_u64().get(), name.map(str::to_owned)));
    match info.state() {
        ThreadState::Running { tid: on } => tid = on,
        ThreadState::InKernel { tid: on } => (state, tid) = (State::InKernel, Some(on)),
        ThreadState::Runnable => state = State::Runnable,
        ThreadState::Dispatchable { lwp: chosen } => (state, lwp) = (State::Dispatchable, Some(chosen)),
        ThreadState::Waiting { reason: why, at: object, thread } => {
            state = State::of_wait(why);
            (reason, at) = (Some(why), object.map(|at| at as u64));
            owner = owner.or(thread.map(|id| (id.as_u64().get(), None)));
        }
    }
    ThreadView {
        id: info.id().as_u64().get(),
        name: info.name().map(str::to_owned),
        state,
        reason,
        at,
        object: info.object_name().map(str::to_owned),
        owner,
        lwp,
        cpu: info.cpu(),
        tid: tid.or(info.kernel_thread()),
        bound: info.is_bound(),
        priority: info.priority(),
        times: info.times().cloned(),
        stack,
        maker: info.maker().map(|id| id.as_u64().get()),
    }
}

fn history_view(history: History) -> HistoryView {
    let History { at, events, whole_since } = history;
    let mut objects: Vec<usize> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Block { at, .. } => at,
            _ => None,
        })
        .collect();
    objects.sort_unstable();
    objects.dedup();
    let objects = objects.into_iter().filter_map(|at| Some((at as u64, names::of(at)?))).collect();
    HistoryView { at, events, whole_since, objects }
}

fn locks() -> Vec<LockView> {
    let owners: HashMap<usize, lock_owners::Holder> = lock_owners::all().into_iter().collect();
    let locks = contention::all().into_iter().map(|(at, counts)| {
        let owner = owners.get(&at).map(|it| (it.id.get(), it.thread.name_of(it.id)));
        LockView {
            at: at as u64,
            name: names::of(at),
            kind: counts.kind,
            contended: counts.contended,
            slept: counts.slept,
            waited: counts.waited,
            longest: counts.longest,
            owner,
        }
    });
    locks.collect()
}

fn deadlocks() -> String {
    let mut text = String::new();
    for runtime in registry::all() {
        let found = runtime.deadlocks();
        if found.any() {
            let _ = writeln!(text, "runtime {}: {found}", runtime.number());
        }
    }
    text
}

/// What one client wants the program to count and record. The most of what all want holds, until they go.
///
/// **Rejected.** A client that puts back what it has found. It may be killed, and it may have found what
/// another client wanted that has gone since.
#[derive(Default)]
struct Want {
    level: Level,
    /// It wants the events of one thread of so many.
    one_of: Option<NonZeroU32>,
    /// It wants contention to be counted.
    locks: bool,
}

/// By number. Only the thread that serves comes here.
static ALL: Mutex<BTreeMap<u64, Want>> = Mutex::new(BTreeMap::new());

/// The number of a client that wants anything. Dropped with its connection.
#[derive(Default)]
struct Wants(Option<u64>);

impl Wants {
    fn change(&mut self, change: impl FnOnce(&mut Want)) {
        let mut all = ALL.lock(|_| ());
        let next = all.last_key_value().map_or(0, |(last, _)| last + 1);
        change(all.entry(*self.0.get_or_insert(next)).or_default());
        apply(&all);
    }
}

impl Drop for Wants {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            let mut all = ALL.lock(|_| ());
            all.remove(&number);
            apply(&all);
        }
    }
}

fn apply(all: &BTreeMap<u64, Want>) {
    let level = all.values().map(|it| it.level).max().unwrap_or_default();
    want_level(level, all.values().filter_map(|it| it.one_of).min());
    contention::want(all.values().any(|it| it.locks));
}
