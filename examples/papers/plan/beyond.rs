//! P6: what a program pays for all the time: to switch, to lock, to wait and to be woken, to pass a message.

use super::{Experiment, cpus, on_one_cpu};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::options::Size;
use crate::support::contender::{KERNEL, some, some_threads};
use crate::support::harness::{Case, Question, Unit};
use crate::support::workloads::channel::Traffic;
use crate::support::workloads::condvar::{self, RoundTrip};
use crate::support::workloads::lock::LockUnlock;
use crate::support::workloads::park;
use crate::support::workloads::switch::Yield;
use crate::verdict::{Bound, Check, Claim, Whose, at, by};

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![switch(size), lock(size), wake(size), channel(size)]
}

pub(super) const NEW: Then = Then::Words("None of the papers has it.");

fn switch(size: Size) -> Experiment {
    let names = ["mxn, 1 slot", "onetoone", "std", "pthread", "may, 1 worker", "tokio, current thread"];
    let question = Question::new("switch", Unit::NanosEach("a yield"), some(&names, Yield));
    let exhibit = Exhibit {
        id: "p6-switch",
        title: "What a switch costs".into(),
        claim: "Cantrill quotes the literature on synchronization and on creation: by way of the kernel each \
                is three to ten times as costly. We ask whether a switch is too.",
        then: Then::Words(
            "Three to ten times, for synchronization and for creation (Cantrill, citing \
                           others).",
        ),
        here: "Two threads on one CPU yield to each other. The same figures are shown as cycles of the \
               processor's time stamp counter, which ticks at its nominal rate, as said at the top."
            .into(),
        quantity: "a switch, ns and cycles",
        over: "unit",
        columns: std::iter::once(Column::of(0, "ns")).chain(Column::in_ticks(0, "cycles")).collect(),
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Question,
            words: "a switch by way of the kernel takes three to ten times as long as one in user space",
            ratio: "time of kernel threads by that of user-level ones",
            bound: Bound::Within(3.0, 10.0),
            checks: by(
                [
                    ("onetoone", "mxn, 1 slot"),
                    ("pthread", "may, 1 worker"),
                    ("pthread", "tokio, current thread"),
                ],
                0,
                0,
            ),
        }],
    };
    let questions = vec![question.per_operation(2).prepare(on_one_cpu)];
    Experiment::new(Paper::Beyond, "switch", size, questions, vec![exhibit])
}

fn lock(size: Size) -> Experiment {
    let names = ["mxn", "onetoone", "std", "parking_lot", "pthread", "may", "tokio, current thread"];
    let question = Question::new("uncontended lock", Unit::NanosEach("a pair"), some(&names, LockUnlock));
    let exhibit = Exhibit {
        id: "p6-lock",
        title: "What a lock costs without contention".into(),
        claim: "A lock that serves both models should cost no more than one that serves kernel threads \
                alone.",
        then: NEW,
        here: "One thread locks and unlocks.".into(),
        quantity: "time, ns a lock and unlock",
        over: "",
        columns: vec![Column::of(0, "lock")],
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Ours,
            words: "an uncontended lock costs no more than std's and parking_lot's",
            ratio: "time of Selvedge by that of the peer",
            bound: Bound::AtMost(1.1),
            checks: by(
                [("mxn", "std"), ("mxn", "parking_lot"), ("onetoone", "std"), ("onetoone", "parking_lot")],
                0,
                0,
            ),
        }],
    };
    Experiment::new(Paper::Beyond, "lock", size, vec![question.first(100_000)], vec![exhibit])
}

fn wake(size: Size) -> Experiment {
    let user = ["mxn", "may", "tokio"];
    let permits = ["onetoone", "std", "pthread"];
    let trip = Unit::NanosEach("a round trip");
    let one = park::RoundTrip::of(1);
    let split = |cases: Vec<Case>| if cpus() > 1 { cases } else { Vec::new() };
    let questions = vec![
        Question::new("condvar, user level", trip, some(&user, RoundTrip)),
        Question::new("condvar, one CPU", trip, some_threads(&KERNEL, RoundTrip)).prepare(on_one_cpu),
        Question::new("condvar, two CPUs", trip, split(some_threads(&KERNEL, condvar::SplitRoundTrip))),
        Question::new("park, user level", trip, some(&user, one)),
        Question::new("park, one CPU", trip, some_threads(&permits, one)).prepare(on_one_cpu),
        Question::new("park, two CPUs", trip, split(some_threads(&permits, park::SplitRoundTrip))),
    ];
    let columns = |first: usize| {
        let labels = ["M:N, all CPUs", "1:1, one CPU", "1:1, two CPUs"];
        labels
            .iter()
            .enumerate()
            .map(|(number, &label)| Column::of(first + number, label))
            .collect::<Vec<_>>()
    };
    let exhibit =
        |id, title: &str, how: &str, first: usize, peer: &'static str, who: [&'static str; 2]| Exhibit {
            id,
            title: title.into(),
            claim: "Waking a thread, and being woken by it, is what the models differ by most: in user space \
                    it is a matter of the scheduler, through the kernel one of where it puts the two \
                    threads.",
            then: NEW,
            here: format!(
                "Two threads wake each other in turn, {how}. Kernel threads are kept on one CPU, or on two."
            ),
            quantity: "time, ns there and back",
            over: "placement",
            columns: columns(first),
            chart: Chart::Bars,
            claims: vec![
                Claim {
                    whose: Whose::Ours,
                    words: "on one CPU and on two, 1:1 wakes faster than its peer",
                    ratio: "time of 1:1 by that of the peer",
                    bound: Bound::AtMost(1.0),
                    checks: vec![
                        Check::ours(who[0], at("onetoone", first + 1), at(peer, first + 1)),
                        Check::ours(who[1], at("onetoone", first + 2), at(peer, first + 2)),
                    ],
                },
                Claim {
                    whose: Whose::Ours,
                    words: "M:N wakes in less than a third of the time of may's coroutines",
                    ratio: "time of M:N by that of may",
                    bound: Bound::AtMost(0.33),
                    checks: by([("mxn", "may")], first, first),
                },
            ],
        };
    let exhibits = vec![
        exhibit(
            "p6-condvar",
            "A round trip by condition variable",
            "with one mutex and one condition variable",
            0,
            "parking_lot",
            ["1:1 by parking_lot, one CPU", "1:1 by parking_lot, two CPUs"],
        ),
        exhibit(
            "p6-park",
            "A round trip by park and unpark",
            "by name",
            3,
            "std",
            ["1:1 by std, one CPU", "1:1 by std, two CPUs"],
        ),
    ];
    Experiment::new(Paper::Beyond, "wake", size, questions, exhibits)
}

fn channel(size: Size) -> Experiment {
    let kinds = [("rendezvous", Some(0)), ("bounded 64", Some(64)), ("unbounded", None)];
    let ask = |(kind, capacity): (&str, Option<usize>)| {
        let names = ["mxn", "onetoone", "crossbeam-channel", "flume", "std mpsc", "may", "tokio"];
        let cases = Traffic { capacity, senders: 1, receivers: 1 }.cases();
        let cases = cases.into_iter().filter(|case| names.contains(&case.name)).collect();
        Question::new(format!("channel, {kind}"), Unit::NanosEach("a message"), cases)
    };
    let columns = kinds.iter().enumerate().map(|(number, (kind, _))| Column::of(number, *kind));
    let exhibit = Exhibit {
        id: "p6-channel",
        title: "Channels".into(),
        claim: "Passing a message should not cost more than the best of the crates that do only that.",
        then: NEW,
        here: "One sender, one receiver, a message of one word; kernel threads are placed by the kernel. \
               Peers that lack a kind are not asked."
            .into(),
        quantity: "time, ns a message",
        over: "kind of channel",
        columns: columns.collect(),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Ours,
                words: "on kernel threads a message takes no more than a tenth longer than through \
                    crossbeam-channel",
                ratio: "time of 1:1 by that of crossbeam-channel on std's threads",
                bound: Bound::AtMost(1.1),
                checks: vec![
                    Check::ours("rendezvous", at("onetoone", 0), at("crossbeam-channel", 0)),
                    Check::ours("bounded", at("onetoone", 1), at("crossbeam-channel", 1)),
                    Check::ours("unbounded", at("onetoone", 2), at("crossbeam-channel", 2)),
                ],
            },
            Claim {
                whose: Whose::Ours,
                words: "M:N threads pass messages faster than tasks and coroutines do",
                ratio: "time of M:N by that of the peer",
                bound: Bound::AtMost(1.0),
                checks: vec![
                    Check::ours("bounded, by tokio", at("mxn", 1), at("tokio", 1)),
                    Check::ours("unbounded, by tokio", at("mxn", 2), at("tokio", 2)),
                    Check::ours("unbounded, by may", at("mxn", 2), at("may", 2)),
                ],
            },
        ],
    };
    Experiment::new(Paper::Beyond, "channel", size, kinds.map(ask).into(), vec![exhibit])
}
