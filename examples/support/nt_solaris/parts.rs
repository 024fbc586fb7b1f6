//! The experiments that take place in this process: trials of each number of threads, and a table.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::journal::Journal;
use super::options::{Options, Scope};
use super::workers::bursts::{self, Bursts};
use super::workers::compute::{self, STEPS_PER_MS};
use super::workers::create::{self, Created};
use super::workers::search::{self, Found};
use super::workers::tsplib::Instance;
use super::workers::{Tally, locks};
use crate::support::library::{Library, Std};
use crate::support::selvedge::{Private, Shared};

/// The experiments on one library.
pub(crate) struct Workloads {
    create: fn(create::Plan) -> io::Result<Created>,
    compute: fn(compute::Plan) -> io::Result<Tally>,
    local: fn(locks::Plan) -> io::Result<Tally>,
    /// With mutexes that processes can share.
    shared: Option<fn(locks::Plan) -> io::Result<Tally>>,
    search: fn(&Arc<Instance>, search::Plan) -> io::Result<Found>,
    burst: fn(bursts::Plan) -> io::Result<Bursts>,
}

pub(crate) const SELVEDGE: Workloads =
    Workloads { shared: Some(locks::synchronize::<Shared>), ..Workloads::on::<Private>() };

pub(crate) const STD: Workloads = Workloads::on::<Std>();

impl Workloads {
    const fn on<L: Library>() -> Self {
        Self {
            create: create::create::<L>,
            compute: compute::compute::<L>,
            local: locks::synchronize::<L>,
            shared: None,
            search: search::search::<L>,
            burst: bursts::burst::<L>,
        }
    }
}

/// The numbers of threads of each part, unless the user has named others: the paper's, where it tells them.
pub(crate) const CREATED: &[u32] = &[100, 500, 1_000, 2_000];
pub(crate) const WORKING: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128];
pub(crate) const SEARCHING: &[u32] = &[1, 2, 4, 8, 16];

/// The numbers of threads that are asked for.
pub(crate) fn threads<'a>(options: &'a Options, usual: &'a [u32]) -> &'a [u32] {
    if options.threads.is_empty() { usual } else { &options.threads }
}

/// The trials of one number of threads.
fn trials<T>(
    options: &Options,
    journal: &Journal<'_, '_>,
    mut trial: impl FnMut() -> io::Result<T>,
) -> io::Result<Vec<T>> {
    let one = |_| {
        let result = trial();
        journal.advance(1);
        result
    };
    (0..options.trials).map(one).collect()
}

fn row(threads: u32) -> String {
    format!("{threads} threads")
}

/// A cell of a table: up to a microsecond, if it is a time.
pub(crate) fn cell(figure: f64) -> String {
    format!("{figure:.3}")
}

/// Creation, with so many threads that compute meanwhile, and whatever else goes on.
pub(crate) fn create(
    on: &Workloads,
    options: &Options,
    journal: &mut Journal<'_, '_>,
    beside: &str,
    busy: u32,
) -> io::Result<()> {
    journal.table(&format!("creation, {beside}"), &["threads", "made, ms", "deviation", "ended, ms"])?;
    for &threads in threads(options, CREATED) {
        let plan = create::Plan { threads, busy, attributes: options.attributes() };
        let created = trials(options, journal, || (on.create)(plan))?;
        let row = row(threads);
        let making = journal.times(&row, &created.iter().map(|one| one.making).collect::<Vec<_>>());
        let ended: Vec<Duration> = created.iter().map(|one| one.all.elapsed).collect();
        let ended = journal.times(&format!("{row}, to their end"), &ended);
        journal.check(&row, "every thread ran", created.iter().all(|one| one.all.exact()));
        let cells = [making.mean(), making.deviation(), ended.mean()].map(cell);
        journal.row(&[&[threads.to_string()][..], &cells].concat(), "")?;
    }
    Ok(())
}

/// Computing without synchronisation.
pub(crate) fn compute(on: &Workloads, options: &Options, journal: &mut Journal<'_, '_>) -> io::Result<()> {
    let steps = steps_in(options.task);
    journal.outcome.set("task", format!("{steps} steps"));
    let claim = "every thread came to the right result";
    tallies(options, journal, "computing", claim, |threads| {
        (on.compute)(compute::Plan { threads, steps, attributes: options.attributes() })
    })
}

/// Computing with much synchronisation, by mutexes of either scope.
pub(crate) fn locks(on: &Workloads, options: &Options, journal: &mut Journal<'_, '_>) -> io::Result<()> {
    let Options { entries, outside, inside, .. } = *options;
    journal.outcome.set("entries", entries);
    journal.outcome.set("steps without and with the lock", vec![outside, inside]);
    let plan = |threads| locks::Plan { threads, entries, outside, inside, attributes: options.attributes() };
    let claim = "every entry was counted";
    if options.mutexes != Scope::Shared {
        tallies(options, journal, "locks, local mutex", claim, |threads| (on.local)(plan(threads)))?;
    }
    if options.mutexes != Scope::Private {
        match on.shared {
            Some(shared) => {
                tallies(options, journal, "locks, process-shared mutex", claim, |threads| {
                    shared(plan(threads))
                })?;
            }
            None => journal.say("\n(std has no mutex that processes can share)")?,
        }
    }
    Ok(())
}

/// A table of times by numbers of threads.
fn tallies(
    options: &Options,
    journal: &mut Journal<'_, '_>,
    title: &str,
    claim: &str,
    run: impl Fn(u32) -> io::Result<Tally>,
) -> io::Result<()> {
    journal.table(title, &["threads", "ms", "deviation"])?;
    for &threads in threads(options, WORKING) {
        let done = trials(options, journal, || run(threads))?;
        let row = row(threads);
        let times = journal.times(&row, &done.iter().map(|one| one.elapsed).collect::<Vec<_>>());
        journal.check(&row, claim, done.iter().all(Tally::exact));
        journal.row(&[threads.to_string(), cell(times.mean()), cell(times.deviation())], "")?;
    }
    Ok(())
}

/// Branch and bound.
pub(crate) fn search(
    on: &Workloads,
    options: &Options,
    journal: &mut Journal<'_, '_>,
    instance: &Arc<Instance>,
) -> io::Result<()> {
    let title = format!("search, {}", instance.name);
    journal.table(&title, &["threads", "ms", "deviation", "speed-up", "nodes"])?;
    let mut alone = None;
    let mut answer: Option<Found> = None;
    for &threads in threads(options, SEARCHING) {
        let plan = search::Plan {
            threads,
            depth: options.depth,
            first: options.first,
            attributes: options.attributes(),
        };
        let found = trials(options, journal, || (on.search)(instance, plan))?;
        let row = row(threads);
        let times = journal.times(&row, &found.iter().map(|one| one.elapsed).collect::<Vec<_>>());
        let speed_up = *alone.get_or_insert(times.mean()) / times.mean();
        journal.figure(&format!("{row}, speed-up"), "times", speed_up);
        let nodes = found.iter().map(|one| one.nodes as f64).sum::<f64>() / found.len() as f64;
        journal.figure(&format!("{row}, nodes"), "nodes", nodes);
        journal.check(
            &row,
            "every branch was searched",
            found.iter().all(|one| one.searched == one.branches),
        );
        let first = answer.get_or_insert_with(|| found[0].clone());
        let same = found.iter().all(|one| (one.length, &one.tour) == (first.length, &first.tour));
        journal.check(&row, "the tour is the same as that of the first trial", same);
        let cells = [times.mean(), times.deviation(), speed_up].map(cell);
        journal.row(&[&[threads.to_string()][..], &cells, &[format!("{nodes:.0}")]].concat(), "")?;
    }
    match answer {
        Some(found) => tell_tour(options, journal, instance, &found),
        None => Ok(()),
    }
}

fn tell_tour(
    options: &Options,
    journal: &mut Journal<'_, '_>,
    instance: &Instance,
    found: &Found,
) -> io::Result<()> {
    journal.outcome.set("tour", found.tour.clone());
    journal.figure("length", "", found.length.into());
    let right = instance.is_tour(&found.tour) && instance.length(&found.tour) == found.length;
    journal.check("tour", &format!("it goes through every city once and is {} long", found.length), right);
    if let Some(optimum) = options.optimum {
        journal.check("tour", &format!("it is {optimum} long"), found.length == optimum);
    }
    let tour: Vec<String> = found.tour.iter().map(u8::to_string).collect();
    journal.say(&format!(
        "tour {}, {} long; the first one was {}",
        tour.join(" "),
        found.length,
        found.first
    ))?;
    journal.say(&format!("{} branches in the work pile", found.branches))
}

/// Computing in bursts.
pub(crate) fn bursts(on: &Workloads, options: &Options, journal: &mut Journal<'_, '_>) -> io::Result<()> {
    let idle = options.idle;
    journal.outcome.set("bursts", options.bursts);
    for &cpu in &options.cpu {
        let title = format!("bursts, {} us computing, {} us idle", cpu.as_micros(), idle.as_micros());
        let columns = ["threads", "ms", "deviation", "bursts/s", "turn-around", "worst"];
        journal.table(&title, &columns)?;
        for &threads in threads(options, WORKING) {
            let attributes = options.attributes();
            let plan =
                bursts::Plan { threads, bursts: options.bursts, steps: steps_in(cpu), idle, attributes };
            let done = trials(options, journal, || (on.burst)(plan))?;
            let row = row(threads);
            let times = journal.times(&row, &done.iter().map(|one| one.all.elapsed).collect::<Vec<_>>());
            let trials = done.len() as f64;
            let throughput = done.iter().map(Bursts::throughput).sum::<f64>() / trials;
            let mean = done.iter().map(|one| ms(one.mean_turn_around())).sum::<f64>() / trials;
            let worst = done.iter().map(|one| ms(one.worst)).fold(0.0, f64::max);
            journal.figure(&format!("{row}, throughput"), "bursts/s", throughput);
            journal.figure(&format!("{row}, turn-around"), "ms", mean);
            journal.figure(&format!("{row}, worst turn-around"), "ms", worst);
            journal.check(
                &row,
                "every burst came to the right result",
                done.iter().all(|one| one.all.exact()),
            );
            let cells = [times.mean(), times.deviation(), throughput, mean, worst].map(cell);
            journal.row(&[&[threads.to_string()][..], &cells].concat(), "")?;
        }
    }
    Ok(())
}

pub(crate) fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

/// How many threads can run at once.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, usize::from) as u32
}

/// Steps of computing that take about so long.
fn steps_in(time: Duration) -> u64 {
    (STEPS_PER_MS as f64 * ms(time)).round() as u64
}
