//! P3: creation of threads and contention for locks, after figures 1 to 3 of the NPTL paper.

use super::Experiment;
use crate::exhibit::{Chart, Column, Exhibit, Paper, Scale, Then};
use crate::options::Size;
use crate::support::contender::some;
use crate::support::harness::{Question, Unit};
use crate::support::workloads::contention::Contention;
use crate::support::workloads::crowd::Crowd;
use crate::support::workloads::spawn::Spawn;
use crate::verdict::{Bound, Check, Claim, Whose, best, by};

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![creation(size), crowd(size), contention(size)]
}

fn creation(size: Size) -> Experiment {
    let creators: &[u32] = size.pick(&[1, 4], &[1, 20], &[1, 2, 5, 10, 20]);
    let children: &[u32] = size.pick(&[1, 10], &[1, 10], &[1, 4, 10]);
    let names = ["mxn", "onetoone", "std", "pthread", "may", "tokio"];
    let mut questions = Vec::new();
    for &creators in creators {
        for &at_a_time in children {
            let name = format!("creation, {creators} creators, {at_a_time} at a time");
            let cases = some(&names, Spawn { creators, at_a_time });
            let question = Question::new(name, Unit::NanosEach("a thread"), cases);
            questions.push(question.first(20).per_operation(u64::from(creators) * u64::from(at_a_time)));
        }
    }
    let (rows, width) = (creators.len(), children.len());
    let row = move |number: usize| (number * width..(number + 1) * width).collect::<Vec<usize>>();
    let column = move |number: usize| (0..rows).map(|row| row * width + number).collect::<Vec<usize>>();
    let flattened = |values: &[u32], points: &dyn Fn(usize) -> Vec<usize>| -> Vec<Column> {
        let columns = Column::each(0, values).into_iter().enumerate();
        columns.map(|(number, column)| Column { points: points(number), ..column }).collect()
    };
    let everywhere = 0..rows * width;
    let everyone = ["mxn", "onetoone", "std", "pthread", "may", "tokio"];
    let here = |of: &str, by: &str| {
        format!(
            "Creators have so many children at a time, which do nothing, and wait for the oldest before they \
             create the next; by the thread, the least over the numbers of {of} ({by}), as the paper \
             flattens its table. A time of 20,000 ns is 2 s for the paper's 100,000."
        )
    };
    let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let by_creators = Exhibit {
        id: "p3-figure-1",
        title: "Figure 1: creation, by the number of top-level threads".into(),
        claim: "A 1:1 library can make threads cheaply: NPTL makes them faster than the M:N library NGPT, \
                which is twice as fast as LinuxThreads.",
        then: Then::Words(
            "100,000 creations by 1 to 20 top-level threads. The figure is a drawing; the text says that \
             NGPT is twice as fast as LinuxThreads, and that the difference to NPTL is \"a factor of four\". \
             It does not say what is compared. If it is LinuxThreads with NPTL, NPTL is four times as fast \
             as LinuxThreads and twice as fast as NGPT. If it is NGPT with NPTL, NPTL is four times as fast \
             as NGPT and eight times as fast as LinuxThreads. By both readings 1:1 is the faster one.",
        ),
        here: here("children", &list(children)),
        quantity: "time, ns a thread",
        over: "top-level threads",
        columns: flattened(creators, &row),
        chart: Chart::Lines { x: Scale::Linear, y: Scale::Log },
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "a 1:1 library makes threads faster than an M:N one",
            ratio: "time of 1:1 by that of M:N, each at its best",
            bound: Bound::AtMost(1.0),
            checks: vec![
                Check::ours(
                    "1:1 by M:N",
                    best("onetoone", everywhere.clone()),
                    best("mxn", everywhere.clone()),
                ),
                Check::other(
                    "pthread by may",
                    best("pthread", everywhere.clone()),
                    best("may", everywhere.clone()),
                ),
                Check::other(
                    "pthread by tokio",
                    best("pthread", everywhere.clone()),
                    best("tokio", everywhere),
                ),
            ],
        }],
    };
    let crowded = |name: &'static str| {
        let (of, to) = (best(name, row(rows - 1)), best(name, row(0)));
        match name {
            "mxn" => Check::ours("M:N", of, to),
            "onetoone" => Check::ours("1:1", of, to),
            _ => Check::other(name, of, to),
        }
    };
    let by_children = Exhibit {
        id: "p3-figure-2",
        title: "Figure 2: creation, by the number of concurrent children".into(),
        claim: "When too many threads make threads at once, every implementation suffers, some more and some \
                less.",
        then: Then::Words("A drawing without numbers; all three libraries get slower towards many threads."),
        here: here("top-level threads", &list(creators)),
        quantity: "time, ns a thread",
        over: "children of each top-level thread at a time",
        columns: flattened(children, &column),
        chart: Chart::Lines { x: Scale::Linear, y: Scale::Log },
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "creation suffers when many threads create at once",
            ratio: "time with the most creators by that with one, each at its best",
            bound: Bound::AtLeast(1.2),
            checks: everyone.map(crowded).to_vec(),
        }],
    };
    let exhibits = vec![by_creators, by_children];
    Experiment::new(Paper::Nptl, "creation", size, questions, exhibits).for_the_front(size)
}

fn crowd(size: Size) -> Experiment {
    let crowds: &[u32] = size.pick(&[100], &[100, 3_000], &[100, 1_000, 10_000, 100_000]);
    let names = ["mxn", "onetoone", "std", "pthread", "may", "tokio"];
    // So many kernel threads at once take more of a machine than a measurement may.
    let modest = ["mxn", "tokio"];
    let ask = |&threads: &u32| {
        let names: &[&str] = if threads > 10_000 { &modest } else { &names };
        let name = format!("{threads} threads at once");
        let question = Question::new(name, Unit::NanosEach("a thread"), some(names, Crowd));
        question.fixed(u64::from(threads))
    };
    let most = crowds.iter().rposition(|&threads| threads <= 10_000).expect("there are small ones");
    let exhibit = Exhibit {
        id: "p3-crowd",
        title: "Starting and stopping 100,000 threads (text)".into(),
        claim: "With work in the kernel, 1:1 copes with masses of threads: to start and stop 100,000 of them \
                takes two seconds, where it took fifteen minutes.",
        then: Then::Table(
            &["", "100,000 threads", "ns a thread"],
            &[&["LinuxThreads", "15 minutes", "9,000,000"], &["NPTL", "2 s", "20,000"]],
        ),
        here: "So many threads are started, wait at one gate until all exist, and are let go and joined. No \
               more than 10,000 where each is a kernel thread, which leaves the machine usable."
            .into(),
        quantity: "time, ns a thread",
        over: "threads that exist at once",
        columns: Column::each(0, crowds),
        chart: Chart::Lines { x: Scale::Log, y: Scale::Log },
        claims: vec![Claim {
            // The paper compares with LinuxThreads only.
            whose: Whose::Question,
            words: "masses of threads take 1:1 at most twice as long as M:N",
            ratio: "time of 1:1 by that of M:N",
            bound: Bound::AtMost(2.0),
            checks: by([("onetoone", "mxn"), ("pthread", "may"), ("pthread", "tokio")], most, most),
        }],
    };
    let questions = crowds.iter().map(ask).collect();
    Experiment::new(Paper::Nptl, "crowd", size, questions, vec![exhibit])
}

fn contention(size: Size) -> Experiment {
    const THREADS: u32 = 32;
    /// Of all threads together.
    const PAPER_ENTRIES: f64 = 50_000.0;
    let regions: &[u32] = size.pick(&[1, 32], &[1, 4, 32], &[1, 2, 4, 8, 16, 32]);
    let entries = size.pick(100, 20_000, 50_000);
    let names = ["mxn", "onetoone", "std", "parking_lot", "pthread", "may", "tokio"];
    let ask = |&regions: &u32| {
        let cases = some(&names, Contention { threads: THREADS, regions });
        Question::new(format!("contention, {regions} regions"), Unit::MillisInAll, cases).fixed(entries)
    };
    let last = regions.len() - 1;
    let exhibit = Exhibit {
        id: "p3-figure-3",
        title: "Figure 3: contention".into(),
        claim: "The fewer critical regions 32 threads share, the longer they take, and with futexes a 1:1 \
                library deals with that far better than before.",
        then: Then::Words(
            "32 threads, 50,000 entries in total, averages of six runs with large variations. A drawing \
             without numbers, in which NPTL's times are significantly lower than those of LinuxThreads and \
             fall as regions are added.",
        ),
        here: format!(
            "{THREADS} threads enter {} critical regions each, chosen at random out of so many: {} entries, \
             {} times the paper's 50,000.",
            crate::numbers::grouped(entries as f64),
            crate::numbers::grouped(entries as f64 * f64::from(THREADS)),
            entries as f64 * f64::from(THREADS) / PAPER_ENTRIES,
        ),
        quantity: "time, ms",
        over: "critical regions",
        columns: Column::each(0, regions),
        chart: Chart::Lines { x: Scale::Log, y: Scale::Log },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "one region for all takes longer than one for each",
                ratio: "time with 1 region by time with 32",
                bound: Bound::AtLeast(1.1),
                checks: by(names.map(|name| (name, name)), 0, last),
            },
            Claim {
                // The paper compares with LinuxThreads only.
                whose: Whose::Question,
                words: "contended locks take 1:1 hardly longer than M:N",
                ratio: "time of 1:1 by that of M:N, one region",
                bound: Bound::AtMost(1.2),
                checks: by([("onetoone", "mxn"), ("parking_lot", "may"), ("pthread", "tokio")], 0, 0),
            },
        ],
    };
    let questions = regions.iter().map(ask).collect();
    Experiment::new(Paper::Nptl, "contention", size, questions, vec![exhibit])
}
