//! The storms: a thread that blocks or never yields stops no other, on every runtime; and the program
//! reports.

#[path = "support/rungs.rs"]
mod rungs;
#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use rungs::on_rungs;
use support::command_line::{Model, Refusal};
use support::concurrency::Concurrency;
use support::library::{Library, Std};
use support::parking::Parking;
use support::selvedge::Private;
use support::storms::blocking::{naps, reads};
use support::storms::hogs::{self, KINDS, Kind, Plan};
use support::storms::options::{ALL, Options, parse};
use support::storms::program;
use watchdog::Watchdog;

fn one_walks_beside_readers<L: Library>() {
    const READERS: u32 = 24;
    let time = Duration::from_millis(200);
    let found = reads::<L>(READERS, time).unwrap();
    assert_eq!((found.blocked, found.released), (READERS, READERS), "{found:?}");
    // Both make a step at least, whatever the machine does.
    assert!(found.steps.count() > 0 && found.steps.longest() >= Duration::from_millis(1), "{found:?}");
    assert!(found.kernel_steps > 0, "{found:?}");
}

#[test]
fn readers_stop_no_other_and_are_released() {
    let _watchdog = Watchdog::start("reads");
    one_walks_beside_readers::<Std>();
    OneToOne::new().unwrap().run(one_walks_beside_readers::<Private>);
    on_rungs(&Mxn::builder().concurrency(2), |rt| rt.run(one_walks_beside_readers::<Private>));
}

/// In a row they would take four seconds.
fn side_by_side<L: Library>() {
    const SLEEPERS: u32 = 40;
    let time = Duration::from_millis(100);
    let are_beside = || {
        let took = naps::<L>(SLEEPERS, time).unwrap();
        assert!(took >= time, "{took:?}");
        took < time * SLEEPERS / 2
    };
    // A busy machine may spoil some.
    assert!((0..20).any(|_| are_beside()), "they sleep in a row");
}

#[test]
fn sleepers_sleep_side_by_side() {
    let _watchdog = Watchdog::start("naps");
    side_by_side::<Std>();
    OneToOne::new().unwrap().run(side_by_side::<Private>);
    on_rungs(&Mxn::builder().concurrency(2), |rt| rt.run(side_by_side::<Private>));
}

/// The control: with one LWP, one sleeps at a time.
#[test]
fn without_spares_sleepers_sleep_in_a_row() {
    let _watchdog = Watchdog::start("naps in a row");
    let rt = Mxn::builder().concurrency(1).max_lwps(1).build().unwrap();
    let time = Duration::from_millis(10);
    let took = rt.run(|| naps::<Private>(10, time)).unwrap();
    assert!(took >= 10 * time, "{took:?}");
}

fn one_gets_turns_beside_hogs<L: Parking>() {
    for (name, kind) in KINDS {
        let plan = Plan { kind, hogs: 4, running: 2, time: Duration::from_millis(100) };
        let got = hogs::run::<L>(plan).unwrap();
        assert!(got.turns.count() > 0 && got.turns.longest() >= hogs::PAUSE, "{name}: {got:?}");
        assert!(got.hog_turns > 0, "{name}: {got:?}");
        assert_eq!(got.wrong, 0, "{name}: {got:?}");
    }
}

#[test]
fn hogs_leave_turns_to_others() {
    let _watchdog = Watchdog::start("hogs");
    one_gets_turns_beside_hogs::<Std>();
    OneToOne::new().unwrap().run(one_gets_turns_beside_hogs::<Private>);
    on_rungs(&Mxn::builder().concurrency(2), |rt| rt.run(one_gets_turns_beside_hogs::<Private>));
}

#[test]
fn the_program_reads_its_options() {
    let options = |line: &str| parse(line.split_whitespace(), None);
    assert_eq!(options(""), Ok(ALL));
    assert_eq!(options("--naps"), Ok(Options { reads: false, hogs: false, ..ALL }));
    assert_eq!(options("--reads --hogs --naps"), Ok(ALL));
    let all = Options {
        reads: false,
        naps: false,
        hogs: true,
        readers: 1,
        sleepers: 2,
        sleep_ms: 3,
        hogs_each: 4,
        kind: Some(Kind::Lock),
        time_ms: 50,
        enough: 6,
        concurrency: Concurrency::of(1),
        model: Model::Std,
        json: true,
    };
    assert_eq!(options("--hogs -n 1 -m 2 -w 3 -p 4 -k lock -t 50 -e 6 -c 1 -r std --json"), Ok(all));
    let herds = all.herds();
    assert_eq!(herds.len(), 1);
    assert_eq!((herds[0].kind, herds[0].running), (Kind::Lock, 1));
    assert_eq!(herds[0].hogs as usize, 4 * std::thread::available_parallelism().unwrap().get());
    assert_eq!(ALL.herds().len(), KINDS.len());
    assert_eq!(options("-?"), Err(Refusal::Help));
    for wrong in ["-n 0", "-k pig", "-t 1", "-e 101", "-r vax", "-x", "--calm", "more"] {
        assert!(matches!(options(wrong), Err(Refusal::Wrong(_))), "{wrong}");
    }
}

#[test]
fn the_program_says_how_it_ended() {
    let _watchdog = Watchdog::start("the program");
    let run = |line: &str, environment: Option<&str>| {
        program::run(line.split_whitespace(), environment.map(Into::into))
    };
    for environment in [None, Some("mxn"), Some("onetoone")] {
        assert_eq!(run("--reads -n 4 -t 50 -e 0", environment), 0);
        assert_eq!(run("--hogs -p 1 -t 50 -e 0", environment), 0);
        // A busy machine may spoil some.
        assert!((0..10).any(|_| run("--naps -m 1 -w 200", environment) == 0), "{environment:?}");
    }
    assert_eq!(run("--reads -n 4 -t 50 -e 0 -r std --json", None), 0);
    assert_eq!(run("-?", None), 0);
    assert_eq!(run("-k pig", None), 1);
    assert_eq!(run("", Some("vax")), 1);
}
