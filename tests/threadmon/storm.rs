//! Dumps with backtraces of threads that come and go meanwhile.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use selvedge::threadmon::Dump;
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::dumps::{on_rungs, run_here};
use super::seen::{Seen, json, named};

#[inline(never)]
fn even_walk(depth: u32, f: &dyn Fn()) {
    if depth == 0 {
        f()
    } else {
        even_walk(depth - 1, f)
    }
    black_box(());
}

#[inline(never)]
fn odd_walk(depth: u32, f: &dyn Fn()) {
    if depth == 0 {
        f()
    } else {
        odd_walk(depth - 1, f)
    }
    black_box(());
}

/// How deep the threads are, at most.
const DEPTH: u32 = 9;

static STOP: AtomicBool = AtomicBool::new(false);

/// Has the threads end, also if a check fails. Otherwise the runtime would wait for them.
struct Stops;

impl Drop for Stops {
    fn drop(&mut self) {
        STOP.store(true, Relaxed);
    }
}

pub(super) fn storm() {
    on_rungs(&Mxn::builder().concurrency(2), |rt, _| storm_on(rt));
    storm_on(&OneToOne::new().unwrap());
}

fn storm_on(rt: &impl Runtime) {
    type Walk = fn(u32, &dyn Fn());
    STOP.store(false, Relaxed);
    // Threads that yield and wait at changing depths, and make others that end.
    let threads: Vec<_> = (0..8_u32)
        .map(|number| {
            let (name, walk): (_, Walk) =
                if number % 2 == 0 { ("even_walk", even_walk) } else { ("odd_walk", odd_walk) };
            let body = move || {
                let mut depth = number;
                while !STOP.load(Relaxed) {
                    walk(depth % DEPTH, &|| match depth % 3 {
                        0 => thread::yield_now(),
                        1 => thread::spawn(thread::yield_now).join().unwrap(),
                        _ => thread::sleep(Duration::from_micros(20)),
                    });
                    depth += 1;
                }
            };
            rt.spawn_with(named(name), body).unwrap()
        })
        .collect();
    let stops = Stops;
    let mut whole = 0;
    for _ in 0..if rt.info().thread_register.is_some() { 70 } else { 30 } {
        let dump = json(&Dump::take());
        for thread in dump["threads"].as_array().unwrap() {
            let Some(name) = thread["name"].as_str() else { continue };
            whole += usize::from(is_whole(&Seen::of(&dump, thread), name));
        }
    }
    drop(stops);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    if rt.info().thread_register.is_some() {
        assert!(whole > 50, "only {whole} threads were met while they waited");
    }
}

/// Returns `true` if the thread was met while it waited. Then it has a complete backtrace. However it was
/// met: it is in its own functions, and in no more of them than it can be.
fn is_whole(seen: &Seen, name: &str) -> bool {
    let own = seen.own();
    assert!(own.len() <= DEPTH as usize, "{name}, {:?}: {:#?}", seen.note, seen.functions);
    assert!(own.iter().all(|it| *it == name), "{name}, {:?}: {:#?}", seen.note, seen.functions);
    if !seen.was_saved() {
        return false;
    }
    seen.expect_complete();
    // A thread that waits does so in a walk. Its slice may also end between two walks.
    let was_preempted = seen.functions.iter().any(|it| it.ends_with("leave_preempted"));
    assert!(!own.is_empty() || was_preempted, "{name}: {:#?}", seen.functions);
    !own.is_empty()
}

#[test]
fn threads_that_come_and_go_are_seen_as_they_are_or_not_at_all() {
    run_here("storm");
}
