//! A refresh as JSON. Times are in ns; what is not known is null.

use std::time::Duration;

use selvedge::LatencyHistogram;
use selvedge::thread::WaitReason;
use selvedge::threadmon::{LockView, RuntimeView};
use selvedge::trace::State;
use serde_json::{Map, Value, json};

use crate::model::{LwpRates, Model, Row, index, lwp_state};
use crate::show::level;
use crate::warnings::warnings;

/// Returns the document: all that the last refresh brought.
pub(crate) fn document(model: &Model) -> Value {
    let Some(overview) = &model.overview else { return Value::Null };
    let mut fresh: Vec<&Row> = model.threads.values().filter(|row| row.seen == overview.at).collect();
    fresh.sort_by_key(|row| row.view.id);
    json!({
        "pid": overview.pid,
        "program": overview.program,
        "at_ns": ns(overview.at),
        "cpus_usable": overview.cpus,
        "user_ns": ns(overview.user),
        "system_ns": ns(overview.system),
        "monitor_ns": ns(overview.monitor),
        "level": level(overview.level),
        "threads_total": model.total(),
        "runtimes": overview.runtimes.iter().map(|it| runtime(model, it)).collect::<Vec<_>>(),
        "threads": fresh.into_iter().map(|row| thread(model, row)).collect::<Vec<_>>(),
        "cpus": model.cpus.iter().map(|cpu| json!({
            "cpu": cpu.number, "ours": cpu.ours, "others": cpu.others, "idle": cpu.idle,
        })).collect::<Vec<_>>(),
        "locks": model.locks.values().map(|it| lock(model, it)).collect::<Vec<_>>(),
        "deadlocks": model.deadlocks,
        "warnings": warnings(model),
    })
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn runtime(model: &Model, it: &RuntimeView) -> Value {
    let lwps = model.all_lwps().filter(|(runtime, ..)| runtime.number == it.number);
    let lwps: Vec<Value> = lwps
        .map(|(_, lwp, rates)| {
            let LwpRates { ran, waited, dispatches, steals, .. } = rates;
            json!({
                "lwp": lwp.number,
                "tid": lwp.tid,
                "state": lwp_state(lwp.state),
                "call": model.call(lwp.tid),
                "thread": lwp.thread,
                "cpu": lwp.cpu,
                "dispatches": lwp.dispatches,
                "dispatches_per_second": dispatches,
                "steals": lwp.steals,
                "steals_per_second": steals,
                "wakes": lwp.wakes,
                "queued": lwp.queued,
                "cpu_ns": lwp.cpu_time.map(|it| ns(it.0)),
                "waited_for_cpu_ns": lwp.cpu_time.map(|it| ns(it.1)),
                "cpu_share": ran,
                "waited_for_cpu_share": waited,
                "times_ns": lwp.times.map(|[running, searching, idle, spare]| json!({
                    "running": ns(running), "searching": ns(searching), "idle": ns(idle), "spare": ns(spare),
                })),
            })
        })
        .collect();
    json!({
        "runtime": it.number,
        "model": it.model,
        "threads": it.threads,
        "bound": it.bound,
        "concurrency": it.concurrency,
        "max_lwps": it.max_lwps,
        "lwps": lwps,
        "helpers": it.helpers.iter().map(|(name, tid)| json!({"name": name, "tid": tid})).collect::<Vec<_>>(),
        "compensated": it.compensated,
        "handed_off": it.handed_off,
        "preempted": it.preempted,
        "bound_reached": it.bound_reached,
        "run_queue": it.run_queue.map(|length| json!({
            "dispatchable": length.dispatchable, "queued": length.queued,
        })),
        "run_queue_latency": it.run_queue_latency.as_ref().map(latency),
    })
}

/// Returns what was counted since times are counted. Buckets that have no waits are left out.
fn latency(it: &LatencyHistogram) -> Value {
    let buckets = it.counts().iter().enumerate().filter(|&(_, &count)| count > 0);
    let buckets: Vec<Value> = buckets
        .map(|(bucket, count)| json!({"at_most_ns": ns(LatencyHistogram::bound(bucket)), "count": count}))
        .collect();
    json!({
        "count": it.count(),
        "sum_ns": ns(it.sum()),
        "median_ns": it.quantile(0.5).map(ns),
        "p99_ns": it.quantile(0.99).map(ns),
        "buckets": buckets,
    })
}

fn thread(model: &Model, row: &Row) -> Value {
    let view = &row.view;
    let times = view.times.as_ref().map(|times| {
        json!({
            "life_ns": ns(times.life),
            "states_ns": by_state(|state| json!(ns(times.states[index(state)]))),
            "since_ns": ns(times.since),
            "dispatches": times.dispatches,
            "preempted": times.preempted,
            "migrations": times.migrations,
            "last_cpu": times.cpu,
        })
    });
    json!({
        "id": view.id,
        "runtime": row.runtime,
        "name": view.name,
        "state": view.state.to_string(),
        "waits_for": view.reason.map(WaitReason::as_str),
        "at": view.at.map(|at| format!("{at:#x}")),
        "object": view.object,
        "owner": view.owner.as_ref().map(|(id, name)| json!({"id": id, "name": name})),
        "lwp": view.lwp,
        "cpu": view.cpu,
        "tid": view.tid,
        "call": view.tid.filter(|_| view.state == State::InKernel).and_then(|tid| model.call(tid)),
        "bound": view.bound,
        "kernel_thread": row.own.map(|own| json!({
            "tid": own.now.tid,
            "state": lwp_state(own.state),
            "cpu": own.now.cpu,
            "cpu_ns": own.now.cpu_time.map(|it| ns(it.0)),
            "waited_for_cpu_ns": own.now.cpu_time.map(|it| ns(it.1)),
            "cpu_share": own.rates.ran,
            "waited_for_cpu_share": own.rates.waited,
        })),
        "priority": view.priority.to_string(),
        "stack_used": view.stack.map(|it| it.0),
        "stack_size": view.stack.map(|it| it.1),
        "maker": view.maker,
        "times": times,
        "shares": row.shares.map(|shares| by_state(|state| json!(shares[index(state)]))),
        "dispatches_per_second": row.dispatches,
    })
}

fn by_state(value: impl Fn(State) -> Value) -> Value {
    let pairs = State::ALL.into_iter().map(|state| (state.to_string(), value(state)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn lock(model: &Model, lock: &LockView) -> Value {
    json!({
        "at": format!("{:#x}", lock.at),
        "name": lock.name,
        "kind": lock.kind.map(WaitReason::as_str),
        "contended": lock.contended,
        "contended_per_second": model.contention.get(&lock.at),
        "slept": lock.slept,
        "waited_ns": ns(lock.waited),
        "longest_ns": ns(lock.longest),
        "owner": lock.owner.as_ref().map(|(id, name)| json!({"id": id, "name": name})),
    })
}
