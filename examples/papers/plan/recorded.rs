//! Barriers, recorded: runs them while the runtime records events, and says what the threads did.

use std::collections::HashMap;
use std::time::Duration;

use selvedge::mxn::Builder;
use selvedge::trace::{self, Level, Recording, State, Timeline, Track};
use selvedge::{Mxn, OneToOne, Runtime, thread};

use crate::lives::{Lives, Piece};
use crate::strip::Doing;
use crate::support::barriers::{Plan, compute};
use crate::support::harness::{Case, Run, Side};
use crate::support::selvedge::Private;

/// These rounds on M:N, set up like this.
pub(super) fn on_mxn(name: &'static str, plan: Plan, set_up: impl Fn(Builder) -> Builder + 'static) -> Case {
    Case::new(name, Side::Ours, move |effort| {
        let runtime = set_up(Mxn::builder()).build().expect("a runtime");
        runtime.run(|| record(Plan { rounds: effort.operations() as u32, ..plan }))
    })
}

/// The same on 1:1.
pub(super) fn on_kernel_threads(name: &'static str, plan: Plan) -> Case {
    Case::new(name, Side::Ours, move |effort| {
        let runtime = OneToOne::new().expect("a runtime");
        runtime.run(|| record(Plan { rounds: effort.operations() as u32, ..plan }))
    })
}

/// Computes on the calling thread's runtime, and records it.
fn record(plan: Plan) -> Run {
    let warm_up = Plan { rounds: plan.rounds.div_ceil(10), iterations: plan.iterations / 10, ..plan };
    compute::<Private, _>(warm_up, |_| ()).expect("a few threads").all(warm_up);
    let caller = thread::current().id();
    trace::set_level(Level::Events);
    let computed = compute::<Private, _>(plan, |_| ()).expect("a few threads");
    let recording = Recording::take();
    trace::set_level(Level::Off);
    let elapsed = computed.all(plan);

    let timeline = Timeline::of(&recording);
    let mut lwps = Numbers::default();
    let mut threads = Vec::new();
    let mut from = forgotten_until(&recording);
    for line in timeline.threads() {
        let mut pieces = Vec::new();
        for span in &line.spans {
            let doing = match (span.state, span.track) {
                (State::Running | State::InKernel, Some(track)) => Doing::OnLwp(lwps.of(track)),
                (State::Dispatchable, _) => Doing::Dispatchable,
                (State::Runnable, _) => Doing::RunQueue,
                _ => Doing::Blocked,
            };
            pieces.push(Piece { from: span.from, to: span.to, doing });
        }
        if line.id != caller {
            threads.push(pieces);
        } else if let Some(joins) = pieces.iter().find(|piece| piece.doing == Doing::Blocked) {
            // The caller waits for nothing before all threads have been let go.
            from = from.max(joins.from);
        }
    }
    let run = Lives::between(from, timeline.end(), threads);
    let shown = plan.rounds.min(SHOWN);
    let seen = run.strip(run.length() * shown / plan.rounds.max(1)).to_string();
    Run { more: run.figures(plan.rounds), seen, ..Run::took(plan.rounds.into(), elapsed) }
}

/// The most rounds that a strip shows.
const SHOWN: u32 = 4;

/// Returns since when the recording is whole: a ring that is full has lost what came before its first event.
fn forgotten_until(recording: &Recording) -> Duration {
    let mut rings: HashMap<Track, (Duration, usize)> = HashMap::new();
    for event in recording.events() {
        rings.entry(event.track).or_insert((event.at, 0)).1 += 1;
    }
    let is_full = |track: &Track, events: usize| match track {
        Track::Lwp { .. } => events >= 15_000,
        _ => events >= 480,
    };
    let full = rings.iter().filter(|(track, (_, events))| is_full(track, *events));
    full.map(|(_, (first, _))| *first).max().unwrap_or_default()
}

/// Numbers for kernel threads, in the order in which they are met.
#[derive(Default)]
struct Numbers(Vec<Track>);

impl Numbers {
    fn of(&mut self, track: Track) -> usize {
        self.0.iter().position(|&known| known == track).unwrap_or_else(|| {
            self.0.push(track);
            self.0.len() - 1
        })
    }
}
