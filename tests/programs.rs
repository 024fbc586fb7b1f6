//! What all of the papers' programs have in common. With `--json` they print one object and nothing else.
//! Their exit status says whether their own checks held.

#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "shared; nothing is sent elsewhere here")]
#[path = "support/cpus.rs"]
mod cpus;
#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::ffi::OsString;
use std::io;
use std::process::{Command, Output};

use serde_json::{Value, json};

use support::command_line::{Asked, Refusal, Text, run};
use support::outcome::Outcome;
use support::{
    barriers, contention, creation, echo, growth, java_threads, million, nt_solaris, pingpong, storms,
};
use watchdog::Watchdog;

type Program = fn(Vec<OsString>, Option<OsString>) -> u8;

/// Each program, with little work.
const PROGRAMS: [(&str, Program, &str); 10] = [
    ("pingpong", |line, variable| pingpong::program::run(line, variable), "-v -n 2 -i 50"),
    ("barriers", |line, variable| barriers::program::run(line, variable), "--fine -n 3 -k 20"),
    ("contention", |line, variable| contention::program::run(line, variable), "-n 4 -i 100"),
    ("creation", |line, variable| creation::program::run(line, variable), "-n 2 -k 3 -i 100 -a 0"),
    ("java_threads", |line, variable| java_threads::program::run(line, variable), "-n 5 -o 50 -i 10"),
    ("nt_solaris", |line, variable| nt_solaris::program::run(line, variable), "create -n 3 -k 2"),
    ("growth", |line, variable| growth::program::run(line, variable), "-n 30 --row"),
    ("million", |line, variable| million::program::run(line, variable), "-n 200"),
    ("storms", |line, variable| storms::program::run(line, variable), "-n 4 -m 20 -w 100 -t 100 -e 0"),
    ("echo", |line, variable| echo::program::run(line, variable), "-n 4 -i 10"),
];

/// The program for [`the_program_itself`], and its command line.
const NAME: &str = "PROGRAMS_TEST_NAME";
const ARGUMENTS: &str = "PROGRAMS_TEST_ARGUMENTS";

/// Not a test unless [`in_a_process`] runs it: one of the programs, with its exit status; or one with a
/// check that does not hold.
#[test]
fn the_program_itself() {
    let Ok(name) = std::env::var(NAME) else { return };
    let line = std::env::var(ARGUMENTS).expect("both are set");
    let arguments = line.split_whitespace().map(Into::into).collect();
    let program = PROGRAMS.into_iter().find(|(known, ..)| *known == name);
    let status = program.map_or_else(
        || wrong(line.contains("--json")),
        |(_, program, _)| program(arguments, std::env::var_os("SELVEDGE_RUNTIME")),
    );
    std::process::exit(status.into());
}

fn in_a_process(name: &str, arguments: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_program_itself", "--nocapture"])
        .envs([(NAME, name), (ARGUMENTS, arguments)])
        .env_remove("SELVEDGE_RUNTIME")
        .output()
        .unwrap()
}

/// What a process printed after the test harness's own lines.
fn printed(output: &Output) -> &str {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let text = text.strip_prefix("\nrunning 1 test\n").unwrap_or_else(|| panic!("{text}"));
    text.strip_prefix("test the_program_itself ... ").unwrap_or(text)
}

struct Plain {
    json: bool,
}

impl Asked for Plain {
    fn json(&self) -> bool {
        self.json
    }
}

/// A program of which one check holds and two do not.
fn wrong(json: bool) -> u8 {
    run("wrong", "usage: wrong\n", Ok(Plain { json }), |_, text| {
        writeln!(text, "for people")?;
        let mut outcome = Outcome::new("wrong");
        outcome.check("water is wet", true);
        outcome.check("the tour is 2085 long", false);
        outcome.check("all 4 threads ran", false);
        Ok(outcome)
    })
}

#[test]
fn with_json_every_program_prints_one_object_and_nothing_else() {
    let _watchdog = Watchdog::start("programs that print JSON");
    for (name, _, arguments) in PROGRAMS {
        for model in ["mxn", "onetoone", "std"] {
            let output = in_a_process(name, &format!("{arguments} -r {model} --json"));
            let text = printed(&output);
            assert_eq!(output.status.code(), Some(0), "{name} on {model}: {output:?}");
            assert!(text.ends_with("}\n") && text.lines().count() == 1, "{name} on {model}: {text}");
            let object: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(object["program"], name);
            assert_eq!(object["configuration"]["runtime"], model);
            let figures = object["figures"].as_array().unwrap();
            assert!(!figures.is_empty(), "{text}");
            for figure in figures {
                assert!(figure["name"].is_string() && figure["unit"].is_string(), "{figure}");
                assert!(figure["value"].as_f64().is_some_and(|value| value >= 0.0), "{figure}");
            }
            let checks = object["checks"].as_array().unwrap();
            assert!(!checks.is_empty() && checks.iter().all(|check| check["held"] == true), "{text}");
        }
    }
}

#[test]
fn without_json_every_program_speaks_to_people() {
    let _watchdog = Watchdog::start("programs that print text");
    for (name, _, arguments) in PROGRAMS {
        let output = in_a_process(name, arguments);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        assert!(text.lines().count() > 4 && !text.contains('{'), "{name}: {text}");
        assert!(output.stderr.is_empty(), "{name}: {output:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn every_program_runs_on_the_cpus_that_are_named() {
    let _watchdog = Watchdog::start("programs on named CPUs");
    let cpu = cpus::mine()[0].to_string();
    for (name, _, arguments) in PROGRAMS {
        let output = in_a_process(name, &format!("{arguments} -r mxn --cpus {cpu} --json"));
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        let object: Value = serde_json::from_str(printed(&output)).unwrap();
        assert_eq!(object["configuration"]["cpus"], cpu, "{name}");
        for (list, refusal) in [
            ("1023 -r mxn", "may not use 1023,"),
            ("1024 -r mxn", "not a list of CPUs up to 1023"),
            ("1-0 -r mxn", "not a list of CPUs"),
            ("0 -r std", "use taskset"),
        ] {
            let output = in_a_process(name, &format!("{arguments} --cpus {list}"));
            assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
            let error = std::str::from_utf8(&output.stderr).unwrap();
            assert!(error.contains(refusal), "{name} --cpus {list}: {error}");
        }
    }
}

/// The second part of creation, as far as it takes place in a child.
#[test]
fn threads_that_exist_at_once_are_told_while_they_are_made_and_at_the_end() {
    let _watchdog = Watchdog::start("threads at once");
    for model in ["mxn", "onetoone", "std"] {
        let output = in_a_process("creation", &format!("--here -a 300 -S 32768 -r {model}"));
        let lines: Vec<&str> = printed(&output).lines().collect();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(matches!(lines[..], ["128", "256", last] if last.starts_with("end 300 300 ")), "{lines:?}");
    }
}

#[test]
fn what_does_not_hold_is_said_and_is_the_exit_status() {
    for (arguments, said) in [("", "for people\n"), ("--json", "")] {
        let output = in_a_process("wrong", arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let complaints = std::str::from_utf8(&output.stderr).unwrap();
        assert_eq!(
            complaints,
            "wrong: this does not hold: the tour is 2085 long\nwrong: this does not hold: all 4 threads ran\n"
        );
        let text = printed(&output);
        match said {
            "" => {
                let object: Value =
                    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
                assert_eq!(object["checks"][1], json!({ "claim": "the tour is 2085 long", "held": false }));
            }
            _ => assert_eq!(text, said),
        }
    }
}

#[test]
fn an_outcome_says_what_was_run_measured_and_checked() {
    let mut outcome = Outcome::new("mill");
    outcome.set("threads", 4);
    outcome.set("runtime", "mxn");
    outcome.set("regions", vec![1, 2]);
    outcome.figure("z first", "ms", 1.5);
    outcome.figure("a second", "ns", f64::NAN);
    outcome.check("no thread starved", true);
    assert_eq!(outcome.exit_status(), 0);
    let expected = json!({
        "program": "mill",
        "configuration": { "threads": 4, "runtime": "mxn", "regions": [1, 2] },
        "figures": [
            { "name": "z first", "unit": "ms", "value": 1.5 },
            { "name": "a second", "unit": "ns", "value": null },
        ],
        "checks": [{ "claim": "no thread starved", "held": true }],
    });
    let text = outcome.to_json();
    assert!(!text.contains('\n'), "{text}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    outcome.check("all were counted", false);
    assert_eq!(outcome.exit_status(), 2);
    assert_eq!(outcome.failed().collect::<Vec<_>>(), ["all were counted"]);
}

#[test]
fn the_exit_status_says_what_went_wrong() {
    let status = |parsed, program: fn(&Plain, &mut Text<'_>) -> io::Result<Outcome>| {
        run("mill", "usage: mill\n", parsed, program)
    };
    let fine = |_: &Plain, _: &mut Text<'_>| Ok(Outcome::new("mill"));
    let asked = || Ok(Plain { json: false });
    assert_eq!(status(asked(), fine), 0);
    assert_eq!(status(asked(), |_, _| Err(io::ErrorKind::OutOfMemory.into())), 1);
    assert_eq!(status(Err(Refusal::Help), fine), 0);
    assert_eq!(status(Err(Refusal::Wrong("-n 0".into())), fine), 1);
    assert_eq!(wrong(false), 2);
}
