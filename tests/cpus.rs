//! On which CPUs the kernel threads of a runtime run, if it has a set. In processes of their own, because
//! masks are changed from outside, and kernel threads inherit them.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "support/child.rs"]
mod child;
#[path = "support/cpus.rs"]
mod cpus;
#[path = "concurrency/pipe.rs"]
mod pipe;
#[macro_use]
#[path = "support/isolated.rs"]
mod isolated;
#[path = "support/unseen.rs"]
mod unseen;
#[path = "support/waiting.rs"]
mod waiting;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::io::ErrorKind;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pipe::Pipe;
use selvedge::thread::Builder;
use selvedge::{Mxn, Runtime, RuntimeStats, thread};
use waiting::soon;
use watchdog::Watchdog;

/// A runtime on these CPUs.
fn on(cpus: &[usize]) -> Mxn {
    Mxn::builder().cpus(cpus.iter().copied()).build().unwrap()
}

/// Two of the CPUs that this process may use, unless there is one.
fn two() -> Option<[usize; 2]> {
    let found = cpus::mine().first_chunk().copied();
    if found.is_none() {
        println!("skipped: one CPU");
    }
    found
}

/// The kernel threads of a runtime that have said their numbers. Those that start have not yet.
fn tids(stats: &RuntimeStats) -> Vec<u32> {
    let all = stats.lwps.iter().map(|lwp| lwp.tid).chain(stats.helpers.iter().map(|helper| helper.tid));
    all.filter(|&tid| tid != 0).collect()
}

/// Whether all kernel threads of a runtime may run on these CPUs, and on no others.
fn all_have(stats: &RuntimeStats, cpus: &[usize]) -> bool {
    tids(stats).into_iter().filter_map(cpus::of).all(|mask| mask == cpus)
}

/// Checks that many green threads run on these CPUs only, those of a runtime.
fn run_there(rt: &Mxn, there: &[usize]) {
    let look = || {
        for n in 0..20 {
            // SAFETY: no arguments, no memory.
            let here = unsafe { libc::sched_getcpu() };
            let here = usize::try_from(here).expect("a CPU");
            assert!(rt.info().cpus().expect("a set").contains(&here), "on CPU {here}");
            assert_eq!(cpus::mine(), rt.info().cpus().expect("a set"));
            match n % 3 {
                0 => thread::yield_now(),
                1 => thread::sleep(Duration::from_micros(50)),
                _ => thread::blocking(|| std::thread::sleep(Duration::from_micros(50))),
            }
        }
    };
    rt.run(|| thread::scope(|s| (0..100).for_each(|_| drop(s.spawn(look)))));
    assert_eq!(rt.info().cpus(), Some(there));
    assert!(all_have(&rt.stats(), there), "{}", rt.stats());
}

fn two_runtimes_run_on_disjoint_sets() {
    let all = cpus::mine();
    let Some([a, b]) = two() else { return };
    let (first, second) = (on(&[a]), on(&[b]));
    std::thread::scope(|s| {
        s.spawn(|| run_there(&first, &[a]));
        s.spawn(|| run_there(&second, &[b]));
    });
    // A thread of one makes another runtime, elsewhere.
    first.run(|| run_there(&on(&[b]), &[b]));
    run_there(&first, &[a]);
    assert_eq!(cpus::mine(), all, "the builder's own mask has changed");
}

fn the_default_concurrency_is_that_of_the_set() {
    let all = cpus::mine();
    for cpus in [&all[..1], &all] {
        let rt = on(cpus);
        assert_eq!(rt.concurrency(), cpus.len().min(thread::available_parallelism().unwrap().get()));
        assert_eq!(rt.run(thread::available_parallelism).unwrap().get(), rt.concurrency());
        run_there(&rt, cpus);
    }
    let rt = Mxn::builder().cpus([all[0]]).concurrency(3).build().unwrap();
    assert_eq!(rt.concurrency(), 3);
    run_there(&rt, &all[..1]);
    assert_eq!(Mxn::new().unwrap().info().cpus(), None);
}

fn a_cpu_that_may_not_be_used_is_refused() {
    let all = cpus::mine();
    for (cpus, wrong) in
        [(vec![], "there is none"), (vec![all[0], 60_000], "60000"), (vec![usize::MAX], "or there")]
    {
        let error = Mxn::builder().cpus(cpus).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(wrong) && error.to_string().contains("out of"), "{error}");
    }
    let Some([a, b]) = two() else { return };
    cpus::send_all(&[a]);
    let error = Mxn::builder().cpus([a, b]).build().unwrap_err().to_string();
    let (wrong, expected) = (format!("may not use {b},"), format!("expected CPUs out of {a}"));
    assert!(error.contains(&wrong) && error.ends_with(&expected), "{error}");
    // It is enough that the builder may use it.
    let built = std::thread::spawn(move || {
        cpus::send(0, &[b]);
        run_there(&on(&[b]), &[b]);
    });
    built.join().unwrap();
}

/// With all CPUs but the first in `SELVEDGE_CPUS`, or the one that there is.
fn the_variable_sets_them() {
    let all = cpus::mine();
    let set = if all.len() > 1 { &all[1..] } else { &all[..] };
    assert_eq!(selvedge::run(|| thread::blocking(cpus::mine)), set, "the process default");
    run_there(&Mxn::new().unwrap(), set);
    run_there(&on(&all[..1]), &all[..1]);
}

fn bound() -> Builder {
    Builder::new().bound(true)
}

fn bound_threads_have_the_set() {
    let Some([a, b]) = two() else { return };
    let rt = on(&[a]);
    assert_eq!(rt.spawn_with(bound(), cpus::mine).unwrap().join().unwrap(), [a]);
    let nested =
        rt.run(|| bound().spawn(|| bound().spawn(cpus::mine).unwrap().join().unwrap()).unwrap().join());
    assert_eq!(nested.unwrap(), [a]);
    // From a thread that has other CPUs, and one that has fewer.
    let other = on(&[b]);
    assert_eq!(other.run(|| rt.spawn_with(bound(), cpus::mine).unwrap().join().unwrap()), [a]);
    let both = on(&[a, b]);
    assert_eq!(other.run(|| both.spawn_with(bound(), cpus::mine).unwrap().join().unwrap()), [a, b]);
    // An affinity of its own goes before.
    let elsewhere = rt.spawn_with(bound().affinity([b]), cpus::mine).unwrap();
    assert_eq!(elsewhere.join().unwrap(), [b]);
}

fn what_green_threads_start_inherits_the_set() {
    let all = cpus::mine();
    let rt = on(&all[..1]);
    let (thread, process) = rt.run(|| {
        let list = Command::new("grep").args(["Cpus_allowed_list", "/proc/self/status"]).output().unwrap();
        (std::thread::spawn(cpus::mine).join().unwrap(), String::from_utf8(list.stdout).unwrap())
    });
    assert_eq!(thread, all[..1]);
    assert_eq!(process.split_whitespace().last(), Some(all[0].to_string().as_str()));
}

fn later_lwps_have_the_set() {
    let all = cpus::mine();
    let (rt, pipe) = (on(&all[..1]), Arc::new(Pipe::new()));
    let before = rt.info().lwps;
    let block = |_| {
        let pipe = Arc::clone(&pipe);
        rt.spawn(move || {
            thread::blocking(|| {
                pipe.read();
                cpus::mine()
            })
        })
    };
    let threads: Vec<_> = (0..40).map(block).collect();
    soon("more LWPs", &rt, |stats| stats.lwps.len() >= before + 40 - 3);
    let stats = rt.stats();
    let have_it = all_have(&stats, &all[..1]);
    // First: if one is wrong, the runtime is dropped, and waits for these.
    pipe.write(40);
    assert!(have_it, "{stats}");
    threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), all[..1]));
}

fn a_forked_child_has_sets_of_its_own() {
    let Some([a, b]) = two() else { return };
    let rt = on(&[a]);
    // SAFETY: the child runs what this crate promises for forks, and then ends.
    match unsafe { libc::fork() } {
        0 => {
            run_there(&on(&[b]), &[b]);
            run_there(&on(&[a, b]), &[a, b]);
            // SAFETY: ends the child, and runs nothing else.
            unsafe { libc::_exit(i32::from(rt.info().cpus() != Some(&[a]))) };
        }
        child => {
            let mut status = -1;
            // SAFETY: our child, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child's verdict");
        }
    }
    run_there(&rt, &[a]);
}

/// A runtime in use, so that its monitor looks.
fn busy(cpus: &[usize]) -> (Arc<Mxn>, Busy) {
    let (rt, end) = (Arc::new(on(cpus)), Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&end);
    drop(rt.spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
    }));
    (rt, Busy(end))
}

/// Ends what keeps the runtime busy. To be dropped before the runtime.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn the_set_is_followed_as_far_as_it_is_allowed() {
    let all = cpus::mine();
    let Some([a, b]) = two() else { return };
    let most = |cpus: usize| thread::available_parallelism().unwrap().get().min(cpus);
    let (slots, is) = (most(2), |slots| move |stats: &RuntimeStats| stats.concurrency == slots);
    let (both, _busy_both) = busy(&[a, b]);
    let (one, _busy_one) = busy(&[a]);
    assert_eq!((both.concurrency(), one.concurrency()), (slots, 1));

    cpus::send_all(&[b]);
    soon("fewer are left", &*both, is(1));
    assert!(all_have(&both.stats(), &[b]));
    // None is left of this set: it runs where it was sent, and so do its new threads.
    assert_eq!(one.run(cpus::mine), [b]);
    assert_eq!(one.spawn_with(bound(), cpus::mine).unwrap().join().unwrap(), [b]);

    cpus::send_all(&all);
    soon("the number follows", &*both, is(slots));
    soon("all are taken back", &*both, |stats| all_have(stats, &[a, b]));
    soon("back from elsewhere", &*one, |stats| all_have(stats, &[a]));
    assert_eq!((one.concurrency(), one.info().cpus(), cpus::mine()), (1, Some(&[a][..]), all));
    run_there(&one, &[a]);
    run_there(&both, &[a, b]);
}

isolated!(
    also: [("the_variable", the_variable_sets_them)],
    two_runtimes_run_on_disjoint_sets,
    the_default_concurrency_is_that_of_the_set,
    a_cpu_that_may_not_be_used_is_refused,
    bound_threads_have_the_set,
    what_green_threads_start_inherits_the_set,
    later_lwps_have_the_set,
    a_forked_child_has_sets_of_its_own,
    the_set_is_followed_as_far_as_it_is_allowed,
);

#[test]
fn the_environment_sets_them() {
    let _watchdog = Watchdog::start("the environment");
    let all = cpus::mine();
    let set = if all.len() > 1 { &all[1..] } else { &all[..] };
    let list = set.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    child::run("the_variable", &[("SELVEDGE_CPUS", &list)]).expect_success();
}
