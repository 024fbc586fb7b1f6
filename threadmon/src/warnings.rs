//! What is wrong with the program, in words.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use selvedge::LwpState;
use selvedge::trace::{Level, State};

use crate::model::{Model, Row, clean};
use crate::show::{duration, object};

/// A thread that could run has waited too long if it has waited longer.
const TOO_LONG: Duration = Duration::from_millis(100);

/// A thread that keeps its LWP for longer does not seem to yield.
const KEEPS: Duration = Duration::from_millis(200);

/// This many threads at one lock are a convoy, if there are more of them than can run at once.
const CONVOY: usize = 5;

/// Returns sentences, the worst first.
pub(crate) fn warnings(model: &Model) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(model.trouble.clone());
    all.extend(model.deadlocks.lines().next().map(|line| format!("deadlock: {}", clean(line))));
    hogs(model, &mut all);
    kernel(model, &mut all);
    waiting(model, &mut all);
    convoys(model, &mut all);
    bounds(model, &mut all);
    if model.overview.is_some() && model.level() == Level::Off {
        all.push("times are not counted: press l, or use --level times".into());
    }
    all
}

/// Returns how many threads of a runtime could run, and have no CPU.
fn runnable(model: &Model, runtime: u32) -> usize {
    let is = |row: &&Row| {
        row.runtime == runtime && matches!(row.view.state, State::Runnable | State::Dispatchable)
    };
    model.threads.values().filter(is).count()
}

fn hogs(model: &Model, all: &mut Vec<String>) {
    for runtime in model.runtimes().iter().filter(|it| it.model == "mxn") {
        let others = match runnable(model, runtime.number) {
            0 => continue,
            1 => "1 thread could run".to_owned(),
            others => format!("{others} threads could run"),
        };
        let kept = model.all_lwps().filter(|(it, lwp, rates)| {
            it.number == runtime.number && rates.same_thread >= KEEPS && lwp.state != LwpState::InKernel
        });
        let kept: Vec<_> =
            kept.filter_map(|(_, lwp, rates)| Some((lwp, lwp.thread?, rates.same_thread))).collect();
        let Some(&(lwp, thread, time)) =
            kept.iter().max_by_key(|(lwp, _, time)| (*time, Reverse(lwp.number)))
        else {
            continue;
        };
        let (name, time) = (model.name(thread), duration(time));
        let more = and_more(kept.len() - 1, KEEPS);
        all.push(format!(
            "{name} never yields: it has kept LWP {} for {time}{more} while {others}",
            lwp.number
        ));
    }
}

fn kernel(model: &Model, all: &mut Vec<String>) {
    let long = model.all_lwps().filter(|(runtime, lwp, rates)| {
        let in_kernel = matches!(lwp.state, LwpState::InKernel | LwpState::Blocking);
        runtime.model == "mxn" && in_kernel && rates.in_state >= TOO_LONG
    });
    let long: Vec<_> = long.collect();
    let worst = long.iter().max_by_key(|(_, lwp, rates)| (rates.in_state, Reverse(lwp.number)));
    if let Some((_, lwp, rates)) = worst {
        let thread = lwp.thread.map(|it| format!(", with {}", model.name(it))).unwrap_or_default();
        let (time, more) = (duration(rates.in_state), and_more(long.len() - 1, TOO_LONG));
        let call = model.call(lwp.tid).map(|call| format!(" ({call})")).unwrap_or_default();
        all.push(format!("LWP {} has been in the kernel{call} for {time}{thread}{more}", lwp.number));
    }
}

/// Returns how many more there are, if there are any.
fn and_more(more: usize, than: Duration) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more for over {})", duration(than)) }
}

fn waiting(model: &Model, all: &mut Vec<String>) {
    let since = |row: &Row| row.view.times.as_ref().map_or(Duration::ZERO, |it| it.since);
    for (state, place) in [(State::Dispatchable, "dispatchable"), (State::Runnable, "in the run queue")] {
        let late = model.threads.values().filter(|row| row.view.state == state && since(row) >= TOO_LONG);
        let late: Vec<&Row> = late.collect();
        let Some(worst) = late.iter().max_by_key(|row| since(row)) else { continue };
        let (name, time) = (model.name(worst.view.id), duration(since(worst)));
        let more = and_more(late.len() - 1, TOO_LONG);
        let can_run = model.runtimes().iter().find(|it| it.number == worst.runtime);
        let can_run = can_run.map_or(0, |it| it.concurrency);
        all.push(format!("{name} has been {place} for {time}{more}: {can_run} can run at once"));
    }
}

fn convoys(model: &Model, all: &mut Vec<String>) {
    let mut groups: HashMap<u64, Vec<&Row>> = HashMap::new();
    for row in model.threads.values().filter(|row| row.view.state == State::Blocked) {
        if row.view.reason.is_some_and(crate::show::is_lock)
            && let Some(at) = row.view.at
        {
            groups.entry(at).or_default().push(row);
        }
    }
    let slots: usize = model.runtimes().iter().map(|it| it.concurrency).sum();
    let mut groups: Vec<_> = groups.into_values().filter(|it| it.len() >= CONVOY.max(slots + 1)).collect();
    groups.sort_by_key(|it| Reverse((it.len(), it[0].view.at)));
    for group in groups.iter().take(2) {
        let owner = group.iter().find_map(|row| row.view.owner.as_ref());
        let owner = owner.map(|(id, _)| format!(", which {} holds", model.name(*id))).unwrap_or_default();
        all.push(format!("convoy: {} threads wait for {}{owner}", group.len(), object(&group[0].view)));
    }
}

fn bounds(model: &Model, all: &mut Vec<String>) {
    for runtime in model.runtimes() {
        if let Some(max) = runtime.max_lwps
            && runtime.lwps.len() >= max
            && model.bound_reached > 0
        {
            all.push(format!(
                "all {max} LWPs exist, and one more was needed {} times since the last refresh",
                model.bound_reached
            ));
        }
    }
}
