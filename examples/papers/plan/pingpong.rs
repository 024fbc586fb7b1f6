//! P1: Ping-Pong, after the tests of appendix C.

mod cpu_time;

use std::time::Duration;

use super::{Experiment, cpus, on_one_cpu};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::numbers::grouped;
use crate::options::Size;
use crate::support::contender::{KERNEL, called, some, some_threads};
use crate::support::harness::{Case, Question, Unit};
use crate::support::library::Attributes;
use crate::support::ours::allow_all_lwps;
use crate::support::workloads::pingpong::{Games, Setup, SharedGames, SplitPair};
use crate::verdict::{Bound, Check, Claim, Whose, at, by};

const ITERATION: Unit = Unit::NanosEach("an iteration");

/// The iterations of the first run between kernel threads. Beside other programs, one may take as long as a
/// time slice; where all is well, more runs follow.
const FIRST: u64 = 100;

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![one_game(size), four_games(size), thousands(size)]
}

/// M:N threads with mutexes that processes can share: the time to start their games, or to play them.
fn shared(games: Games, time: fn((Duration, Duration)) -> Duration) -> Case {
    called("mxn, shared", "mxn", SharedGames { games, time })
}

/// The figures of each question of the few games: the time, and the CPU time.
const EACH: usize = 4;

/// The point of the time in this question.
fn test(number: usize) -> usize {
    EACH * number
}

fn with_cpu_time(questions: Vec<Question>) -> Vec<Question> {
    questions.into_iter().map(Question::with_cpu_time).collect()
}

fn one_game(size: Size) -> Experiment {
    let split = if cpus() > 1 { some_threads(&KERNEL, SplitPair) } else { Vec::new() };
    let user = ["mxn, 1 slot", "may, 1 worker", "tokio, current thread"];
    let attributes = Attributes { stack_size: None, bound: true };
    let bound = called("mxn, bound", "mxn", Games { games: 1, attributes });
    let questions = vec![
        Question::new("one game, kernel threads on two CPUs", ITERATION, split).first(FIRST),
        Question::new("one game, one worker", ITERATION, some(&user, Games::few(1))),
        Question::new("one game, all workers", ITERATION, some(&["mxn", "may", "tokio"], Games::few(1))),
        Question::new("one game, kernel threads on one CPU", ITERATION, some(&KERNEL, Games::few(1)))
            .first(FIRST)
            .prepare(on_one_cpu),
        Question::new("one game, bound threads on one CPU", ITERATION, vec![bound])
            .first(FIRST)
            .prepare(on_one_cpu),
    ];
    let questions = with_cpu_time(questions);
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
        claim: "Two 1:1 threads that spin for each other on two CPUs move twice as fast as M:N threads that \
                switch in user space, and even through the kernel on one CPU they are only three times \
                slower, so there is little to be gained by user-level scheduling.",
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
        here: "The same game over four mutexes, by the iteration (each player moves once, so there are two \
               hand-offs in it). 1:1 pairs depend on where the kernel puts them, so they are kept where the \
               test wants them by affinity."
            .into(),
        quantity: "time, ns an iteration",
        over: "test",
        columns: labels.iter().enumerate().map(|(number, &label)| Column::of(test(number), label)).collect(),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "a switch in user space takes longer than spinning on two CPUs",
                ratio: "time of M:N on one LWP by that of 1:1 on two CPUs",
                bound: Bound::AtLeast(1.0),
                checks: by(
                    [
                        ("mxn, 1 slot", "onetoone"),
                        ("may, 1 worker", "parking_lot"),
                        ("tokio, current thread", "parking_lot"),
                    ],
                    test(1),
                    test(0),
                ),
            },
            Claim {
                whose: Whose::Paper,
                words: "a switch through the kernel takes only about three times as long as one in user \
                        space",
                ratio: "time of 1:1 on one CPU by that of M:N on one LWP",
                bound: Bound::AtMost(4.0),
                checks: by(
                    [
                        ("onetoone", "mxn, 1 slot"),
                        ("pthread", "may, 1 worker"),
                        ("parking_lot", "tokio, current thread"),
                    ],
                    test(3),
                    test(1),
                ),
            },
            Claim {
                whose: Whose::Paper,
                words: "more LWPs make one M:N game several times slower",
                ratio: "time on all LWPs by time on one",
                bound: Bound::AtLeast(2.0),
                checks: by(
                    [("mxn", "mxn, 1 slot"), ("may", "may, 1 worker"), ("tokio", "tokio, current thread")],
                    test(2),
                    test(1),
                ),
            },
            Claim {
                whose: Whose::Paper,
                words: "threads of the 1:1 library hand over faster than bound threads of the M:N one",
                ratio: "time of 1:1 by that of bound threads, both on one CPU",
                bound: Bound::AtMost(0.95),
                checks: vec![Check::ours("1:1 by bound", at("onetoone", test(3)), at("mxn, bound", test(4)))],
            },
        ],
    };
    Experiment::new(Paper::Harman, "one-game", size, questions, vec![exhibit, cpu_time::one_game(&labels)])
}

fn four_games(size: Size) -> Experiment {
    const GAMES: u32 = 4;
    let user = ["mxn, 1 slot", "may, 1 worker", "tokio, current thread"];
    let four = Games::few(GAMES);
    let questions = vec![
        Question::new("four games, kernel threads", ITERATION, some(&KERNEL, four)).first(FIRST),
        Question::new("four games, all workers", ITERATION, some(&["mxn", "may", "tokio"], four)),
        Question::new("four games, shared mutexes", ITERATION, vec![shared(four, |(_, play)| play)])
            .first(FIRST),
        Question::new("four games, one worker", ITERATION, some(&user, four)),
    ];
    let questions = with_cpu_time(questions);
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
        claim: "1:1 threads scale to eight CPUs without effort, while M:N threads that share LWPs are fifty \
                times slower: the library's one lock and pairs torn apart cost more than all that user-level \
                switching saves.",
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
            "Four games at once on {} CPUs, each threads' library with its defaults; kernel threads are \
             placed by the kernel.",
            cpus()
        ),
        quantity: "time, ns an iteration of all four games",
        over: "test",
        columns: labels.iter().enumerate().map(|(number, &label)| Column::of(test(number), label)).collect(),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "with several games, M:N on all CPUs is far slower than 1:1",
                ratio: "time of M:N by that of 1:1",
                bound: Bound::AtLeast(2.0),
                checks: by(
                    [("mxn", "onetoone"), ("may", "parking_lot"), ("tokio", "pthread")],
                    test(1),
                    test(0),
                ),
            },
            Claim {
                whose: Whose::Paper,
                words: "mutexes that are declared shared, and so always go to the kernel, help M:N",
                ratio: "time with shared mutexes by time with private ones",
                bound: Bound::AtMost(0.8),
                checks: by([("mxn, shared", "mxn")], test(2), test(1)),
            },
            Claim {
                whose: Whose::Paper,
                words: "one LWP alone would have served M:N better",
                ratio: "time on one LWP by time on all",
                bound: Bound::AtMost(1.0),
                checks: by(
                    [("mxn, 1 slot", "mxn"), ("may, 1 worker", "may"), ("tokio, current thread", "tokio")],
                    test(3),
                    test(1),
                ),
            },
            Claim {
                whose: Whose::Ours,
                words: "M:N games scale with the CPUs",
                ratio: "time on one LWP by time on all",
                bound: Bound::AtLeast(0.8 * can_use),
                checks: by([("mxn, 1 slot", "mxn")], test(3), test(1)),
            },
        ],
    };
    Experiment::new(
        Paper::Harman,
        "four-games",
        size,
        questions,
        vec![exhibit, cpu_time::four_games(&labels)],
    )
    .for_the_front(size)
}

/// M:N has 2,047 LWPs at most, and each thread that waits for a shared mutex takes one along. They are made
/// one after the other, so a short run has fewer games.
fn games_with_shared_mutexes(size: Size) -> u32 {
    size.pick(50, 250, 1_000)
}

fn thousands(size: Size) -> Experiment {
    let (games, moves) = size.pick((50, 5), (500, 10), (5_000, 100));
    let (many, fewer) = (Games::many(games), Games::many(games_with_shared_mutexes(size)));
    let names = ["mxn", "mxn, 1 slot", "onetoone", "std", "parking_lot", "pthread", "may", "tokio"];
    let beside = ["mxn", "onetoone", "pthread"];
    let ask = |name: &str, cases, moves| Question::new(name, Unit::MillisInAll, cases).fixed(moves);
    let test_10 = |name, mut cases: Vec<Case>, time, moves| {
        cases.push(shared(fewer, time));
        ask(name, cases, moves).prepare(allow_all_lwps)
    };
    let questions = vec![
        ask("thousands of games, start", some(&names, Setup(many)), 1),
        ask("thousands of games, play", some(&names, many), moves),
        test_10("shared mutexes, start", some(&beside, Setup(fewer)), |(start, _)| start, 1),
        test_10("shared mutexes, play", some(&beside, fewer), |(_, play)| play, moves),
    ];
    let columns = |first: usize| {
        let labels = [("tests 8 and 9", many.games), ("test 10, also with shared mutexes", fewer.games)];
        let column = |(number, (test, games))| {
            Column::of(first + 2 * number, format!("{test}:\n{} games", grouped(f64::from(games))))
        };
        labels.into_iter().enumerate().map(column).collect::<Vec<_>>()
    };
    let here = format!(
        "{} games of {moves} iterations: {} threads with stacks of 32 KB. Test 10 is played with {}, since a \
         thread that waits for a shared mutex takes its LWP along, of which there can be 2,047; and beside \
         it the same games with private ones.",
        grouped(f64::from(games)),
        grouped(f64::from(2 * games)),
        grouped(f64::from(fewer.games)),
    );
    let start = Exhibit {
        id: "p1-thousands-start",
        title: "Thousands of games: to start them (tests 8 to 10)".into(),
        claim: "Ten thousand kernel threads take a noticeable time to make, eight times that of M:N threads, \
                but it is nothing to be ashamed of.",
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
        columns: columns(0),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "kernel threads take several times as long to make as M:N threads",
                ratio: "time of 1:1 by that of M:N on one LWP",
                bound: Bound::AtLeast(4.0),
                checks: by([("onetoone", "mxn, 1 slot"), ("pthread", "may"), ("pthread", "tokio")], 0, 0),
            },
            Claim {
                whose: Whose::Paper,
                words: "M:N threads that meet at shared mutexes take longer to make than kernel threads",
                ratio: "time of M:N with shared mutexes by that of 1:1",
                bound: Bound::AtLeast(1.0),
                checks: by([("mxn, shared", "onetoone")], 2, 2),
            },
        ],
    };
    let play = Exhibit {
        id: "p1-thousands-play",
        title: "Thousands of games: to play them (tests 8 to 10)".into(),
        claim: "The kernel schedules ten thousand threads reasonably well; M:N should win here hands down, \
                but on its one LWP it takes more than three times as long. (With eight and shared mutexes it \
                takes a fifth less.)",
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
        columns: columns(1),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "kernel threads play thousands of games faster than M:N threads on one LWP",
                ratio: "time of 1:1 by that of M:N",
                bound: Bound::AtMost(1.0),
                checks: by([("onetoone", "mxn, 1 slot")], 1, 1),
            },
            Claim {
                whose: Whose::Paper,
                words: "on all LWPs and with shared mutexes, M:N threads play them faster than kernel \
                        threads",
                ratio: "time of M:N with shared mutexes by that of 1:1",
                bound: Bound::AtMost(1.0),
                checks: by([("mxn, shared", "onetoone")], 3, 3),
            },
            Claim {
                whose: Whose::Question,
                words: "kernel threads play thousands of games faster than M:N threads on all LWPs",
                ratio: "time of 1:1 by that of M:N",
                bound: Bound::AtMost(1.0),
                checks: by([("onetoone", "mxn"), ("pthread", "may"), ("parking_lot", "tokio")], 1, 1),
            },
        ],
    };
    // In full, a sample of pthread or std takes half a minute.
    let rounds = size.rounds().min(3);
    Experiment::new(Paper::Harman, "thousands", size, questions, vec![start, play]).rounds(rounds)
}
