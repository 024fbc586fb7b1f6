//! P1: Ping-Pong, after the tests of appendix C.

use selvedge::{Mxn, Runtime};

use super::{Experiment, cpus, on_one_cpu};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::options::Size;
use crate::support::contender::{Workload, some};
use crate::support::game::{Rest, Tournament, play};
use crate::support::harness::{Case, Question, Side, Unit};
use crate::support::library::Attributes;
use crate::support::selvedge::Shared;
use crate::support::workloads::pingpong::{Games, Setup, SplitPair};
use crate::verdict::{Bound, Check, Claim, Whose, at};

const KERNEL: [&str; 4] = ["onetoone", "std", "parking_lot", "pthread"];
const ITERATION: Unit = Unit::NanosEach("an iteration");

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![one_game(size), four_games(size), thousands(size)]
}

/// One contender by another name, on threads that own a kernel thread each.
fn bound(games: u32) -> Vec<Case> {
    let attributes = Attributes { stack_size: None, bound: true };
    let cases = some(&["mxn"], Games { games, attributes });
    cases.into_iter().map(|case| case.named("mxn, bound")).collect()
}

/// M:N threads with mutexes that processes can share.
fn shared(games: u32) -> Case {
    Case::new("mxn, shared", Side::Ours, move |effort| {
        let playing = |moves| {
            let tournament = Tournament {
                games,
                target: moves as u32,
                rest: Rest::None,
                attributes: Attributes::default(),
            };
            play::<Shared, _>(tournament, |_, _| ()).expect("a few threads").all(games)
        };
        Mxn::new().unwrap().run(|| effort.spend(playing))
    })
}

fn one_game(size: Size) -> Experiment {
    let split = if cpus() > 1 { some(&KERNEL, SplitPair) } else { Vec::new() };
    let user = ["mxn, 1 slot", "may, 1 worker", "tokio, current thread"];
    let questions = vec![
        Question::new("one game, kernel threads on two CPUs", ITERATION, split),
        Question::new("one game, one worker", ITERATION, some(&user, Games::few(1))),
        Question::new("one game, all workers", ITERATION, some(&["mxn", "may", "tokio"], Games::few(1))),
        Question::new("one game, kernel threads on one CPU", ITERATION, some(&KERNEL, Games::few(1)))
            .prepare(on_one_cpu),
        Question::new("one game, bound threads on one CPU", ITERATION, bound(1)).prepare(on_one_cpu),
    ];
    let labels = [
        "baseline:\n1:1, two CPUs",
        "test 1:\nM:N, one LWP",
        "test 2:\nM:N, all CPUs",
        "test 3:\n1:1, one CPU",
        "test 4:\nbound, one CPU",
    ];
    let exhibit = Exhibit {
        id: "p1-one-game",
        title: "One game (baseline, tests 1 to 4)".into(),
        claim: "Two 1:1 threads that spin for each other on two CPUs move twice as fast as M:N threads that switch in user space, and even through \
                the kernel on one CPU they are only three times slower, so there is little to be gained by user-level scheduling.",
        then: Then::Table(
            &["test", "ms for a million iterations, so ns an iteration"],
            &[
                &["baseline: new (1:1) library, spins on two CPUs", "6,798"],
                &["1: old (M:N) library, one LWP", "13,881"],
                &["2: old library, concurrency 2", "90,922"],
                &["3: new library, one CPU", "43,779"],
                &["4: old library, bound threads, one CPU", "59,231"],
            ],
        ),
        here: "The same game over four mutexes, by the iteration (each player moves once, so there are two hand-offs in it). 1:1 pairs depend on \
               where the kernel puts them, so they are kept where the test wants them by affinity."
            .into(),
        quantity: "time, ns an iteration",
        over: "test",
        columns: labels.iter().enumerate().map(|(number, &label)| Column::of(number, label)).collect(),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "a switch in user space takes longer than spinning on two CPUs",
                ratio: "time of M:N on one LWP by that of 1:1 on two CPUs",
                bound: Bound::AtLeast(1.0),
                checks: vec![
                    Check::ours("M:N by 1:1", at("mxn, 1 slot", 1), at("onetoone", 0)),
                    Check::other("may by parking_lot", at("may, 1 worker", 1), at("parking_lot", 0)),
                    Check::other("tokio by parking_lot", at("tokio, current thread", 1), at("parking_lot", 0)),
                ],
            },
            Claim {
                whose: Whose::Paper,
                words: "a switch through the kernel takes only about three times as long as one in user space",
                ratio: "time of 1:1 on one CPU by that of M:N on one LWP",
                bound: Bound::AtMost(4.0),
                checks: vec![
                    Check::ours("1:1 by M:N", at("onetoone", 3), at("mxn, 1 slot", 1)),
                    Check::other("pthread by may", at("pthread", 3), at("may, 1 worker", 1)),
                    Check::other("parking_lot by tokio", at("parking_lot", 3), at("tokio, current thread", 1)),
                ],
            },
            Claim {
                whose: Whose::Paper,
                words: "more LWPs make one M:N game several times slower",
                ratio: "time on all LWPs by time on one",
                bound: Bound::AtLeast(2.0),
                checks: vec![
                    Check::ours("M:N", at("mxn", 2), at("mxn, 1 slot", 1)),
                    Check::other("may", at("may", 2), at("may, 1 worker", 1)),
                    Check::other("tokio", at("tokio", 2), at("tokio, current thread", 1)),
                ],
            },
            Claim {
                whose: Whose::Paper,
                words: "threads of the 1:1 library hand over faster than bound threads of the M:N one",
                ratio: "time of 1:1 by that of bound threads, both on one CPU",
                bound: Bound::AtMost(0.95),
                checks: vec![Check::ours("1:1 by bound", at("onetoone", 3), at("mxn, bound", 4))],
            },
        ],
    };
    Experiment::new(Paper::Harman, "one-game", size, questions, vec![exhibit])
}

fn four_games(size: Size) -> Experiment {
    const GAMES: u32 = 4;
    let user = ["mxn, 1 slot", "may, 1 worker", "tokio, current thread"];
    let four = Games::few(GAMES);
    let questions = vec![
        Question::new("four games, kernel threads", ITERATION, some(&KERNEL, four)),
        Question::new("four games, all workers", ITERATION, some(&["mxn", "may", "tokio"], four)),
        Question::new("four games, shared mutexes", ITERATION, vec![shared(GAMES)]),
        Question::new("four games, one worker", ITERATION, some(&user, four)),
    ];
    let labels = [
        "test 5:\n1:1",
        "test 6:\nM:N, all CPUs",
        "test 7:\nthe same, shared mutexes",
        "beside:\nM:N, one LWP",
    ];
    let can_use = f64::from(cpus().min(GAMES));
    let exhibit = Exhibit {
        id: "p1-four-games",
        title: "Four games (tests 5 to 7)".into(),
        claim: "1:1 threads scale to eight CPUs without effort, while M:N threads that share LWPs are fifty times slower: the library's one lock and \
                pairs torn apart cost more than all that user-level switching saves.",
        then: Then::Table(
            &["test", "ms for a million iterations of all four games"],
            &[
                &["5: 1:1, eight CPUs", "6,901"],
                &["6: M:N, concurrency 8", "350,930"],
                &["7: as 6, with mutexes declared shared between processes", "75,792"],
                &["beside: one LWP, by the author's estimate", "at most 100,000"],
            ],
        ),
        here: format!(
            "Four games at once on {} CPUs, each threads' library with its defaults; kernel threads are placed by the kernel.",
            cpus()
        ),
        quantity: "time, ns an iteration of all four games",
        over: "test",
        columns: labels.iter().enumerate().map(|(number, &label)| Column::of(number, label)).collect(),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "with several games, M:N on all CPUs is far slower than 1:1",
                ratio: "time of M:N by that of 1:1",
                bound: Bound::AtLeast(2.0),
                checks: vec![
                    Check::ours("M:N by 1:1", at("mxn", 1), at("onetoone", 0)),
                    Check::other("may by parking_lot", at("may", 1), at("parking_lot", 0)),
                    Check::other("tokio by pthread", at("tokio", 1), at("pthread", 0)),
                ],
            },
            Claim {
                whose: Whose::Paper,
                words: "mutexes that are declared shared, and so always go to the kernel, help M:N",
                ratio: "time with shared mutexes by time with private ones",
                bound: Bound::AtMost(0.8),
                checks: vec![Check::ours("M:N", at("mxn, shared", 2), at("mxn", 1))],
            },
            Claim {
                whose: Whose::Paper,
                words: "one LWP alone would have served M:N better",
                ratio: "time on one LWP by time on all",
                bound: Bound::AtMost(1.0),
                checks: vec![
                    Check::ours("M:N", at("mxn, 1 slot", 3), at("mxn", 1)),
                    Check::other("may", at("may, 1 worker", 3), at("may", 1)),
                    Check::other("tokio", at("tokio, current thread", 3), at("tokio", 1)),
                ],
            },
            Claim {
                whose: Whose::Ours,
                words: "M:N games scale with the CPUs",
                ratio: "time on one LWP by time on all",
                bound: Bound::AtLeast(0.8 * can_use),
                checks: vec![Check::ours("M:N", at("mxn, 1 slot", 3), at("mxn", 1))],
            },
        ],
    };
    Experiment::new(Paper::Harman, "four-games", size, questions, vec![exhibit])
}

fn thousands(size: Size) -> Experiment {
    let (games, moves) = size.pick((50, 5), (500, 20), (5_000, 100));
    let many = Games::many(games);
    let names = ["mxn", "mxn, 1 slot", "onetoone", "std", "parking_lot", "pthread", "may", "tokio"];
    fn ask(name: &str, names: &[&str], workload: impl Workload, operations: u64) -> Question {
        Question::new(name, Unit::MillisInAll, some(names, workload)).fixed(operations)
    }
    let questions = vec![
        ask("thousands of games, start", &names, Setup(many), 1),
        ask("thousands of games, play", &names, many, moves),
    ];
    let here = format!(
        "{games} games of {moves} iterations: {} threads with stacks of 32 KB. Test 10's trick, shared mutexes, is played with four games only.",
        crate::numbers::grouped(f64::from(2 * games))
    );
    let start = Exhibit {
        id: "p1-thousands-start",
        title: "Thousands of games: to start them (tests 8 to 10)".into(),
        claim: "Ten thousand kernel threads take a noticeable time to make, eight times that of M:N threads, but it is nothing to be ashamed of.",
        then: Then::Table(
            &["test", "ms to start 10,000 threads"],
            &[
                &["8: 1:1", "15,677"],
                &["9: M:N, one LWP", "1,973"],
                &["10: M:N, concurrency 8, shared mutexes", "25,180"],
            ],
        ),
        here: here.clone(),
        quantity: "time until all threads have started, ms",
        over: "",
        columns: vec![Column::of(0, "start")],
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "kernel threads take several times as long to make as M:N threads",
            ratio: "time of 1:1 by that of M:N on one LWP",
            bound: Bound::AtLeast(4.0),
            checks: vec![
                Check::ours("1:1 by M:N", at("onetoone", 0), at("mxn, 1 slot", 0)),
                Check::other("pthread by may", at("pthread", 0), at("may", 0)),
                Check::other("pthread by tokio", at("pthread", 0), at("tokio", 0)),
            ],
        }],
    };
    let play = Exhibit {
        id: "p1-thousands-play",
        title: "Thousands of games: to play them (tests 8 to 10)".into(),
        claim: "The kernel schedules ten thousand threads reasonably well; M:N should win here hands down, but on its one LWP it takes more than three times as long. (With eight and shared mutexes it takes a fifth less.)",
        then: Then::Table(
            &["test", "ms to play 5,000 games of 100 iterations"],
            &[
                &["8: 1:1", "12,308"],
                &["9: M:N, one LWP", "43,140"],
                &["10: M:N, concurrency 8, shared mutexes", "10,080"],
            ],
        ),
        here,
        quantity: "time to play all games, ms",
        over: "",
        columns: vec![Column::of(1, "play")],
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "kernel threads play thousands of games faster than M:N threads on one LWP",
                ratio: "time of 1:1 by that of M:N",
                bound: Bound::AtMost(1.0),
                checks: vec![Check::ours("1:1 by M:N", at("onetoone", 1), at("mxn, 1 slot", 1))],
            },
            Claim {
                whose: Whose::Question,
                words: "kernel threads play thousands of games faster than M:N threads on all LWPs",
                ratio: "time of 1:1 by that of M:N",
                bound: Bound::AtMost(1.0),
                checks: vec![
                    Check::ours("1:1 by M:N", at("onetoone", 1), at("mxn", 1)),
                    Check::other("pthread by may", at("pthread", 1), at("may", 1)),
                    Check::other("parking_lot by tokio", at("parking_lot", 1), at("tokio", 1)),
                ],
            },
        ],
    };
    // In full, a sample of pthread or std takes half a minute.
    let rounds = size.rounds().min(3);
    Experiment::new(Paper::Harman, "thousands", size, questions, vec![start, play]).rounds(rounds)
}
