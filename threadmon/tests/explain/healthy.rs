//! Programs with nothing wrong, of which `explain` says nothing.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use selvedge::{channel, thread};

use crate::child;
use crate::real::{END, FINDING, TURNS, cpus, join, ms, named, play, slots, spin, us, workers};
use crate::watchdog::Watchdog;

/// The programs.
pub(crate) const ROLES: [(&str, fn()); 3] =
    [("ping-pong", ping_pong), ("pool", pool), ("mostly idle", mostly_idle)];

/// How often a program is run until nothing is found.
const HEALTHY_TRIES: u32 = 10;
/// So much of a CPU may others use during a run. LWPs that wait for a CPU look as if they were not equally
/// busy, so a run beside more is none.
const OTHERS: f64 = 0.05;
/// How long to wait for the machine to have no other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a program, with no other program of these tests beside it, and again if something was found.
#[track_caller]
fn acquit(role: &str) {
    let _watchdog = Watchdog::start(role);
    let _alone = TURNS.write().unwrap_or_else(PoisonError::into_inner);
    let (start, mut tries) = (Instant::now(), 0);
    while start.elapsed() < PATIENCE {
        let before = (Instant::now(), cpu_times());
        let ended = child::run(role, &[]);
        let after = cpu_times();
        ended.expect_success();
        assert!(ended.said.contains(END), "{}", ended.said);
        if !ended.said.contains(FINDING) {
            assert!(ended.said.contains("Nothing stands out."), "{}", ended.said);
            return;
        }
        let (all, ours) = (after.0 - before.1.0, after.1 - before.1.1);
        if all.saturating_sub(ours) < before.0.elapsed().mul_f64(OTHERS) {
            tries += 1;
            assert!(tries < HEALTHY_TRIES, "a healthy program is blamed:\n{}", ended.said);
        }
        std::thread::sleep(ms(100));
    }
    println!("skipped: {role}: the machine had other work all the time");
}

/// Returns the CPU time that all processes have used, that which other virtual machines took away included;
/// and that of this process and its children.
fn cpu_times() -> (Duration, Duration) {
    let text = std::fs::read_to_string("/proc/stat").expect("the kernel's figures");
    let figures = text.lines().next().expect("a line").split_whitespace().skip(1);
    let figures: Vec<u64> = figures.map(|it| it.parse().expect("a number")).collect();
    // User, nice, system; not idle, nor idle with input; interrupts, and what was stolen.
    let ticks: u64 = [0, 1, 2, 5, 6, 7].iter().map(|&at| figures.get(at).copied().unwrap_or(0)).sum();
    // SAFETY: no memory is involved.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    let used = |of| {
        // SAFETY: plain data, for which zero is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is written.
        unsafe { libc::getrusage(of, &raw mut usage) };
        let time = |it: libc::timeval| Duration::new(it.tv_sec as u64, it.tv_usec as u32 * 1_000);
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    (ms(ticks * 1_000 / a_second), used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN))
}

fn ping_pong() {
    play(&slots(cpus()), || {
        let (to, from) = channel::bounded::<u32>(1);
        let (back, end) = channel::bounded::<u32>(1);
        let ping = named("ping").spawn(move || {
            for n in 0..20_000 {
                to.send(n).expect("there is a receiver");
                end.recv().expect("there is a sender");
            }
        });
        let pong = named("pong").spawn(move || from.iter().for_each(|n| back.send(n).unwrap_or(())));
        join([ping.expect("a thread"), pong.expect("a thread")]);
    });
}

#[test]
fn ping_pong_is_healthy() {
    acquit("ping-pong");
}

fn pool() {
    play(&slots(cpus()), || {
        let (jobs, todo) = channel::bounded::<Duration>(8);
        let pool = workers(2 * cpus(), move |_| todo.iter().for_each(spin));
        for n in 0..400 {
            jobs.send(us(100 + n % 7 * 50)).expect("there are workers");
        }
        drop(jobs);
        join(pool);
    });
}

#[test]
fn a_balanced_pool_is_healthy() {
    acquit("pool");
}

fn mostly_idle() {
    play(&slots(cpus()), || {
        join(workers(3, |n| {
            for _ in 0..20 {
                thread::sleep(ms(5 + n as u64));
                spin(us(50));
            }
        }));
    });
}

#[test]
fn a_program_that_is_mostly_idle_is_healthy() {
    acquit("mostly idle");
}
