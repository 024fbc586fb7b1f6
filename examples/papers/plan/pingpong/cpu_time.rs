//! The CPU time of a few games, on which three of the paper's arguments rest.

use super::{EACH, test};
use crate::exhibit::{Chart, Column, Exhibit, Then};
use crate::verdict::{Bound, Check, Claim, Whose, at, by};

/// What lies behind the time of a test: the CPU time in user mode, in the kernel, and in both.
const USER: usize = 1;
const SYSTEM: usize = 2;
const BOTH: usize = EACH - 1;

fn columns(labels: &[&str]) -> Vec<Column> {
    let of = |(number, label): (usize, &&str)| {
        let column = |(further, kind)| Column::of(test(number) + further, format!("{label}, {kind}"));
        [(USER, "user"), (SYSTEM, "system")].map(column)
    };
    labels.iter().enumerate().flat_map(of).collect()
}

/// The exhibit of the tests with one game.
pub(super) fn one_game(labels: &[&str]) -> Exhibit {
    let both = |number: usize| test(number) + BOTH;
    let used = |contender: &'static str| (at(contender, both(2)), at(contender, test(2)));
    let system = |contender: &'static str, number| at(contender, test(number) + SYSTEM);
    Exhibit {
        id: "p1-one-game-cpu",
        title: "One game: CPU time (baseline, tests 1 to 4)".into(),
        claim: "A switch in user space takes more CPU time than spinning on two CPUs, a second LWP uses CPU \
                time to no avail, and the new library's way through the kernel takes less system time than \
                the old one's.",
        then: Then::Table(
            &["test", "user, s", "system, s"],
            &[
                &["baseline: new (1:1) library, spins on two CPUs", "12.6", "0.3"],
                &[
                    "1: old (M:N) library, one LWP (\"almost eight percent more CPU resource\")",
                    "13.9",
                    "0.0",
                ],
                &["2: old library, concurrency 2 (\"but to no avail\")", "55.9", "64.4"],
                &["3: new library, one CPU", "21.4", "18.7"],
                &["4: old library, bound threads, one CPU (\"55 percent more CPU\")", "27.3", "28.9"],
            ],
        ),
        here: "The same games as above. The CPU time is that of the whole process during the run that \
               counts (`getrusage`). The kernel divides it by its ticks, so a short run shows only \
               roughly how much of it is user time."
            .into(),
        quantity: "CPU time, ns an iteration",
        over: "test",
        columns: columns(labels),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "a switch in user space takes more CPU time than spinning on two CPUs",
                ratio: "CPU time of M:N on one LWP by that of 1:1 on two CPUs",
                bound: Bound::AtLeast(1.0),
                checks: by(
                    [
                        ("mxn, 1 slot", "onetoone"),
                        ("may, 1 worker", "parking_lot"),
                        ("tokio, current thread", "parking_lot"),
                    ],
                    both(1),
                    both(0),
                ),
            },
            Claim {
                whose: Whose::Paper,
                words: "on all LWPs, one M:N game keeps more than one CPU busy",
                ratio: "CPU time by time",
                bound: Bound::AtLeast(1.1),
                checks: vec![
                    Check::ours("M:N", used("mxn").0, used("mxn").1),
                    Check::other("may", used("may").0, used("may").1),
                    Check::other("tokio", used("tokio").0, used("tokio").1),
                ],
            },
            Claim {
                whose: Whose::Paper,
                words: "bound threads of the M:N library take more system time than threads of the 1:1 one",
                ratio: "system time of bound threads by that of 1:1, both on one CPU",
                bound: Bound::AtLeast(1.1),
                checks: vec![Check::ours("bound by 1:1", system("mxn, bound", 4), system("onetoone", 3))],
            },
        ],
    }
}

/// The exhibit of the tests with four games.
pub(super) fn four_games(labels: &[&str]) -> Exhibit {
    Exhibit {
        id: "p1-four-games-cpu",
        title: "Four games: CPU time (tests 5 to 7)".into(),
        claim: "M:N threads that share LWPs spend most of their CPU time in the kernel, and many times as \
                much as 1:1 threads.",
        then: Then::Table(
            &["test", "user, s", "system, s"],
            &[
                &["5: 1:1, eight CPUs", "51.1", "0.3"],
                &["6: M:N, concurrency 8", "264.9", "1,126.0"],
                &["7: as 6, with mutexes declared shared between processes", "88.4", "281.2"],
            ],
        ),
        here: "The same games as above.".into(),
        quantity: "CPU time, ns an iteration of all four games",
        over: "test",
        columns: columns(labels),
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "with several games, M:N on all CPUs takes many times the CPU time of 1:1",
            ratio: "CPU time of M:N by that of 1:1",
            bound: Bound::AtLeast(2.0),
            checks: by(
                [("mxn", "onetoone"), ("may", "parking_lot"), ("tokio", "pthread")],
                test(1) + BOTH,
                test(0) + BOTH,
            ),
        }],
    }
}
