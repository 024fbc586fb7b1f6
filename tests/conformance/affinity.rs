//! On which processors a thread runs that owns a kernel thread.

use std::io::ErrorKind;
use std::sync::Arc;

use selvedge::thread::Builder;
use selvedge::{Runtime, thread};

use crate::legs::{Leg, settle};

both! {
    a_thread_runs_where_it_was_told_to,
    a_green_thread_has_no_affinity,
    a_set_without_a_processor_is_refused,
    threads_start_pinned_others_in_great_number,
}

/// The processors that the calling kernel thread may use.
fn allowed() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let numbers = |range: &str| -> Vec<usize> {
        let mut ends = range.split('-').map(|end| end.trim().parse().unwrap());
        let first = ends.next().unwrap();
        (first..=ends.next().unwrap_or(first)).collect()
    };
    list.trim().split(',').flat_map(numbers).collect()
}

/// A number that no kernel gives to a processor.
const NOWHERE: usize = 60_000;

fn a_thread_runs_where_it_was_told_to<L: Leg>() {
    let rt = L::new();
    let all = allowed();
    let pinned = |cpus: &[usize]| {
        let builder = Builder::new().bound(true).name("pinned".into()).affinity(cpus.iter().copied());
        let handle = rt.spawn_with(builder, || (allowed(), thread::current().name() == Some("pinned")));
        let (seen, named) = handle.unwrap().join().unwrap();
        assert!(named);
        seen
    };
    for &cpu in &all {
        assert_eq!(pinned(&[cpu]), [cpu]);
        // What there is not is passed over, and so is what is said twice.
        assert_eq!(pinned(&[NOWHERE, cpu, usize::MAX, cpu]), [cpu]);
    }
    assert_eq!(pinned(&all), all);
    assert_eq!(allowed(), all, "the creator's own affinity has changed");
    // From one of the runtime's own threads.
    let seen = rt.run(|| {
        let cpu = allowed()[0];
        let child = Builder::new().bound(true).affinity([cpu]).spawn(allowed).unwrap();
        (child.join().unwrap(), cpu)
    });
    assert_eq!(seen.0, [seen.1]);
    let unpinned = rt.spawn_with(Builder::new().bound(true), allowed).unwrap();
    assert_eq!(unpinned.join().unwrap(), all);
}

fn a_green_thread_has_no_affinity<L: Leg>() {
    let rt = L::new();
    let green = rt.info().thread_register.is_some();
    let captured = Arc::new(());
    let theirs = Arc::clone(&captured);
    let spawned = rt.spawn_with(Builder::new().affinity(allowed()), move || drop(theirs));
    if green {
        let error = spawned.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("bound(true)"), "{error}");
    } else {
        spawned.unwrap().join().unwrap();
    }
    assert_eq!(Arc::strong_count(&captured), 1);
    settle(&rt, 0);
}

fn a_set_without_a_processor_is_refused<L: Leg>() {
    let rt = L::new();
    let captured = Arc::new(());
    for cpus in [vec![], vec![NOWHERE], vec![usize::MAX, NOWHERE]] {
        let theirs = Arc::clone(&captured);
        let what = format!("{cpus:?}");
        let builder = Builder::new().bound(true).affinity(cpus);
        let error = rt.spawn_with(builder, move || drop(theirs)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
        assert!(error.to_string().contains("processor"), "{what}: {error}");
        assert_eq!(Arc::strong_count(&captured), 1, "the closure was lost");
        settle(&rt, 0);
    }
    let builder = Builder::new().bound(true).affinity(allowed());
    assert_eq!(rt.spawn_with(builder, || 1).unwrap().join().unwrap(), 1);
}

/// More at once than there are LWPs: creators wait for their threads without holding up others.
fn threads_start_pinned_others_in_great_number<L: Leg>() {
    let rt = L::new();
    let cpus = allowed();
    rt.run(|| {
        thread::scope(|s| {
            for n in 0..16 {
                let cpu = cpus[n % cpus.len()];
                s.spawn(move || {
                    let builder = Builder::new().bound(true).affinity([cpu]);
                    assert_eq!(builder.spawn(allowed).unwrap().join().unwrap(), [cpu]);
                });
            }
        });
    });
}
