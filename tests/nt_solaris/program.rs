//! The program: its options, what it says, and how it ends.

use std::path::PathBuf;
use std::time::Duration;

use crate::child;
use crate::support::command_line::{Model, Refusal};
use crate::support::concurrency::Concurrency;
use crate::support::nt_solaris::journal::Trials;
use crate::support::nt_solaris::options::{Options, Part, Scope, parse};
use crate::support::nt_solaris::program;
use crate::support::nt_solaris::workers::search::First;
use crate::watchdog::Watchdog;

pub(crate) const ROLES: [(&str, fn()); 1] = [("json", || {
    // The test's own first words stand in the first line.
    println!();
    assert_eq!(run(&format!("{SMALL} {} --json", file("json")), None), 0);
})];

/// Little work for each part but the first, which needs a process of its own.
const SMALL: &str =
    "create compute locks search bursts -n 1,3 -k 2 --task 1 -i 50 --cpu 50,200 --bursts 2 --idle 100";

fn run(line: &str, environment: Option<&str>) -> u8 {
    program::run(line.split_whitespace(), environment.map(Into::into))
}

/// The option of an instance that is solved at once: five cities on a line, 10 apart.
fn file(test: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.tsp"));
    let text = "NAME: line\nDIMENSION: 5\nEDGE_WEIGHT_TYPE: EXPLICIT\nEDGE_WEIGHT_FORMAT: UPPER_ROW\n\
                EDGE_WEIGHT_SECTION\n10 20 30 40\n10 20 30\n10 20\n10\nEOF\n";
    std::fs::write(&path, text).unwrap();
    format!("--file {}", path.display())
}

#[test]
fn the_program_reads_its_options() {
    let options = |line: &str| parse(line.split_whitespace(), None);
    let usual = Options::usual(Model::Mxn);
    assert_eq!(options(""), Ok(usual.clone()));
    assert_eq!((usual.parts.len(), usual.optimum), (6, Some(2085)));
    let line = "bursts most -n 3,1 -k 7 --most 9 --task 8 -i 6 -o 5 -l 4 -p shared --file f.tsp --depth 2 \
                --first given --bursts 11 --idle 12 --cpu 13,14 -s system -S 65536 -c 2 -r onetoone --json";
    let all = Options {
        parts: vec![Part::Bursts, Part::Most],
        threads: vec![3, 1],
        trials: 7,
        most: 9,
        task: Duration::from_millis(8),
        entries: 6,
        outside: 5,
        inside: 4,
        mutexes: Scope::Shared,
        file: Some("f.tsp".into()),
        optimum: None,
        depth: 2,
        first: First::Given,
        bursts: 11,
        idle: Duration::from_micros(12),
        cpu: [13, 14].map(Duration::from_micros).to_vec(),
        bound: Some(true),
        stack_size: 65_536,
        concurrency: Concurrency::of(2),
        model: Model::OneToOne,
        json: true,
        here: false,
    };
    assert_eq!(options(line), Ok(all));
    let optimum = |line| options(line).unwrap().optimum;
    assert_eq!((optimum("--optimum 5 --file f"), optimum("--optimum 6")), (Some(5), Some(6)));
    let paper = options("--paper compute").unwrap();
    assert_eq!((paper.trials, paper.task), (10, Duration::from_secs(10)));
    assert_eq!(options("-?"), Err(Refusal::Help));
    for wrong in [
        "more",
        "-n 0",
        "-n 1,,2",
        "-n",
        "-k 0",
        "--most 0",
        "--task 0",
        "-i 0",
        "-p all",
        "--depth 9",
        "--first best",
        "--bursts 0",
        "--cpu x",
        "-s both",
        "-r vax",
        "-x",
        "--coarse",
        "-p shared -r std",
    ] {
        assert!(matches!(options(wrong), Err(Refusal::Wrong(_))), "{wrong}");
    }
}

#[test]
fn the_program_says_how_it_ended() {
    let _watchdog = Watchdog::start("the program");
    let file = file("ended");
    for environment in [None, Some("mxn"), Some("onetoone")] {
        assert_eq!(run(&format!("{SMALL} {file} --optimum 80"), environment), 0);
    }
    assert_eq!(run(&format!("{SMALL} {file} -r std"), None), 0);
    assert_eq!(run("create locks -n 5 -k 1 -i 10 -s system -p shared", None), 0);
    // Not as long as was said.
    assert_eq!(run(&format!("search {file} -n 1 -k 1 --optimum 79"), None), 2);
    assert_eq!(run("search --file /nowhere/gr17.tsp", None), 1);
    // No stack is that large.
    assert_eq!(run("compute -n 2 -S 18446744073709551615", None), 1);
    assert_eq!(run("-?", None), 0);
    for wrong in ["-n none", "everything"] {
        assert_eq!(run(wrong, None), 1);
    }
    assert_eq!(run("", Some("vax")), 1);
}

/// One object on standard output, with a figure for each trial's mean and no check that failed.
#[test]
fn the_program_speaks_json() {
    let _watchdog = Watchdog::start("the program's JSON");
    let ended = child::run("json", &[]);
    ended.expect_success();
    let objects: Vec<&str> = ended.said.lines().filter(|line| line.starts_with('{')).collect();
    let [object] = objects[..] else { panic!("no single object in {}", ended.said) };
    let object: serde_json::Value = serde_json::from_str(object).unwrap();
    assert_eq!(object["configuration"]["trials"], 2);
    let figures = object["figures"].as_array().unwrap();
    for name in [
        "creation, alone, 3 threads",
        "creation, beside a process that computes, 1 threads, deviation",
        "computing, 3 threads",
        "locks, local mutex, 1 threads",
        "locks, process-shared mutex, 3 threads",
        "search, line, 3 threads, speed-up",
        "search, line, length",
        "bursts, 200 us computing, 100 us idle, 3 threads, worst turn-around",
    ] {
        let figure =
            figures.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(figure["value"].as_f64().unwrap() >= 0.0, "{figure}");
    }
    assert!(object["checks"].as_array().unwrap().iter().all(|check| check["held"] == true), "{object}");
    assert!(!ended.said.contains("trials      (-k)"), "text for people beside the object: {}", ended.said);
}

#[test]
fn trials_have_a_mean_and_a_deviation() {
    let trials = |figures: &[f64]| figures.iter().copied().collect::<Trials>();
    assert_eq!((trials(&[7.0]).mean(), trials(&[7.0]).deviation()), (7.0, 0.0));
    let five = trials(&[2.0, 4.0, 4.0, 4.0, 6.0]);
    assert_eq!(five.mean(), 4.0);
    assert!((five.deviation() - 2.0_f64.sqrt()).abs() < 1e-12, "{}", five.deviation());
}
