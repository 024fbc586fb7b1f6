//! Programs with nothing wrong, of which `explain` says nothing.

use std::sync::PoisonError;
use std::time::Duration;

use selvedge::{channel, thread};

use crate::child;
use crate::real::{END, FINDING, TURNS, cpus, join, ms, named, play, slots, spin, us, workers};
use crate::watchdog::Watchdog;

/// The programs.
pub(crate) const ROLES: [(&str, fn()); 3] =
    [("ping-pong", ping_pong), ("pool", pool), ("mostly idle", mostly_idle)];

/// How often a program is run until nothing is found. The machine may have other work, and LWPs that wait for
/// a CPU look as if they were not equally busy.
const HEALTHY_TRIES: u32 = 10;

/// Runs a program, with no other program of these tests beside it, and again if something was found.
#[track_caller]
fn acquit(role: &str) {
    let _watchdog = Watchdog::start(role);
    let _alone = TURNS.write().unwrap_or_else(PoisonError::into_inner);
    let mut said = String::new();
    for _ in 0..HEALTHY_TRIES {
        let ended = child::run(role, &[]);
        ended.expect_success();
        assert!(ended.said.contains(END), "{}", ended.said);
        if !ended.said.contains(FINDING) {
            assert!(ended.said.contains("Nothing stands out."), "{}", ended.said);
            return;
        }
        said = ended.said;
    }
    panic!("a healthy program is blamed:\n{said}");
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
