//! The most threads: a limit stops them, and is named; by the process that met it, or by the one that
//! started that.

use std::process::Command;

use crate::child;
use crate::support::nt_solaris::apart::{Report, listen};
use crate::support::nt_solaris::program;
use crate::support::nt_solaris::workers::limits::{self, Counts, Limit};
use crate::support::nt_solaris::workers::neighbors::{Neighbors, STRIDE};
use crate::support::nt_solaris::workers::process::usage;
use crate::watchdog::Watchdog;

pub(crate) const ROLES: [(&str, fn()); 6] = [
    ("most_mxn", || within_memory("mxn", "process", 1)),
    ("most_bound", || within_memory("mxn", "system", 4)),
    ("most_onetoone", || within_memory("onetoone", "process", 4)),
    ("most_std", || within_memory("std", "process", 4)),
    ("most_enough", || assert_eq!(here("onetoone", "process", "300"), 0)),
    ("most_ended", || {
        println!("128\n256");
        eprintln!("\nout of luck");
        std::process::abort();
    }),
];

fn here(model: &str, scope: &str, most: &str) -> u8 {
    let line = ["most", "--here", "-r", model, "-s", scope, "--most", most, "-c", "2"];
    // The test's own first words stand in the first line.
    println!();
    program::run(line, None)
}

/// As far as some GiB of addresses last.
fn within_memory(model: &str, scope: &str, gib: u64) {
    // One heap for all: a second takes 128 MiB for a moment, and a look after that finds the limit
    // far away. musl has one.
    #[cfg(target_env = "gnu")]
    // SAFETY: a number to set.
    let done = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    #[cfg(not(target_env = "gnu"))]
    let done = 1;
    assert_eq!(done, 1);
    let bytes = usage().address_space + (gib << 30);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a limit to read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    assert_eq!(here(model, scope, "1000000"), 0);
}

fn report(role: &str) -> (Report, u32) {
    let mut told = 0;
    let report = listen(child::command(role, &[]), |made| told = made).unwrap();
    (report, told)
}

#[test]
fn a_limit_stops_them_and_is_named() {
    let _watchdog = Watchdog::start("the most threads");
    for role in ["most_mxn", "most_bound", "most_onetoone", "most_std"] {
        let (report, told) = report(role);
        println!("{role}: {report:?}");
        // Kernel threads may also be ended: where one begins and finds no room for its signals, or the
        // allocator none for a few bytes.
        let starved = report.told.is_none() && report.stopped_by.contains("memory allocation of ");
        assert!(report.stopped_by.contains("ulimit -v: ") || starved, "{role}: {report:?}");
        assert!((128..1_000_000).contains(&report.made) && told <= report.made, "{role}: {report:?}");
        if let Some(told) = report.told {
            assert_eq!(told.ran, report.made, "{role}");
            assert!(told.memory.address_space > 0 && told.making <= told.begun, "{role}: {told:?}");
        } else {
            assert_ne!(role, "most_mxn", "{report:?}");
        }
    }
}

#[test]
fn enough_is_no_limit() {
    let _watchdog = Watchdog::start("enough threads");
    let (report, told) = report("most_enough");
    assert_eq!((report.made, told, report.stopped_by.as_str()), (300, 256, "--most"));
    assert_eq!(report.told.expect("it ended well").ran, 300);
}

#[test]
fn an_ended_process_has_said_how_far_it_got() {
    let _watchdog = Watchdog::start("an ended process");
    child::run("most_ended", &[]).expect_abort(&["out of luck"]);
    let (report, told) = report("most_ended");
    assert_eq!((report.made, report.told, told), (256, None, 256));
    assert!(report.stopped_by.contains("SIGABRT") && report.stopped_by.contains("out of luck"), "{report:?}");
}

/// A child that refuses to begin is an error, with what it said.
#[test]
fn a_child_that_fails_is_an_error() {
    let mut failing = Command::new("sh");
    failing.args(["-c", "echo 128; echo no such luck >&2; exit 3"]);
    let error = listen(failing, |_| ()).expect_err("it failed").to_string();
    assert!(error.contains("no such luck") && error.contains('3'), "{error}");
    assert!(listen(Command::new("/nowhere/program"), |_| ()).is_err());
}

#[test]
fn a_limit_is_reached_shortly_before_its_end() {
    let limit = |used, allowed| Limit { name: "threads", used, allowed, step: 1, counts: Counts::Threads };
    for (used, allowed, reached) in [
        (0, 64, false),
        (62, 64, false),
        (63, 64, true),
        (64, 64, true),
        (65, 64, true),
        (32_255, 32_768, false),
        (32_467, 32_768, true),
        (u64::MAX, u64::MAX, true),
    ] {
        assert_eq!(limit(used, allowed).is_reached(), reached, "{used} of {allowed}");
    }
    // What is asked for by large steps.
    for (used, reached) in [(0, false), (699, false), (700, true), (1000, true)] {
        assert_eq!(Limit { step: 300, ..limit(used, 1000) }.is_reached(), reached, "{used}");
    }
    assert!(Limit { step: 300, ..limit(0, 200) }.is_reached());
    assert_eq!(limit(3, 4).to_string(), "threads: 3 of 4 are used");
    let bytes = Limit { counts: Counts::Memory, ..limit(3 << 30, 8 << 30) };
    assert_eq!(bytes.to_string(), "threads: 3.0 GiB of 8.0 GiB are used");
}

/// So many threads each take one number and 10 KiB. Other processes keep what they need, and looks come in
/// time although each costs much.
#[test]
fn other_processes_keep_their_part() {
    let limit = |counts, used, allowed| Limit { name: "it", used, allowed, step: 1, counts };
    // What is allowed, what others use, what each thread takes; and what must be left.
    for (counts, allowed, others, each, kept) in [
        (Counts::Threads, 32_768, 100, 1, 500),
        (Counts::Threads, 1_000, 200, 1, 400),
        (Counts::Memory, 16 << 30, 1 << 30, 10 << 10, 15 << 29),
        (Counts::Memory, 4 << 20, 1 << 20, 10 << 10, 3 << 19),
    ] {
        let with = |threads: u32| std::iter::once(limit(counts, others + each * u64::from(threads), allowed));
        let mut neighbors = Neighbors::of(with(0));
        let (mut threads, mut looks) = (0, 0);
        let met = loop {
            threads += STRIDE;
            if threads < neighbors.due {
                continue;
            }
            looks += 1;
            if let Some(met) = neighbors.look(threads, with(threads)) {
                break met;
            }
        };
        let left = met.left();
        assert!(left >= kept && left < kept + 2 * each * u64::from(STRIDE), "{left} are left, not {kept}");
        assert!(looks < 100, "{looks} looks");
    }
    // Others give back as much as the threads take: what these take is not known, and the next look is near.
    let mut neighbors = Neighbors::of(std::iter::once(limit(Counts::Memory, 8 << 30, 16 << 30)));
    let now = std::iter::once(limit(Counts::Memory, 7 << 30, 16 << 30));
    assert_eq!((neighbors.look(8_000, now), neighbors.due), (None, 10_000));
}

/// On Linux, where this crate is at home, each of these can be seen. A test uses some of each, but not all.
#[test]
fn limits_can_be_seen() {
    let all = limits::all().collect::<Vec<_>>();
    for name in ["vm.max_map_count", "kernel.threads-max", "kernel.pid_max", "memory"] {
        let limit = all.iter().find(|limit| limit.name == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(0 < limit.used && limit.used < limit.allowed, "{limit}");
    }
    let memory = usage();
    assert!(0 < memory.resident && memory.resident < memory.address_space, "{memory:?}");
}
