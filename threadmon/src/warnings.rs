//! What is wrong with the program, in words.

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
    for (runtime, lwp, rates) in model.all_lwps() {
        let Some(thread) = lwp.thread else { continue };
        if runtime.model != "mxn" || rates.same_thread < KEEPS || lwp.state == LwpState::InKernel {
            continue;
        }
        let others = runnable(model, runtime.number);
        if others > 0 {
            let (name, time) = (model.name(thread), duration(rates.same_thread));
            let threads =
                if others == 1 { "1 thread could run" } else { &format!("{others} threads could run") };
            all.push(format!(
                "{name} has kept LWP {} for {time} while {threads}: it never yields",
                lwp.number
            ));
        }
    }
}

fn kernel(model: &Model, all: &mut Vec<String>) {
    for (runtime, lwp, rates) in model.all_lwps() {
        let in_kernel = matches!(lwp.state, LwpState::InKernel | LwpState::Blocking);
        if runtime.model == "mxn" && in_kernel && rates.in_state >= TOO_LONG {
            let thread = lwp.thread.map(|it| format!(", with {}", model.name(it))).unwrap_or_default();
            all.push(format!(
                "LWP {} has been in the kernel for {}{thread}",
                lwp.number,
                duration(rates.in_state)
            ));
        }
    }
}

fn waiting(model: &Model, all: &mut Vec<String>) {
    let since = |row: &Row| row.view.times.as_ref().map_or(Duration::ZERO, |it| it.since);
    for (state, place) in [(State::Dispatchable, "dispatchable"), (State::Runnable, "in the run queue")] {
        let late = model.threads.values().filter(|row| row.view.state == state && since(row) >= TOO_LONG);
        let late: Vec<&Row> = late.collect();
        let Some(worst) = late.iter().max_by_key(|row| since(row)) else { continue };
        let (name, time) = (model.name(worst.view.id), duration(since(worst)));
        let more = match late.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more for over {})", duration(TOO_LONG)),
        };
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
    groups.sort_by_key(|it| std::cmp::Reverse((it.len(), it[0].view.at)));
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
