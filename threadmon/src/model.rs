//! What is known of the program: the latest of each thing, and what has changed since the one before.
//!
//! Threads come in pages, so they are of different ages. A thread that is in no page of a whole walk has
//! waited on since the walk before.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use selvedge::threadmon::{LockView, LwpView, Overview, RuntimeView, ThreadView};
use selvedge::trace::{Level, State};
use selvedge::{LatencyHistogram, LwpState};
use syscalls::Sysno;

pub(crate) use threadmon::clean;

use crate::cpus::CpuTimes;
use crate::history::History;
use crate::kernel_threads::KernelThread;
use crate::source::Snapshot;

/// How many refreshes of the followed thread are kept.
const REFRESHES: usize = 1000;

/// The time over which the use of CPUs is taken: the kernel counts in ticks of some 10 ms.
const CPU_SPAN: Duration = Duration::from_secs(1);

/// The time over which the run-queue latency is taken.
const LATENCY_SPAN: Duration = Duration::from_secs(5);

/// The shares of the states, in the order of [`State::ALL`].
pub(crate) type Shares = [f64; 6];

/// A thread.
pub(crate) struct Row {
    pub(crate) runtime: u32,
    pub(crate) view: ThreadView,
    /// When it was seen last, by the program's clock.
    pub(crate) seen: Duration,
    walk: u64,
    /// Between the last two times that it was seen.
    pub(crate) shares: Option<Shares>,
    pub(crate) dispatches: Option<f64>,
    /// The kernel thread that it owns.
    pub(crate) own: Option<Own>,
}

/// A kernel thread that a thread owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) now: KernelThread,
    pub(crate) state: LwpState,
    pub(crate) rates: LwpRates,
}

/// A kernel thread that runs threads.
#[derive(Clone, Copy)]
pub(crate) struct Carrier<'a> {
    pub(crate) runtime: &'a RuntimeView,
    /// The number of the LWP; `None`: its thread owns it.
    pub(crate) number: Option<usize>,
    pub(crate) tid: u32,
    pub(crate) state: LwpState,
    pub(crate) thread: Option<u64>,
    pub(crate) cpu: Option<u32>,
    pub(crate) rates: LwpRates,
    /// How many threads wait in its own run queue.
    pub(crate) queued: usize,
}

/// What is derived for an LWP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LwpRates {
    /// The share of time on a CPU, and that of waiting for one.
    pub(crate) ran: Option<f64>,
    pub(crate) waited: Option<f64>,
    pub(crate) dispatches: f64,
    pub(crate) steals: f64,
    /// How long it has been in its state, or longer.
    pub(crate) in_state: Duration,
    /// How long it has dispatched no thread, or longer.
    pub(crate) same_thread: Duration,
    state_since: Duration,
    dispatch_since: Duration,
}

/// A CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuRow {
    pub(crate) number: u32,
    /// Shares of its time: this process's, others', none.
    pub(crate) ours: f64,
    pub(crate) others: f64,
    pub(crate) idle: f64,
}

/// How a moment of the followed thread was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    pub(crate) state: State,
    pub(crate) shares: Option<Shares>,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) overview: Option<Overview>,
    pub(crate) threads: HashMap<u64, Row>,
    walks: HashMap<u32, u64>,
    /// By runtime and number.
    pub(crate) lwps: HashMap<(u32, usize), LwpRates>,
    pub(crate) cpus: Vec<CpuRow>,
    /// By runtime: run-queue latencies as they were at the last refreshes.
    latencies: HashMap<u32, VecDeque<(Duration, LatencyHistogram)>>,
    calls: HashMap<u32, Sysno>,
    /// The threads that own kernel threads, in order.
    owners: Vec<u64>,
    /// What their kernel threads had of each CPU.
    ran_on: HashMap<u32, f64>,
    cpu_samples: VecDeque<(Duration, Vec<CpuTimes>)>,
    /// User and system time, as shares of one CPU.
    pub(crate) used: (f64, f64),
    /// What the serving thread used, as a share of one CPU.
    pub(crate) monitor: f64,
    /// By address.
    pub(crate) locks: BTreeMap<u64, LockView>,
    /// How many threads wait at each address, as far as is known.
    pub(crate) waiting: HashMap<u64, usize>,
    /// By address: how often a second a thread found it taken.
    pub(crate) contention: HashMap<u64, f64>,
    locks_at: Option<Duration>,
    pub(crate) deadlocks: String,
    /// How often the bound of LWPs was reached since the refresh before.
    pub(crate) bound_reached: u64,
    pub(crate) followed: Option<u64>,
    /// What it was at each refresh.
    pub(crate) refreshes: VecDeque<Moment>,
    /// What has happened to it, while events are recorded.
    pub(crate) history: History,
    /// Why there is nothing new: it has ended, or does not answer.
    pub(crate) trouble: Option<String>,
}

impl Model {
    pub(crate) fn apply(&mut self, snapshot: Snapshot) {
        let Snapshot { overview, anew, pages, locks, deadlocks, cpus, own, calls, history } = snapshot;
        (self.trouble, self.calls) = (None, calls);
        let before = self.overview.take();
        self.bound_reached = 0;
        if let Some(before) = &before {
            let span = seconds(before.at, overview.at);
            let used = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / span;
            self.used = (used(overview.user, before.user), used(overview.system, before.system));
            self.monitor = used(overview.monitor, before.monitor);
            let reached = |of: &Overview| of.runtimes.iter().map(|it| it.bound_reached).sum::<u64>();
            self.bound_reached = reached(&overview).saturating_sub(reached(before));
        }
        self.apply_lwps(before.as_ref(), &overview);
        self.apply_latencies(&overview);
        if anew {
            self.threads.clear();
        }
        for (runtime, page) in pages {
            let walk = *self.walks.entry(runtime).or_default();
            for view in page.threads {
                let own = own.get(&view.id).copied();
                self.apply_thread(runtime, walk, overview.at, view, own);
            }
            for ended in page.ended {
                self.threads.remove(&ended);
            }
            if page.last {
                let others = self.threads.values_mut().filter(|it| it.runtime == runtime && it.walk != walk);
                others.for_each(|row| row.waits_on(overview.at));
                self.walks.insert(runtime, walk + 1);
            }
        }
        self.threads.retain(|_, row| overview.runtimes.iter().any(|it| it.number == row.runtime));
        if let Some(locks) = locks {
            self.apply_locks(overview.at, locks);
        }
        if let Some(found) = deadlocks {
            self.deadlocks = found;
        }
        match history {
            Some((id, view)) if self.followed == Some(id) => self.history.add(view),
            // The next session of the trace has other events.
            None if overview.level != Level::Events => self.history = History::default(),
            _ => {}
        }
        self.waiting.clear();
        for at in self.threads.values().filter_map(|row| row.view.at) {
            *self.waiting.entry(at).or_default() += 1;
        }
        self.note_followed(overview.at);
        self.list_owners();
        self.apply_cpus(&overview, cpus);
        self.overview = Some(overview);
    }

    fn apply_thread(
        &mut self,
        runtime: u32,
        walk: u64,
        at: Duration,
        view: ThreadView,
        own: Option<KernelThread>,
    ) {
        let before = self.threads.remove(&view.id);
        let own = own.map(|now| Own::at(at, now, view.state, before.as_ref()));
        let mut row = Row { runtime, view, seen: at, walk, shares: None, dispatches: None, own };
        if let Some(before) = before
            && let (Some(now), Some(then)) = (&row.view.times, &before.view.times)
        {
            let spent: [f64; 6] =
                std::array::from_fn(|it| now.states[it].saturating_sub(then.states[it]).as_secs_f64());
            let all: f64 = spent.iter().sum();
            row.shares = if all > 0.0 { Some(spent.map(|it| it / all)) } else { before.shares };
            let dispatches = now.dispatches.saturating_sub(then.dispatches);
            row.dispatches = Some(dispatches as f64 / seconds(before.seen, at));
        }
        self.threads.insert(row.view.id, row);
    }

    /// Keeps what the followed thread does at this refresh, if it is known.
    fn note_followed(&mut self, at: Duration) {
        let row = self.followed.and_then(|id| self.threads.get(&id));
        if let Some(row) = row.filter(|row| row.seen == at) {
            self.refreshes.push_back(Moment { state: row.view.state, shares: row.shares });
            if self.refreshes.len() > REFRESHES {
                self.refreshes.pop_front();
            }
        }
    }

    fn apply_lwps(&mut self, before: Option<&Overview>, overview: &Overview) {
        let mut all = HashMap::new();
        for runtime in &overview.runtimes {
            let then = before.and_then(|it| it.runtimes.iter().find(|it| it.number == runtime.number));
            for lwp in &runtime.lwps {
                let key = (runtime.number, lwp.number);
                let then = then.and_then(|it| it.lwps.iter().find(|it| it.number == lwp.number));
                let then = then.filter(|it| it.tid == lwp.tid).zip(before).zip(self.lwps.get(&key));
                let fresh =
                    LwpRates { state_since: overview.at, dispatch_since: overview.at, ..<_>::default() };
                let rates = then.map_or(fresh, |((then, before), rates)| {
                    let span = seconds(before.at, overview.at);
                    lwp_rates(then, lwp, *rates, overview.at, span)
                });
                all.insert(key, rates);
            }
        }
        self.lwps = all;
    }

    fn apply_latencies(&mut self, overview: &Overview) {
        let counted =
            overview.runtimes.iter().filter_map(|it| Some((it.number, it.run_queue_latency.clone()?)));
        let mut before = std::mem::take(&mut self.latencies);
        self.latencies = counted
            .map(|(runtime, latency)| {
                // At first, all that was counted before counts, too.
                let first = || VecDeque::from([(overview.at, LatencyHistogram::default())]);
                let mut all = before.remove(&runtime).unwrap_or_else(first);
                all.push_back((overview.at, latency));
                while all.get(1).is_some_and(|(at, _)| overview.at.saturating_sub(*at) >= LATENCY_SPAN) {
                    all.pop_front();
                }
                (runtime, all)
            })
            .collect();
    }

    /// Returns how long threads of this runtime waited until they ran, in the last seconds; `None`: times are
    /// not counted.
    pub(crate) fn latency(&self, runtime: u32) -> Option<LatencyHistogram> {
        let all = self.latencies.get(&runtime)?;
        Some(all.back()?.1.since(&all.front()?.1))
    }

    fn apply_locks(&mut self, at: Duration, locks: Vec<LockView>) {
        let span = self.locks_at.map(|then| seconds(then, at));
        let rate = |lock: &LockView| {
            let more = lock.contended.saturating_sub(self.locks.get(&lock.at)?.contended);
            Some((lock.at, more as f64 / span?))
        };
        self.contention = locks.iter().filter_map(rate).collect();
        self.locks = locks.into_iter().map(|lock| (lock.at, lock)).collect();
        self.locks_at = Some(at);
    }

    /// Lists the threads that own kernel threads, and sums what these had of each CPU.
    fn list_owners(&mut self) {
        self.ran_on.clear();
        let owners = self.threads.iter().filter_map(|(&id, row)| Some((id, row.own?)));
        let mut owners: Vec<(u64, Own)> = owners.collect();
        for (cpu, ran) in owners.iter().filter_map(|(_, own)| own.now.cpu.zip(own.rates.ran)) {
            *self.ran_on.entry(cpu).or_default() += ran;
        }
        owners.sort_by_key(|(id, _)| *id);
        self.owners = owners.into_iter().map(|(id, _)| id).collect();
    }

    fn apply_cpus(&mut self, overview: &Overview, cpus: Vec<CpuTimes>) {
        self.cpu_samples.push_back((overview.at, cpus));
        while self.cpu_samples.len() > 2
            && self.cpu_samples.get(1).is_some_and(|(at, _)| overview.at.saturating_sub(*at) >= CPU_SPAN)
        {
            self.cpu_samples.pop_front();
        }
        let (Some((_, then)), Some((_, now))) = (self.cpu_samples.front(), self.cpu_samples.back()) else {
            return;
        };
        let rows = now.iter().filter_map(|cpu| {
            let then = then.iter().find(|it| it.number == cpu.number)?;
            // Its kernel threads, of which each may have been on other CPUs, too.
            let on_it = |lwp: &&LwpView| lwp.cpu == Some(cpu.number);
            let ran = |runtime: &RuntimeView| {
                let lwps = runtime.lwps.iter().filter(on_it);
                lwps.filter_map(|lwp| self.lwps.get(&(runtime.number, lwp.number))?.ran).sum::<f64>()
            };
            let own = self.ran_on.get(&cpu.number).unwrap_or(&0.0);
            let ours = (overview.runtimes.iter().map(ran).sum::<f64>() + own).min(1.0);
            let busy = cpu.busy_since(then).unwrap_or(0.0).max(ours);
            Some(CpuRow { number: cpu.number, ours, others: busy - ours, idle: 1.0 - busy })
        });
        self.cpus = rows.collect();
    }

    /// Follows this thread from now on, or none.
    pub(crate) fn follow(&mut self, id: Option<u64>) {
        self.followed = id;
        self.refreshes.clear();
        self.history = History::default();
    }

    /// Returns how many of the known threads are in each state.
    pub(crate) fn counts(&self) -> [usize; 6] {
        let mut counts = [0; 6];
        self.threads.values().for_each(|row| counts[index(row.view.state)] += 1);
        counts
    }

    /// Returns how many threads live.
    pub(crate) fn total(&self) -> usize {
        self.runtimes().iter().map(|it| it.threads).sum()
    }

    pub(crate) fn runtimes(&self) -> &[RuntimeView] {
        self.overview.as_ref().map_or(&[], |it| &it.runtimes)
    }

    pub(crate) fn level(&self) -> Level {
        self.overview.as_ref().map(|it| it.level).unwrap_or_default()
    }

    /// Returns all LWPs, each with its runtime and what is derived for it.
    pub(crate) fn all_lwps(&self) -> impl Iterator<Item = (&RuntimeView, &LwpView, LwpRates)> {
        self.runtimes().iter().flat_map(move |runtime| {
            runtime.lwps.iter().map(move |lwp| {
                (runtime, lwp, self.lwps.get(&(runtime.number, lwp.number)).copied().unwrap_or_default())
            })
        })
    }

    /// Returns all LWPs, and the kernel threads that threads own, in the order of these threads.
    pub(crate) fn carriers(&self) -> impl Iterator<Item = Carrier<'_>> {
        let lwps = self.all_lwps().map(|(runtime, lwp, rates)| {
            let &LwpView { number, tid, state, thread, cpu, queued, .. } = lwp;
            Carrier { runtime, number: Some(number), tid, state, thread, cpu, rates, queued }
        });
        lwps.chain(self.owners.iter().filter_map(|&id| self.owned_by(id)))
    }

    /// Returns the kernel thread that this thread owns.
    pub(crate) fn owned_by(&self, id: u64) -> Option<Carrier<'_>> {
        let row = self.threads.get(&id)?;
        let Own { now, state, rates } = row.own?;
        let runtime = self.runtimes().iter().find(|it| it.number == row.runtime)?;
        let (tid, cpu) = (now.tid, now.cpu);
        Some(Carrier { runtime, number: None, tid, state, thread: Some(id), cpu, rates, queued: 0 })
    }

    /// Returns the name of the system call in which this kernel thread waits.
    pub(crate) fn call(&self, tid: u32) -> Option<&'static str> {
        self.calls.get(&tid).map(Sysno::name)
    }

    /// Returns the name of a thread, or its number.
    pub(crate) fn name(&self, id: u64) -> String {
        let name = self.threads.get(&id).and_then(|row| row.view.name.as_deref());
        name.map_or_else(|| format!("#{id}"), clean)
    }
}

impl Row {
    /// Returns the CPU that it is on, or was on last, if that is known.
    pub(crate) fn cpu(&self) -> Option<u32> {
        self.view.cpu.or(self.view.times.as_ref()?.cpu)
    }

    /// Notes that it has waited on until now.
    fn waits_on(&mut self, at: Duration) {
        let state = index(self.view.state);
        if !matches!(self.view.state, State::Blocked | State::Sleeping) {
            return;
        }
        let span = at.saturating_sub(self.seen);
        self.seen = at;
        if let Some(times) = &mut self.view.times {
            times.life += span;
            times.since += span;
            times.states[state] += span;
            self.shares = Some(std::array::from_fn(|it| if it == state { 1.0 } else { 0.0 }));
            self.dispatches = Some(0.0);
        }
        if let Some(own) = &mut self.own {
            (own.rates.ran, own.rates.waited) = (Some(0.0), Some(0.0));
            own.rates.in_state += span;
        }
    }
}

impl Own {
    /// Returns what is known at this moment of the kernel thread of a thread in this state.
    fn at(at: Duration, now: KernelThread, of_thread: State, before: Option<&Row>) -> Self {
        let state = match of_thread {
            _ if now.waits => LwpState::Idle,
            State::InKernel => LwpState::InKernel,
            _ if now.asleep => LwpState::InKernel,
            _ => LwpState::Running,
        };
        let mut rates = LwpRates { state_since: at, dispatch_since: at, ..<_>::default() };
        let then = before.and_then(|row| Some((row.seen, row.own.filter(|own| own.now.tid == now.tid)?)));
        if let Some((seen, then)) = then {
            let span = seconds(seen, at);
            let used = |part: fn((Duration, Duration)) -> Duration| {
                let used = part(now.cpu_time?).saturating_sub(part(then.now.cpu_time?));
                Some((used.as_secs_f64() / span).min(1.0))
            };
            (rates.ran, rates.waited) = (used(|it| it.0), used(|it| it.1));
            if then.state == state {
                rates.state_since = then.rates.state_since;
            }
            rates.in_state = at.saturating_sub(rates.state_since);
        }
        Self { now, state, rates }
    }
}

fn lwp_rates(then: &LwpView, now: &LwpView, rates: LwpRates, at: Duration, span: f64) -> LwpRates {
    let used = |now: Option<Duration>, then: Option<Duration>| {
        Some((now?.saturating_sub(then?).as_secs_f64() / span).min(1.0))
    };
    let dispatched = now.dispatches != then.dispatches || now.thread != then.thread;
    let dispatch_since = if dispatched { at } else { rates.dispatch_since };
    let state_since = if now.state == then.state && !dispatched { rates.state_since } else { at };
    LwpRates {
        ran: used(now.cpu_time.map(|it| it.0), then.cpu_time.map(|it| it.0)),
        waited: used(now.cpu_time.map(|it| it.1), then.cpu_time.map(|it| it.1)),
        dispatches: now.dispatches.saturating_sub(then.dispatches) as f64 / span,
        steals: now.steals.saturating_sub(then.steals) as f64 / span,
        in_state: at.saturating_sub(state_since),
        same_thread: at.saturating_sub(dispatch_since),
        state_since,
        dispatch_since,
    }
}

fn seconds(from: Duration, to: Duration) -> f64 {
    to.saturating_sub(from).as_secs_f64().max(0.001)
}

/// Returns where a state stands in [`State::ALL`].
pub(crate) fn index(state: State) -> usize {
    State::ALL.iter().position(|&it| it == state).unwrap_or(0)
}

/// Returns what an LWP does, in words.
pub(crate) fn lwp_state(state: LwpState) -> &'static str {
    match state {
        LwpState::Starting => "starting",
        LwpState::Running => "running",
        LwpState::Searching => "searching",
        LwpState::Idle => "idle",
        LwpState::Spare => "spare",
        LwpState::Blocking => "may block",
        LwpState::InKernel => "in kernel",
        LwpState::WithoutSlot => "without slot",
        _ => "?",
    }
}
