//! Hogs of every kind, two for each CPU, under the shortest slice there is. In a process of its own: some
//! kinds change what belongs to the process, and a wrong one may bring it down.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, RuntimeStats, thread};

use crate::child;
use crate::kinds::{KINDS, Kind};
use crate::ladder::{MIGRATING, ThreadRegister, builder, full, on, sized};

/// The shortest that a runtime takes.
const SLICE: Duration = Duration::from_micros(50);

/// Lets `kinds` run for a while, each on `each` threads, and says how many turns they did.
fn mix(rt: &Mxn, kinds: &[Kind], each: usize, time: Duration) {
    let before = rt.stats();
    let over = Arc::new(AtomicBool::new(false));
    let turns = Arc::new(AtomicU64::new(0));
    // The number of hogs that did not run because the machine lacks something.
    let skipped = Arc::new(AtomicUsize::new(0));
    let start = |&(name, kind): &Kind| {
        let (over, turns, skipped) = (Arc::clone(&over), Arc::clone(&turns), Arc::clone(&skipped));
        rt.spawn(move || {
            let mut turn = match kind() {
                Ok(turn) => turn,
                Err(why) => {
                    eprintln!("skipped: {name}: {why}");
                    skipped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            };
            let mut mine = 0;
            // One turn at least, however short the time was.
            loop {
                turn();
                mine += 1;
                turns.fetch_add(1, Ordering::Relaxed);
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            assert!(mine > 0);
        })
    };
    let hogs: Vec<_> = (0..each).flat_map(|_| kinds.iter().map(start)).collect();
    // It gets its turns among them, or the watchdog barks.
    let begin = Instant::now();
    let clock = {
        let over = Arc::clone(&over);
        rt.spawn(move || {
            let (mut sleeps, mut longest) = (0, Duration::ZERO);
            while !over.load(Ordering::Relaxed) {
                let turn = Instant::now();
                thread::sleep(Duration::from_millis(1));
                longest = longest.max(turn.elapsed());
                sleeps += 1;
            }
            (sleeps, longest)
        })
    };
    let moved =
        |stats: &RuntimeStats| stats.preempted + stats.handed_off - before.preempted - before.handed_off;
    // Where turns wait, and are shorter than a slice, threads make room by themselves.
    let dispatches = |stats: &RuntimeStats| stats.lwps.iter().map(|lwp| lwp.dispatches).sum::<u64>();
    let dispatched = dispatches(&before);
    // The sum may fall: when an LWP has ended, what it has dispatched is no longer counted.
    let make_room =
        |stats: &RuntimeStats| dispatches(stats) > dispatched + 2 * turns.load(Ordering::Relaxed).max(1_000);
    // On a busy machine it takes longer until a thread has lost a slice.
    let all_skipped = || skipped.load(Ordering::Relaxed) == hogs.len();
    let is_shown = || {
        let stats = rt.stats();
        moved(&stats) > 0 || make_room(&stats) || all_skipped()
    };
    while begin.elapsed() < time || begin.elapsed() < 100 * time && !is_shown() {
        std::thread::sleep(Duration::from_millis(5));
    }
    over.store(true, Ordering::Relaxed);
    let (sleeps, longest) = clock.join().unwrap();
    let nothing_ran = all_skipped();
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    let all_make_room = make_room(&rt.stats());
    let names: Vec<_> = kinds.iter().map(|(name, _)| *name).collect();
    let what = if let [name] = names[..] { name } else { "all of them" };
    let (stats, turns, took) = (rt.stats(), turns.load(Ordering::Relaxed), begin.elapsed());
    let preempted = stats.preempted - before.preempted;
    let handed_off = stats.handed_off - before.handed_off;
    let blocked = stats.compensated - before.compensated;
    eprintln!(
        "  {what}: {turns} turns, {sleeps} sleeps of at most {longest:.1?} in {took:.3?}; slots: {preempted} preempted, {handed_off} handed off, {blocked} blocked"
    );
    // Where all of them wait for one lock of the loader, and another process has a CPU, no thread may have to
    // leave for long. Then slots of sleepers move.
    assert!(
        nothing_ran || all_make_room || moved(&stats) + blocked > 0,
        "{what}: no thread lost its slice or its slot: {stats}"
    );
}

/// The process: each kind by itself, then all of them.
pub(crate) fn crowd(rung: ThreadRegister) {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
    // SAFETY: both are open descriptors; the harness has nothing to say that the status does not.
    assert_eq!(unsafe { libc::dup2(nowhere.as_raw_fd(), 1) }, 1);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Those that the kinds throw.
        if !info.payload().is::<u32>() {
            usual(info);
        }
    }));
    // The harness has begun a line.
    eprintln!();
    let rt = builder(rung).concurrency(2).time_slice(Some(SLICE)).build().unwrap();
    for kind in KINDS {
        mix(&rt, std::slice::from_ref(kind), 4, sized(Duration::from_millis(100), Duration::from_secs(2)));
    }
    mix(&rt, KINDS, 1, sized(Duration::from_secs(1), Duration::from_secs(60)));
    eprintln!("  {}", rt.info());
}

#[test]
fn hogs_of_every_kind_come_out_right() {
    on(MIGRATING, "hogs of every kind", |rung| {
        let variables: &[(&str, &str)] = if full() { &[("SELVEDGE_STRESS", "full")] } else { &[] };
        let ended = child::run(&format!("crowd, {rung:?}"), variables);
        ended.expect_success();
        println!(
            "{}",
            ended.said.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")
        );
        ended.said.lines().filter(|line| line.starts_with("skipped")).for_each(|line| println!("{line}"));
    });
}
