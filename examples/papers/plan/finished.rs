//! P1 again, by a finished program: Ping-Pong in C, which knows nothing of Selvedge, on the C library's
//! threads and on both models by `LD_PRELOAD`.
//!
//! The program and the library are built when the experiment is asked for, beside this one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Experiment;
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::options::Size;
use crate::support::contender::some;
use crate::support::harness::{Case, Question, Side, Unit};
use crate::support::workloads::pingpong::Games;
use crate::verdict::{Bound, Check, Claim, Whose, at};

/// What `--only` calls it.
pub(crate) const NAME: &str = "finished";

const ITERATION: Unit = Unit::NanosEach("an iteration");

/// Returns the folder of the build that this program is of.
fn build() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.parent()?.to_path_buf())
}

fn program() -> Option<PathBuf> {
    Some(build()?.join("pingpong_in_c"))
}

fn library() -> Option<PathBuf> {
    Some(build()?.join("libselvedge_preload.so"))
}

/// Builds the library and the program. Returns an error that says what is missing.
pub(crate) fn prepare() -> Result<(), String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = build().ok_or("this program has no folder")?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(here).args(["build", "--quiet", "--package", "selvedge-preload", "--target-dir"]);
    cargo.arg(folder.parent().unwrap_or(&folder));
    if !folder.ends_with("debug") {
        cargo.arg("--release");
    }
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-O2", "-pthread", "-o"]).arg(folder.join("pingpong_in_c"));
    compiler.arg(here.join("preload/tests/c/pingpong.c"));
    for (what, mut command) in [("cargo", cargo), ("the C compiler", compiler)] {
        let status = command.status().map_err(|error| format!("{what}: {error}"))?;
        if !status.success() {
            return Err(format!("{what}: {status}"));
        }
    }
    Ok(())
}

/// Plays so many games of so many turns. Returns how long it took to play them.
fn play(model: Option<&str>, games: u32, turns: u64, more: &[&str]) -> Duration {
    let mut command = Command::new(program().expect("this program has a folder"));
    command.args(["-v", "-n", &games.to_string(), "-i", &turns.to_string()]).args(more);
    if let Some(model) = model {
        command.env("LD_PRELOAD", library().expect("this program has a folder"));
        command.env("SELVEDGE_RUNTIME", model);
    }
    let output = command.output().expect("the C program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    let expected = format!("{} turns", 2 * u64::from(games) * turns);
    assert!(said.lines().any(|line| line == expected), "{said}");
    let took = said.lines().find_map(|line| line.split_once(" games completed in ")?.1.strip_suffix("ms"));
    let took: f64 = took.and_then(|took| took.parse().ok()).expect("it says how long it took");
    Duration::from_secs_f64(took / 1e3)
}

/// The C program with the C library's threads, and on both models.
fn in_c(games: u32, more: &'static [&'static str]) -> Vec<Case> {
    let case = |name, side, model: Option<&'static str>| {
        Case::new(name, side, move |effort| effort.spend(|turns| play(model, games, turns, more)))
    };
    vec![
        case("in C, glibc", Side::Peer, None),
        case("in C, mxn", Side::Ours, Some("mxn")),
        case("in C, onetoone", Side::Ours, Some("onetoone")),
    ]
}

pub(super) fn all(size: Size) -> Vec<Experiment> {
    let (many, turns) = size.pick((50, 5), (500, 10), (5_000, 100));
    let beside = |games| some(&["mxn", "onetoone"], games);
    let with = |mut cases: Vec<Case>, more| {
        cases.extend(more);
        cases
    };
    let questions = vec![
        Question::new("one game, finished program", ITERATION, with(in_c(1, &[]), beside(Games::few(1))))
            .first(100),
        Question::new("four games, finished program", ITERATION, with(in_c(4, &[]), beside(Games::few(4))))
            .first(100),
        Question::new(
            "thousands of games, finished program",
            Unit::MillisInAll,
            with(in_c(many, &["-S", "32768"]), beside(Games::many(many))),
        )
        .fixed(turns),
    ];
    let few = Exhibit {
        id: "p1-finished",
        title: "A finished program on either library (tests 1 to 6)".into(),
        claim: "The user chooses the threads library of a finished program, and the program runs unchanged.",
        then: Then::Words(
            "The paper's own figures are those of Ping-Pong, above, on the two libraries of Solaris.",
        ),
        here:
            "Ping-Pong in C, compiled for the C library. It runs as it is, and by LD_PRELOAD on both models \
               of Selvedge. Beside it: the same games in Rust, with Selvedge's own locks."
                .into(),
        quantity: "time, ns an iteration of all games",
        over: "games",
        columns: vec![Column::of(0, "one game"), Column::of(1, "four games")],
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Ours,
                words: "the finished program plays at least as fast on each model as on the C library's threads",
                ratio: "time on the C library's threads by time on the model",
                bound: Bound::AtLeast(1.0),
                checks: vec![
                    Check::ours("one game, mxn", at("in C, glibc", 0), at("in C, mxn", 0)),
                    Check::ours("one game, onetoone", at("in C, glibc", 0), at("in C, onetoone", 0)),
                    Check::ours("four games, mxn", at("in C, glibc", 1), at("in C, mxn", 1)),
                    Check::ours("four games, onetoone", at("in C, glibc", 1), at("in C, onetoone", 1)),
                ],
            },
            Claim {
                whose: Whose::Ours,
                words: "it plays at most twice as long as a program that is written for Selvedge",
                ratio: "time of the finished program by that of the one in Rust",
                bound: Bound::AtMost(2.0),
                checks: vec![
                    Check::ours("one game, mxn", at("in C, mxn", 0), at("mxn", 0)),
                    Check::ours("four games, mxn", at("in C, mxn", 1), at("mxn", 1)),
                ],
            },
        ],
    };
    let thousands = Exhibit {
        id: "p1-finished-thousands",
        title: "A finished program with thousands of games (tests 8 and 9)".into(),
        claim: "M:N should win hands down with thousands of threads, but does not.",
        then: Then::Table(
            &["test", "ms to play 5,000 games of 100 iterations"],
            &[&["8: 1:1", "12,308"], &["9: M:N, one LWP", "43,140"]],
        ),
        here: format!("The same program with {many} games of {turns} iterations, and stacks of 32 KB."),
        quantity: "time to play all games, ms",
        over: "",
        columns: vec![Column::of(2, "thousands")],
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "M:N loses with thousands of threads",
            ratio: "time of M:N by time of 1:1, of the finished program",
            bound: Bound::AtLeast(1.0),
            checks: vec![
                Check::ours("mxn by glibc", at("in C, mxn", 2), at("in C, glibc", 2)),
                Check::ours("mxn by onetoone", at("in C, mxn", 2), at("in C, onetoone", 2)),
            ],
        }],
    };
    vec![Experiment::new(Paper::Harman, NAME, size, questions, vec![few, thousands])]
}
