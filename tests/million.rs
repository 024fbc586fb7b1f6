//! The crowd of parked threads: each is woken and counted, on every runtime; and the user can end it.

#[path = "support/child.rs"]
#[allow(dead_code, reason = "nothing aborts here")]
mod child;
#[path = "support/rungs.rs"]
mod rungs;
#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::io;
use std::path::Path;

use selvedge::{Mxn, OneToOne, Runtime};

use rungs::on_rungs;
use support::command_line::{Model, Refusal};
use support::concurrency::Concurrency;
use support::library::{Attributes, Std};
use support::million::options::{MILLION, Options, parse};
use support::million::program;
use support::million::workers::{BATCH, Plan, Reached, Watch, park_all};
use support::nt_solaris::workers::limits::{self, Limit};
use support::nt_solaris::workers::process::{MEMORY, PIDS, groups, kilobytes, usage};
use support::parking::Named;
use support::selvedge::Private;
use watchdog::Watchdog;

/// Writes down what it is told, and ends it at a number.
#[derive(Debug, Default)]
struct Notes {
    stop_at: Option<u32>,
    /// The machine allows no more kernel threads.
    full: Option<Limit>,
    started: Vec<u32>,
    refused: Option<String>,
    parked: Vec<u32>,
    woken: Vec<u32>,
}

impl Watch for Notes {
    fn started(&mut self, threads: u32) -> Option<String> {
        self.started.push(threads);
        (self.stop_at == Some(threads)).then(|| "enough".to_owned())
    }

    fn refused(&mut self, error: &io::Error) -> String {
        self.refused = Some(error.to_string());
        self.full = limits::reached().find(|limit| counts_threads(limit.name));
        "refused".to_owned()
    }

    fn parked(&mut self, threads: u32) {
        self.parked.push(threads);
    }

    fn woken(&mut self, threads: u32) {
        self.woken.push(threads);
    }
}

/// Returns `true` if the limit is one of kernel threads: a container may allow fewer than a test wants.
fn counts_threads(limit: &str) -> bool {
    ["kernel.threads-max", "kernel.pid_max", "pids.max", "ulimit -u"].iter().any(|name| limit.contains(name))
}

/// What must be so of every crowd.
fn check(reached: &Reached, notes: &Notes) {
    assert_eq!((reached.woken, reached.strays), (reached.started, 0));
    assert_eq!(notes.parked, [reached.started]);
    assert!(notes.woken.is_sorted());
    assert_eq!(notes.woken.last(), Some(&reached.started));
}

fn crowd<L: Named>(threads: u32) {
    let mut notes = Notes::default();
    let plan = Plan { threads, attributes: Attributes::default() };
    let reached = park_all::<L>(plan, &mut notes);
    check(&reached, &notes);
    if let Some(limit) = notes.full {
        println!("skipped: {threads} threads: {limit}");
        return;
    }
    assert_eq!((reached.started, reached.stopped), (threads, None));
    assert_eq!(notes.started, (1..threads.div_ceil(BATCH)).map(|n| n * BATCH).collect::<Vec<_>>());
}

fn everywhere(crowd: fn()) {
    OneToOne::new().unwrap().run(crowd);
    Mxn::builder().concurrency(1).build().unwrap().run(crowd);
    on_rungs(&Mxn::builder().concurrency(2), |rt| rt.run(crowd));
}

#[test]
fn each_thread_is_woken_and_counted() {
    let _watchdog = Watchdog::start("crowds");
    for crowd in [crowd::<Std> as fn(u32), crowd::<Private>] {
        crowd(1);
    }
    crowd::<Std>(BATCH + 1);
    everywhere(|| crowd::<Private>(1));
    everywhere(|| crowd::<Private>(BATCH));
    everywhere(|| crowd::<Private>(2 * BATCH + 1));
}

#[test]
fn the_watch_can_end_it() {
    let _watchdog = Watchdog::start("a crowd that is stopped");
    everywhere(|| {
        let mut notes = Notes { stop_at: Some(BATCH), ..Notes::default() };
        let plan = Plan { threads: 3 * BATCH, attributes: Attributes::default() };
        let reached = park_all::<Private>(plan, &mut notes);
        check(&reached, &notes);
        if let Some(limit) = notes.full {
            println!("skipped: {BATCH} threads: {limit}");
            return;
        }
        assert_eq!((reached.started, reached.stopped.as_deref()), (BATCH, Some("enough")));
    });
}

#[test]
fn a_thread_that_cannot_be_started_ends_it() {
    let _watchdog = Watchdog::start("a crowd of none");
    everywhere(|| {
        let mut notes = Notes::default();
        let attributes = Attributes { stack_size: Some(usize::MAX), bound: false };
        let reached = park_all::<Private>(Plan { threads: 3, attributes }, &mut notes);
        check(&reached, &notes);
        assert_eq!((reached.started, reached.stopped.as_deref()), (0, Some("refused")));
        let said = notes.refused.expect("it was told");
        assert!(said.contains("stack"), "{said}");
    });
}

#[test]
fn lines_of_proc_are_bytes() {
    let status = "VmSize:\t    3060 kB\nVmRSS:\t    1744 kB\nVmRSSX:\t 1 kB\nThreads:\t1\n";
    assert_eq!(kilobytes(status, "VmRSS"), 1744 << 10);
    assert_eq!((kilobytes(status, "Threads"), kilobytes(status, "VmPTE")), (0, 0));
    assert!(limits::room().expect("memory").left() > 0);
    // Where no other test takes memory, or gives some back.
    child::run("one that takes memory", &[]).expect_success();
}

fn take_memory() {
    let before = usage();
    let memory = vec![1_u8; 64 << 20];
    let taken = usage().beyond(before);
    assert!(taken.address_space >= 64 << 20 && memory[7] == 1, "{taken:?}");
    assert!((60 << 20..80 << 20).contains(&taken.resident), "{taken:?}");
    assert!(taken.page_tables > 0, "{taken:?}");
}

#[test]
fn a_control_group_is_bound_by_those_around_it() {
    let limits = |text| groups(text, &MEMORY).into_iter().map(|(limit, _)| limit).collect::<Vec<_>>();
    let root = Path::new("/sys/fs/cgroup");
    let second = ["a/b/memory.max", "a/memory.max", "memory.max"];
    assert_eq!(limits("0::/a/b\n"), second.map(|end| root.join(end)));
    let first = ["memory/j/memory.limit_in_bytes", "memory/memory.limit_in_bytes"];
    assert_eq!(limits("9:name=systemd:/\n4:memory:/j\n3:cpuset:/\n"), first.map(|end| root.join(end)));
    assert_eq!(limits("nothing of the kind\n"), [""; 0].map(|end| root.join(end)));
    let threads = groups("8:pids:/k\n4:memory:/j\n", &PIDS);
    let both = |folder: &str| (root.join(folder).join("pids.max"), root.join(folder).join("pids.current"));
    assert_eq!(threads, [both("pids/k"), both("pids/")]);
}

#[test]
fn the_program_reads_its_options() {
    let options = |line: &str| parse(line.split_whitespace(), None);
    let defaults = Options { plan: MILLION, concurrency: Concurrency::of(0), model: Model::Mxn, json: false };
    assert_eq!(options(""), Ok(defaults));
    assert_eq!(defaults.plan.threads, 1_000_000);
    let attributes = Attributes { stack_size: Some(4096), bound: false };
    let all = Options {
        plan: Plan { threads: 5, attributes },
        concurrency: Concurrency::of(9),
        model: Model::Std,
        json: true,
    };
    assert_eq!(options("-n 5 -S 4096 -c 9 -r std --json"), Ok(all));
    assert_eq!(options("-S 0"), Ok(defaults));
    assert_eq!(options("-?"), Err(Refusal::Help));
    for wrong in ["-n 0", "-n many", "-S x", "-r vax", "-x", "--all", "more"] {
        assert!(matches!(options(wrong), Err(Refusal::Wrong(_))), "{wrong}");
    }
}

fn run(line: &str, environment: Option<&str>) -> u8 {
    program::run(line.split_whitespace(), environment.map(Into::into))
}

#[test]
fn the_program_says_how_it_ended() {
    let _watchdog = Watchdog::start("the program");
    for environment in [None, Some("mxn"), Some("onetoone")] {
        assert_eq!(run("-n 1200 -c 2", environment), 0);
    }
    assert_eq!(run("-n 20 -r std --json", None), 0);
    assert_eq!(run("-n 20 -S 1000000000000000", None), 1);
    assert_eq!(run("-?", None), 0);
    assert_eq!(run("", Some("vax")), 1);
}

/// With room for some: the program says how many there were, and why, and ends well.
#[test]
fn too_little_room_is_a_finding() {
    for role in ["mxn in little room", "onetoone in little room"] {
        let ended = child::run(role, &[]);
        ended.expect_success();
        let object = ended.said.find("{\"checks\"").expect("an object");
        let line = ended.said[object..].lines().next().expect("the object's");
        let outcome: serde_json::Value = serde_json::from_str(line).unwrap();
        let reached = outcome["figures"][0]["value"].as_f64().expect("how many");
        let reason = outcome["configuration"]["stopped by"].as_str().expect("a reason");
        if counts_threads(reason) {
            println!("skipped: {role}: {reason}");
            continue;
        }
        assert!((1_000.0..50_000.0).contains(&reached), "{line}");
        assert!(reason.contains("ulimit -v"), "{reason}");
    }
}

/// In a process of its own, with so many bytes of address space.
fn in_little_room(bytes: u64, line: &str) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a limit to read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    assert_eq!(run(line, None), 0);
}

#[test]
#[ignore = "it is a part that other tests let a child process play"]
fn child() {
    child::play(&[
        ("one that takes memory", take_memory),
        ("mxn in little room", || in_little_room(8 << 30, "-n 50000 -r mxn --json")),
        ("onetoone in little room", || in_little_room(8 << 30, "-n 50000 -r onetoone --json")),
    ]);
}
