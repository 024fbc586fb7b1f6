//! A hundred thousand threads, listed ten times a second.

use std::time::{Duration, Instant};

use selvedge::thread::{self, Builder};
use selvedge::threadmon::{Client, ThreadView, serve};
use selvedge::trace::{Level, State};
use selvedge::{Mxn, Runtime};

use super::run;

const THREADS: usize = 100_000;
const REFRESHES: usize = 20;
const INTERVAL: Duration = Duration::from_millis(100);

/// What the program may spend on the lists: a share of one CPU. Code that is not optimised takes longer.
const SHARE: f64 = if cfg!(debug_assertions) { 1.0 } else { 0.10 };

/// Returns all threads that have changed, and how many pages they took.
fn refresh(client: &mut Client, runtime: u32) -> (Vec<ThreadView>, usize) {
    let mut threads = Vec::new();
    for pages in 1.. {
        let page = client.threads(runtime, 4096, false).unwrap();
        assert!(page.ended.is_empty(), "no thread ends: {:?}", page.ended);
        threads.extend(page.threads);
        if page.last {
            return (threads, pages);
        }
    }
    unreachable!("some page is the last")
}

/// Each refresh lists the thread that has waited anew, on all pages there are, and takes little of a CPU.
pub(super) fn many() {
    serve().unwrap();
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    let park = || {
        loop {
            thread::park();
        }
    };
    let spawn = |_| rt.spawn_with(Builder::new().stack_size(16 << 10), park).unwrap();
    let parked: Vec<_> = (0..THREADS).map(spawn).collect();
    let mut client = Client::connect(std::process::id()).unwrap();
    client.set_level(Level::Times).unwrap();
    let runtime = client.overview().unwrap().runtimes[0].number;
    let mut listed = std::collections::HashSet::new();
    loop {
        let threads = refresh(&mut client, runtime).0;
        if threads.is_empty() {
            break;
        }
        listed.extend(threads.iter().map(|it| it.id));
    }
    assert_eq!(listed.len(), THREADS);
    let before = client.overview().unwrap();
    let begin = Instant::now();
    for number in 1..=REFRESHES {
        let woken = parked[number * 4099].thread();
        woken.unpark();
        let id = woken.id().as_u64().get();
        // It may still be on its way to its next wait.
        let is_back = |it: &ThreadView| it.id == id && it.state == State::Blocked;
        loop {
            let (threads, pages) = refresh(&mut client, runtime);
            assert!(threads.iter().all(|it| it.id == id), "others have changed: {threads:?}");
            assert_eq!(pages, 1, "a page has room for all that has changed");
            if threads.iter().any(is_back) {
                break;
            }
        }
        std::thread::sleep((begin + INTERVAL * number as u32).saturating_duration_since(Instant::now()));
    }
    let after = client.overview().unwrap();
    let spent = (after.monitor - before.monitor).as_secs_f64() / (after.at - before.at).as_secs_f64();
    println!("{THREADS} threads, {REFRESHES} refreshes: {:.1} % of a CPU", spent * 100.0);
    assert!(spent <= SHARE, "the lists took {spent:.3} of a CPU");
    // They would never end.
    std::process::exit(0);
}

#[test]
fn a_hundred_thousand_threads_are_listed_ten_times_a_second() {
    run("many");
}
