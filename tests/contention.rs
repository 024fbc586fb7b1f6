//! The papers' contention: every entry is counted under its region's lock, on every runtime; and the
//! program says what it did.

#[path = "support/rungs.rs"]
mod rungs;
#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use rungs::on_rungs;
use support::command_line::{Model, Refusal};
use support::concurrency::Concurrency;
use support::contention::options::{Options, PAPER, parse};
use support::contention::program;
use support::contention::workers::{Choice, Competed, Plan, compete};
use support::library::{Attributes, Std};
use support::selvedge::Private;
use watchdog::Watchdog;

/// `all` checks that no entry was lost, as it would be if two threads were in one region.
#[test]
fn every_entry_counts() {
    let _watchdog = Watchdog::start("contention");
    for (threads, regions) in [(1, 1), (2, 1), (8, 1), (8, 3), (32, 8)] {
        for bound in [false, true] {
            let attributes = Attributes { stack_size: None, bound };
            let plan = Plan { threads, regions, entries: 500, attributes };
            compete::<Std>(plan).unwrap().all(plan);
            let on =
                |rt: &dyn Fn() -> io::Result<Competed>| assert!(rt().unwrap().all(plan) > Duration::ZERO);
            on(&|| OneToOne::new().unwrap().run(|| compete::<Private>(plan)));
            on(&|| Mxn::builder().concurrency(1).build().unwrap().run(|| compete::<Private>(plan)));
            on_rungs(&Mxn::builder().concurrency(2), |rt| on(&|| rt.run(|| compete::<Private>(plan))));
        }
    }
}

#[test]
fn threads_choose_all_regions_and_each_its_own_way() {
    let path = |number| {
        let mut choice = Choice::of(number);
        (0..1_000).map(|_| choice.below(8)).collect::<Vec<_>>()
    };
    let paths: HashSet<Vec<u32>> = (0..32).map(path).collect();
    assert_eq!(paths.len(), 32);
    for path in &paths {
        for region in 0..8 {
            let visits = path.iter().filter(|&&at| at == region).count();
            assert!((60..200).contains(&visits), "{visits} of 1000 entries into one of eight regions");
        }
    }
}

#[test]
fn the_program_reads_its_options() {
    let options = |line: &str| parse(line.split_whitespace(), None);
    let defaults = Options { plan: PAPER, concurrency: Concurrency::of(0), model: Model::Mxn, json: false };
    assert_eq!(options(""), Ok(defaults));
    let each: Vec<u32> = defaults.plans().iter().map(|plan| plan.regions).collect();
    assert_eq!(each, [1, 2, 4, 8, 16, 32]);
    let attributes = Attributes { stack_size: None, bound: true };
    let plan = Plan { threads: 3, regions: 5, entries: 7, attributes };
    let all = Options { plan, concurrency: Concurrency::of(9), model: Model::Std, json: true };
    assert_eq!(options("-n 3 -m 5 -i 7 -s system -c 9 -r std --json"), Ok(all));
    assert_eq!(all.plans(), [plan]);
    assert_eq!(options("-?"), Err(Refusal::Help));
    for wrong in ["-n 0", "-i 0", "-m x", "-r vax", "-s both", "-x", "--coarse", "more"] {
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
        assert_eq!(run("-n 4 -i 100", environment), 0);
    }
    assert_eq!(run("-n 4 -m 2 -i 100 -r std", None), 0);
    assert_eq!(run("-?", None), 0);
    assert_eq!(run("-n none", None), 1);
    assert_eq!(run("", Some("vax")), 1);
}
