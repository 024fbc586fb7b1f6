//! LWPs that come because they are needed, go because they are not, cannot come, or may not.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use super::*;
use crate::unseen::Meeting;

/// Makes `n` LWPs be needed at once, for a moment.
fn storm(rt: &Mxn, n: usize) {
    let all = Arc::new(Meeting::of(n));
    let threads: Vec<_> = (0..n)
        .map(|_| {
            let all = Arc::clone(&all);
            rt.spawn(move || all.meet())
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

pub(super) fn lwps_age_and_are_used_again() {
    // Without preemption, which wants a larger reserve.
    let rt = builder(2).lwp_age(Some(Duration::from_millis(100))).time_slice(None).build().unwrap();
    let mut numbers = 0;
    for round in 0..4 {
        storm(&rt, 30);
        let stats = rt.stats();
        numbers = numbers.max(stats.lwps.iter().map(|lwp| lwp.number + 1).max().unwrap_or(0));
        assert!(stats.aged > 0 || round == 0, "{stats}");
        // 2 with slots, 2 in reserve.
        soon("down to the reserve", &rt, |stats| stats.lwps.len() == 4);
        soon("the kernel agrees", &rt, |stats| listed(stats) == named());
        soon("the ends on LWPs that are gone still count", &rt, |stats| stats.threads == 0);
    }
    // Batches of a reserve that is filled early: more than 30, but not four times as many.
    assert!((30..80).contains(&numbers), "{numbers} numbers");
    let last = listed(&rt.stats());
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(listed(&rt.stats()), last, "the reserve itself ages");
    meet(&rt, 2);
    // One that ends while others are told to end.
    storm(&rt, 30);
}

/// Starts threads that need an LWP each for a moment, and then wait, each with a deadline on its own LWP.
fn scatter(rt: &Mxn, wait: impl Fn(u64) + Copy + Send + 'static) -> Vec<thread::JoinHandle<()>> {
    let all = Arc::new(Meeting::of(30));
    let start = |number| {
        let all = Arc::clone(&all);
        rt.spawn(move || {
            all.meet();
            wait(number);
        })
    };
    (0..30).map(start).collect()
}

/// A server gives each read a limit. The LWPs on which these were armed do not stay for that.
pub(super) fn deadlines_keep_no_lwp() {
    let rt = builder(2).lwp_age(Some(Duration::from_millis(50))).time_slice(None).build().unwrap();
    let threads = scatter(&rt, |_| {
        let wait = Wait::timeout(Duration::from_secs(1_000)).interruptible();
        assert_eq!(thread::park_with(wait), Err(WaitError::Interrupted));
    });
    soon("down to the reserve", &rt, |stats| stats.lwps.len() == 4 && stats.aged > 0);
    assert_eq!(rt.stats().threads, 30, "all still wait");
    threads.iter().for_each(|thread| thread.thread().interrupt());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The deadlines of LWPs that have ended are met.
pub(super) fn deadlines_outlive_their_lwps() {
    let rt = builder(2).lwp_age(Some(Duration::from_millis(20))).time_slice(None).build().unwrap();
    // Returns `true` if all but the reserve had ended before the first deadline, in so many ms.
    let outlive = |first: u64| {
        let begin = Instant::now();
        let due = move |number| Duration::from_millis(first + 20 * number);
        let threads = scatter(&rt, move |number| thread::sleep(due(number)));
        let sleeps = |it: &ThreadInfo| matches!(it.state(), ThreadState::Waiting { .. });
        let all_sleep = || rt.threads().iter().filter(|it| sleeps(it)).count() == threads.len();
        let mut have_ended = false;
        while !have_ended && begin.elapsed() < due(0) {
            have_ended = all_sleep() && rt.stats().lwps.len() == 4;
            std::thread::sleep(Duration::from_millis(1));
        }
        for (thread, number) in threads.into_iter().zip(0..) {
            thread.join().unwrap();
            assert!(begin.elapsed() >= due(number));
        }
        have_ended
    };
    // A slow machine needs more time for that.
    assert!([200, 1_000, 5_000, 25_000].into_iter().any(outlive), "{}", rt.stats());
    // Another life of the LWPs.
    storm(&rt, 30);
}

/// While threads are preempted, as many spares stand by as there are threads; later they are not needed
/// any more.
pub(super) fn a_wide_reserve_ages_too() {
    let slice = Some(Duration::from_micros(500));
    let rt = builder(1).lwp_age(Some(Duration::from_millis(50))).time_slice(slice).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..12)
        .map(|_| {
            let stop = Arc::clone(&stop);
            rt.spawn(move || while !stop.load(Ordering::Relaxed) {})
        })
        .collect();
    soon("a spare for each, and a preemption or a hand-off", &rt, |stats| {
        stats.lwps.len() >= 12 && stats.preempted + stats.handed_off > 0
    });
    stop.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    soon("down to the reserve", &rt, |stats| stats.lwps.len() == 3);
}

pub(super) fn lwps_may_stay() {
    let rt = builder(1).lwp_age(None).build().unwrap();
    storm(&rt, 10);
    soon("all run", &rt, |stats| stats.count(LwpState::Starting) == 0);
    let mut before = listed(&rt.stats());
    // One that is just being made has no number yet.
    before.remove(&0);
    std::thread::sleep(Duration::from_millis(300));
    // The reserve may have been filled meanwhile.
    let stats = rt.stats();
    assert!(listed(&stats).is_superset(&before) && stats.aged == 0, "{before:?}, then {stats}");
}

/// H13: a child process that wants to die with its parent does not die because a kernel thread of the
/// pool was not needed.
pub(super) fn a_child_outlives_idleness() {
    const ROUNDS: usize = 20;
    let rt = builder(2).lwp_age(Some(Duration::from_millis(50))).time_slice(None).build().unwrap();
    let all = Arc::new(Meeting::of(ROUNDS));
    let children: Vec<_> = (0..ROUNDS)
        .map(|n| {
            let all = Arc::clone(&all);
            rt.spawn(move || {
                // On as many LWPs as there are threads.
                all.meet();
                let mut cat = Command::new("cat");
                cat.stdin(Stdio::piped()).stdout(Stdio::null());
                let die_with_parent = || {
                    // SAFETY: no memory is involved.
                    let rc = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                    if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
                };
                // SAFETY: one system call.
                unsafe { cat.pre_exec(die_with_parent) };
                if n % 2 == 0 { Some(cat.spawn().unwrap()) } else { None }
            })
        })
        .collect();
    let mut children: Vec<_> = children.into_iter().filter_map(|child| child.join().unwrap()).collect();
    soon("those without children end", &rt, |stats| stats.aged > 0);
    // Several times the age.
    std::thread::sleep(Duration::from_millis(400));
    for child in &mut children {
        assert_eq!(child.try_wait().unwrap().map(|status| status.signal()), None, "killed with an LWP");
    }
    for mut child in children {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    soon("then the others do", &rt, |stats| stats.lwps.len() == 4);
}

pub(super) fn the_bound_is_reached() {
    let rt = builder(2).max_lwps(6).build().unwrap();
    let pipe = Pipe::new();
    let readers: Vec<_> = (0..12)
        .map(|_| {
            let pipe = pipe.clone();
            rt.spawn(move || pipe.read())
        })
        .collect();
    let progress = Arc::new(AtomicUsize::new(0));
    let worker = {
        let progress = Arc::clone(&progress);
        rt.spawn(move || {
            for _ in 0..10 {
                progress.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        })
    };
    soon("the bound", &rt, |stats| stats.bound_reached > 0);
    let stats = rt.stats();
    assert_eq!((stats.lwps.len(), stats.bound_reached), (6, 1), "{stats}");
    assert!(rt.set_concurrency(7).is_err());
    // Those that come back make room for the others, which read in turn.
    pipe.write(12);
    worker.join().unwrap();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!(progress.load(Ordering::Relaxed), 10);
    // And once more: counted again, and not said again.
    soon("all others spare", &rt, |stats| stats.count(LwpState::Spare) == 4);
    let again: Vec<_> = (0..6)
        .map(|_| {
            let pipe = pipe.clone();
            rt.spawn(move || pipe.read())
        })
        .collect();
    soon("the bound again", &rt, |stats| stats.bound_reached == 2);
    pipe.write(6);
    again.into_iter().for_each(|reader| reader.join().unwrap());
}

pub(super) fn an_lwp_that_cannot_start_is_an_error() {
    // Until then all is well.
    drop(builder(2).build().unwrap());
    refuse::alternate_stacks();
    let error = builder(2).build().unwrap_err();
    assert!(error.to_string().contains("alternate signal stack"), "{error}");
    // And leaves nothing behind. (The kernel takes a joined thread out of /proc a moment later.)
    let limit = Instant::now() + PATIENCE;
    while !named().is_empty() {
        assert!(Instant::now() < limit, "{}", watchdog::kernel_threads());
    }
}

/// Returns how often a kernel thread has gone to sleep.
fn sleeps_of(tid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a count").trim().parse().expect("a number")
}

pub(super) fn an_lwp_that_cannot_start_later_is_counted() {
    let rt = builder(2).build().unwrap();
    refuse::alternate_stacks();
    let pipe = Pipe::new();
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let pipe = pipe.clone();
            rt.spawn(move || pipe.read())
        })
        .collect();
    soon("no more can be started", &rt, |stats| stats.not_started > 0);
    // Nor for more slots: there is no LWP to give them to. That is made up for as soon as there is.
    rt.set_concurrency(4).unwrap();
    let stats = rt.stats();
    let run = stats.lwps.len() - stats.count(LwpState::Starting);
    assert_eq!((run, stats.bound_reached), (4, 0), "{stats}");
    pipe.write(8);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    soon("four slots for the four that there are", &rt, |stats| holders(stats) == 4);
    meet(&rt, 4);
}

/// In 2 s: two or three tries, each of three LWPs, for each of which the reserve's thread sleeps up to three
/// times.
const MOST_SLEEPS: u64 = 27;

/// If there are more slots than kernel threads can exist, the runtime does not try a thousand times a second.
pub(super) fn what_cannot_be_done_is_tried_rarely() {
    let rt = builder(2).build().unwrap();
    refuse::alternate_stacks();
    let pipe = Pipe::new();
    let here = Arc::new(AtomicUsize::new(0));
    // One reader on each LWP, so that no thread waits for another.
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (pipe, here) = (pipe.clone(), Arc::clone(&here));
            rt.spawn(move || {
                here.fetch_add(1, Ordering::Relaxed);
                pipe.read();
            })
        })
        .collect();
    soon("all read", &rt, |_| here.load(Ordering::Relaxed) == 4);
    rt.set_concurrency(4).unwrap();
    soon("no more can be started", &rt, |stats| stats.not_started > 0);
    let reserve =
        rt.stats().helpers.iter().find(|helper| helper.name == "selvedge-rsv").expect("a reserve").tid;
    let limit = Instant::now() + PATIENCE;
    let slept = loop {
        let before = sleeps_of(reserve);
        std::thread::sleep(Duration::from_secs(2));
        let slept = sleeps_of(reserve) - before;
        if slept <= MOST_SLEEPS || Instant::now() > limit {
            break slept;
        }
    };
    pipe.write(4);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(slept <= MOST_SLEEPS, "{slept} times in 2 s");
    soon("four slots for the four that there are", &rt, |stats| holders(stats) == 4);
    meet(&rt, 4);
}
