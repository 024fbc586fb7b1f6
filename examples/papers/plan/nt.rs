//! P4: bound, unbound and NT's threads, after the tables of the comparison.

use super::{Experiment, cpus};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Scale, Then};
use crate::options::Size;
use crate::support::contender::{called, pick, some, some_threads};
use crate::support::harness::{Case, Question, Unit};
use crate::support::workloads::nt_solaris::{
    Bursty, Computing, Creation, Locks, Most, Search, bound, elapsed, shared_locks,
};
use crate::verdict::{Bound, Check, Claim, Pick, Whose, at, by};

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![most(size), creation(size), computing(size), locks(size), search(size), bursts(size)]
}

const TABLES: Then = Then::Words("The tables are not reproduced here; see the paper.");

/// The number of kernel threads that NT gave a process.
const NT_MOST: f64 = 9_817.0;

/// More than any limit lets, but where memory is counted in hundreds of gigabytes.
const NO_END: u64 = 10_000_000;

fn most(size: Size) -> Experiment {
    let enough = size.pick(100, 11_000, NO_END);
    let mut cases = some_threads(&["mxn", "onetoone", "pthread"], Most::UNBOUND);
    cases.insert(1, called("mxn, bound", "mxn", Most::BOUND));
    let question = Question::new("as many threads as can be", Unit::Number("threads"), cases);
    let question = question.fixed(enough).further(Most::FURTHER);
    let until = match size {
        Size::Full => "Threads are made, and wait, until the system refuses one more".to_owned(),
        _ => format!(
            "In this short run threads are made, and wait, until there are {}; a full one goes on until the \
             system refuses one more",
            crate::numbers::grouped(enough as f64)
        ),
    };
    let mut claims = vec![Claim {
        whose: Whose::Paper,
        words: "a process can have no more threads than NT gave it",
        ratio: "threads by NT's 9,817",
        bound: Bound::AtMost(1.0),
        checks: vec![
            Check::ours("M:N", at("mxn", 0), Pick::Given(NT_MOST)),
            Check::ours("M:N's bound threads", at("mxn, bound", 0), Pick::Given(NT_MOST)),
            Check::ours("1:1", at("onetoone", 0), Pick::Given(NT_MOST)),
            Check::other("pthread", at("pthread", 0), Pick::Given(NT_MOST)),
        ],
    }];
    // A short run stops all at the same number.
    if size == Size::Full {
        claims.push(Claim {
            whose: Whose::Ours,
            words: "where kernel threads end, M:N threads have hardly begun",
            ratio: "M:N threads by kernel threads",
            bound: Bound::AtLeast(10.0),
            checks: by([("mxn", "onetoone"), ("mxn", "pthread")], 0, 0),
        });
    }
    let exhibit = Exhibit {
        id: "p4-table-1",
        title: "Table 1: the most threads that can exist".into(),
        claim: "A process can have only so many kernel threads: Windows NT stopped at 9,817, and Solaris \
                refused the 2,295th bound thread.",
        then: Then::Table(
            &["system", "threads", "memory then"],
            &[&["Windows NT", "9,817", "68 MB"], &["Solaris, bound", "2,294", "19 MB"]],
        ),
        here: format!(
            "{until}. Other processes keep 500 kernel threads of each limit that they share, and half of the \
             memory that was to be had. Memory is what the process has touched, with its page tables; the \
             stacks that the kernel has for its threads come on top, and are counted for the whole machine."
        ),
        quantity: "as each column says",
        over: "",
        columns: vec![
            Column::of(0, "threads that existed at once"),
            Column::of(1, "time to make them, ms"),
            Column::of(2, "time, µs a thread"),
            Column::of(3, "memory, MB"),
            Column::of(4, "memory, KiB a thread"),
            Column::of(5, "stacks in the kernel, KiB a thread"),
        ],
        chart: Chart::Bars,
        claims,
    };
    // A million threads touch gigabytes.
    let experiment = Experiment::new(Paper::Nt, "most", size, vec![question], vec![exhibit]);
    // Up to a given number, it is the same number each time.
    experiment.rounds(size.pick(1, 1, 3)).patience(3 * size.patience())
}

fn creation(size: Size) -> Experiment {
    let busy = cpus();
    // may and tokio take part only where all threads yield.
    let all = ["mxn", "mxn, 1 slot", "onetoone", "std", "pthread", "may", "tokio"];
    let preemptive = ["mxn", "onetoone", "std", "pthread"];
    let threads = size.pick(20, 200, 1_000);
    let ask = |name: &str, cases| Question::new(name, Unit::NanosEach("a thread"), cases).fixed(threads);
    let with_bound = |mut cases: Vec<Case>, busy| {
        cases.push(bound(Creation { busy }));
        cases
    };
    let questions = vec![
        ask("creation, idle", with_bound(some(&all, Creation { busy: 0 }), 0)),
        ask("creation, loaded", with_bound(some(&preemptive, Creation { busy }), busy)),
    ];
    let exhibit = Exhibit {
        id: "p4-tables-2-3",
        title: "Tables 2 and 3: creation, on an idle and on a loaded machine".into(),
        claim: "Unbound threads are made faster than any that need a system call, with restricted \
                concurrency hardly slower than with none; and where other threads compute, making threads \
                takes long and becomes unpredictable.",
        then: Then::Words(
            "The tables are not reproduced here; see the paper. They are averages of 10 trials; with 128 \
             threads on a loaded machine NT's had a standard deviation of 18.77 s.",
        ),
        here: format!(
            "One thread makes {threads} that do nothing, and joins them: alone, and while {busy} threads of \
             the same runtime compute. Coroutines and tasks that compute never give their worker back, so \
             may and tokio cannot take part in the second."
        ),
        quantity: "time, ns a thread",
        over: "machine",
        columns: vec![Column::of(0, "idle"), Column::of(1, "loaded")],
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "unbound threads are made faster than kernel threads",
                ratio: "time of M:N by that of kernel threads, idle",
                bound: Bound::AtMost(1.0),
                checks: by([("mxn", "onetoone"), ("may", "pthread"), ("tokio", "pthread")], 0, 0),
            },
            Claim {
                whose: Whose::Paper,
                words: "with one LWP for each CPU, unbound threads are made hardly slower than with one in \
                        all",
                ratio: "time on all LWPs by time on one, idle",
                bound: Bound::AtMost(1.25),
                checks: by([("mxn", "mxn, 1 slot")], 0, 0),
            },
            Claim {
                whose: Whose::Paper,
                words: "creation takes longer while others compute",
                ratio: "time loaded by time idle",
                bound: Bound::AtLeast(1.5),
                checks: by(
                    [("mxn", "mxn"), ("onetoone", "onetoone"), ("std", "std"), ("pthread", "pthread")],
                    1,
                    0,
                ),
            },
        ],
    };
    Experiment::new(Paper::Nt, "nt-creation", size, questions, vec![exhibit])
}

fn computing(size: Size) -> Experiment {
    let threads: &[u32] = size.pick(&[1, 16], &[1, 4, 16, 128], &[1, 2, 4, 8, 16, 32, 64, 128]);
    let millis = size.pick(1, 1, 20);
    let names = ["mxn", "mxn, 1 slot", "onetoone", "std", "may", "tokio"];
    let ask = |&threads: &u32| {
        let mut cases = some(&names, Computing { threads });
        cases.push(bound(Computing { threads }));
        Question::new(format!("computing, {threads} threads"), Unit::MillisInAll, cases).fixed(millis)
    };
    let last = threads.len() - 1;
    let exhibit = Exhibit {
        id: "p4-table-4",
        title: "Table 4: computing without synchronisation".into(),
        claim: "Where threads only compute, one LWP for each CPU is as good as a kernel thread for each \
                thread, and a single LWP takes N times as long.",
        then: Then::Words(
            "Tasks of 10 s each, on four CPUs: unbound threads on one LWP took about 10 N seconds, and those \
             with a concurrency of 4 as long as bound ones.",
        ),
        here: format!("Each thread computes for some {millis} ms, on {} CPUs.", cpus()),
        quantity: "time, ms",
        over: "threads",
        columns: Column::each(0, threads),
        chart: Chart::Lines { x: Scale::Log, y: Scale::Log },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "for computing, one LWP for each CPU is as good as kernel threads",
                ratio: "time of M:N by that of kernel threads, most threads",
                bound: Bound::AtMost(1.05),
                checks: by([("mxn", "onetoone"), ("may", "std"), ("tokio", "std")], last, last),
            },
            Claim {
                whose: Whose::Paper,
                words: "one LWP alone leaves the other CPUs idle",
                ratio: "time on one LWP by time on all, most threads",
                bound: Bound::AtLeast(0.8 * f64::from(cpus())),
                checks: by([("mxn, 1 slot", "mxn")], last, last),
            },
        ],
    };
    Experiment::new(Paper::Nt, "computing", size, threads.iter().map(ask).collect(), vec![exhibit])
}

fn locks(size: Size) -> Experiment {
    let threads: &[u32] = size.pick(&[4], &[4, 32], &[2, 8, 32, 128]);
    let entries = size.pick(50, 1_000, 4_000);
    let names = ["mxn", "mxn, 1 slot", "onetoone", "std", "parking_lot", "pthread", "may", "tokio"];
    let shared = ["mxn, shared", "onetoone, shared", "pthread, shared", "kernel object"];
    let ask = |&threads: &u32| {
        let mut cases = some(&names, Locks { threads });
        cases.push(bound(Locks { threads }));
        cases.extend(pick(&shared, shared_locks(threads)));
        let question = Question::new(format!("locks, {threads} threads"), Unit::NanosEach("an entry"), cases);
        question.per_operation(threads.into()).fixed(entries)
    };
    let last = threads.len() - 1;
    let exhibit = Exhibit {
        id: "p4-tables-5-6",
        title: "Tables 5 and 6: extensive synchronisation, with local and with global mutexes".into(),
        claim: "Restricted concurrency beats bound threads, since only as many threads fight for a mutex as \
                there are LWPs; a mutex that other processes can use costs Solaris little more than a local \
                one, and NT very much more.",
        then: TABLES,
        here: format!(
            "Each thread enters one critical region {} times, with some 200 ns of computing outside and 40 \
             ns inside; the shared ones of Selvedge survive the death of their owner, pthread's do not. \
             NT's mutex was an object of the kernel; an eventfd stands for it.",
            crate::numbers::grouped(entries as f64)
        ),
        quantity: "time, ns an entry",
        over: "threads",
        columns: Column::each(0, threads),
        chart: Chart::Lines { x: Scale::Log, y: Scale::Log },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "one LWP for each CPU beats a kernel thread for each thread",
                ratio: "time of M:N by that of kernel threads, most threads",
                bound: Bound::AtMost(1.0),
                checks: by([("mxn", "onetoone"), ("may", "parking_lot"), ("tokio", "std")], last, last),
            },
            Claim {
                whose: Whose::Paper,
                words: "one LWP for each CPU beats bound threads at a mutex",
                ratio: "time of M:N by that of its bound threads, most threads",
                bound: Bound::AtMost(1.0),
                checks: vec![Check::ours("M:N", at("mxn", last), at("mxn, bound", last))],
            },
            Claim {
                whose: Whose::Paper,
                words: "a mutex that is an object of the kernel costs several times a local one",
                ratio: "time with a mutex that is an eventfd by time with std's, most threads",
                bound: Bound::AtLeast(3.0),
                checks: vec![Check::other("kernel threads", at("kernel object", last), at("std", last))],
            },
            Claim {
                whose: Whose::Paper,
                words: "a mutex for other processes too costs little more than a local one",
                ratio: "time with shared mutexes by time with local ones, most threads",
                bound: Bound::AtMost(1.5),
                checks: by(
                    [
                        ("onetoone, shared", "onetoone"),
                        ("mxn, shared", "mxn"),
                        ("pthread, shared", "pthread"),
                    ],
                    last,
                    last,
                ),
            },
        ],
    };
    Experiment::new(Paper::Nt, "locks", size, threads.iter().map(ask).collect(), vec![exhibit])
        .for_the_front(size)
}

fn search(size: Size) -> Experiment {
    let n = cpus();
    let mut threads = size.pick(vec![1, n], vec![1, n], vec![1, n, 4 * n]);
    threads.dedup();
    let names: &[&str] = match size {
        Size::Full => &["mxn", "mxn, 1 slot", "onetoone", "std", "parking_lot", "pthread", "may"],
        _ => &["mxn", "onetoone", "std"],
    };
    let ask = |&threads: &u32| {
        let mut cases = some_threads(names, Search::by(threads));
        if size == Size::Full {
            cases.push(called("mxn, bound", "mxn", Search::by(threads).bound()));
        }
        Question::new(format!("search, {threads} threads"), Unit::MillisInAll, cases).fixed(1)
    };
    let all = threads.iter().position(|&threads| threads == n).expect("it is in the list");
    let exhibit = Exhibit {
        id: "p4-table-7",
        title: "Table 7: branch and bound over gr17".into(),
        claim: "A search by threads that take branches off a pile speeds up almost linearly, 3.9 times on \
                four CPUs, with NT's threads, bound ones, or unbound ones with a concurrency of 4.",
        then: Then::Words(
            "A speed-up of more than 3.9 on four CPUs for NT's threads, for bound ones, and for unbound ones \
             with a concurrency of 4. Unbound threads without that hint were as fast as two bound ones: the \
             library seems to have made two LWPs.",
        ),
        here: format!(
            "The optimality of the best tour through 17 cities (gr17 of TSPLIB, length 2085) is proven on \
             {n} CPUs; a sample whose tour has another length fails."
        ),
        quantity: "time, ms",
        over: "threads",
        columns: Column::each(0, &threads),
        chart: Chart::Lines { x: Scale::Linear, y: Scale::Linear },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "the search speeds up almost linearly with the CPUs",
                ratio: "time of one thread by that of as many as CPUs",
                bound: Bound::AtLeast(0.9 * f64::from(n)),
                checks: by([("mxn", "mxn"), ("onetoone", "onetoone"), ("std", "std")], 0, all),
            },
            Claim {
                whose: Whose::Paper,
                words: "restricted concurrency searches as fast as bound threads",
                ratio: "time of M:N by that of kernel threads, as many as CPUs",
                bound: Bound::Within(0.95, 1.05),
                checks: by([("mxn", "onetoone")], all, all),
            },
        ],
    };
    Experiment::new(Paper::Nt, "search", size, threads.iter().map(ask).collect(), vec![exhibit])
}

fn bursts(size: Size) -> Experiment {
    const IDLE: u64 = 1_000;
    let threads = 8 * cpus();
    let lengths: [u64; 3] = [IDLE / 4, IDLE, 4 * IDLE];
    let each = size.pick(2, 3, 20);
    let names: &[&str] = match size {
        Size::Full => &["mxn", "mxn, 1 slot", "onetoone", "std", "parking_lot", "pthread", "may"],
        _ => &["mxn", "mxn, 1 slot", "onetoone", "std", "may"],
    };
    let ask = |micros: u64| {
        let work = Bursty::by(threads, micros, elapsed);
        let mut cases = some_threads(names, work);
        cases.push(called("mxn, bound", "mxn", work.bound()));
        Question::new(format!("bursts of {micros} us"), Unit::MillisInAll, cases).fixed(each)
    };
    let exhibit = Exhibit {
        id: "p4-tables-8-10",
        title: "Tables 8 to 10: bursty threads".into(),
        claim: "Where threads compute for shorter than, or as long as, they are idle, unbound threads on one \
                LWP for each CPU do slightly better than bound ones; where they compute longer, it is as \
                without idle times.",
        then: TABLES,
        here: format!(
            "{threads} threads on {} CPUs: {each} times idle for 1 ms, then computing for so long.",
            cpus()
        ),
        quantity: "time, ms",
        over: "computing of a burst",
        columns: lengths
            .iter()
            .enumerate()
            .map(|(number, micros)| Column::of(number, format!("{} ms", *micros as f64 / 1e3)))
            .collect(),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "with short bursts, M:N does better than kernel threads",
                ratio: "time of M:N by that of kernel threads, 1/4 ms of computing after 1 ms idle",
                bound: Bound::AtMost(1.0),
                checks: vec![
                    Check::ours("M:N by 1:1", at("mxn", 0), at("onetoone", 0)),
                    Check::ours("M:N by its bound threads", at("mxn", 0), at("mxn, bound", 0)),
                    Check::other("may by std", at("may", 0), at("std", 0)),
                ],
            },
            Claim {
                whose: Whose::Paper,
                words: "with long bursts, both do the same",
                ratio: "time of M:N by that of kernel threads, 4 ms of computing after 1 ms idle",
                bound: Bound::Within(0.95, 1.05),
                checks: by([("mxn", "onetoone"), ("may", "std")], 2, 2),
            },
        ],
    };
    Experiment::new(Paper::Nt, "bursts", size, lengths.map(ask).into(), vec![exhibit])
}
