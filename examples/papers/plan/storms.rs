//! P6, too: what becomes of a program if its threads block, never yield, are very many, or talk to the
//! network.

use std::io;
use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use super::beyond::NEW;
use super::{Experiment, cpus};
use crate::exhibit::{Chart, Column, Exhibit, Paper};
use crate::numbers::grouped;
use crate::options::Size;
use crate::support::blocking::reads;
use crate::support::contender::{Contender, Scene, some, some_threads};
use crate::support::harness::{Case, Effort, Question, Run, Side, Unit};
use crate::support::hogs::{self, Kind};
use crate::support::library::{Attributes, Std};
use crate::support::million::{Plan, Watch, park_all};
use crate::support::nt_solaris::limits::room;
use crate::support::nt_solaris::process::{Usage, usage};
use crate::support::ours::allow_all_lwps;
use crate::support::parking::Named;
use crate::support::selvedge::Private;
use crate::support::workloads::echo::Conversations;
use crate::verdict::{Bound, Check, Claim, Whose, at, by};

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![storms(size), crowd(size), network(size)]
}

/// After this, a thread that a storm holds up counts as held up forever.
const FOREVER: Duration = Duration::from_secs(20);

/// An operation is a millisecond. may is asked only in full: it waits for ever, which takes long to find out.
fn cases(size: Size, storm: impl Scene) -> Vec<Case> {
    let names = ["mxn", "onetoone", "std", "pthread", "may"];
    let asked = if size == Size::Full { &names[..] } else { &names[..4] };
    some_threads(asked, storm)
}

/// Threads that sleep in `read`, and one that goes on.
#[derive(Clone, Copy)]
struct Blocking;

const READERS: u32 = 64;

impl Scene for Blocking {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        let time = Duration::from_millis(effort.operations());
        let found = reads::<C>(READERS, time).expect("threads and a pipe");
        assert_eq!(found.released, READERS, "not all reads were released, by a number each");
        Run::part(found.steps.count(), found.kernel_steps)
    }
}

/// Threads that compute, and one that wants a turn now and then.
#[derive(Clone, Copy)]
struct Hogs;

impl Scene for Hogs {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        let time = Duration::from_millis(effort.operations());
        let plan = hogs::Plan { kind: Kind::Arithmetic, hogs: 2 * cpus(), running: 1, time };
        let got = hogs::run::<C>(plan).expect("a few threads");
        assert_eq!(got.wrong, 0, "a hog came to a wrong result");
        Run::part(got.turns.count(), (time.as_nanos() / hogs::PAUSE.as_nanos()) as u64)
    }
}

fn storms(size: Size) -> Experiment {
    let millis = size.pick(50, 200, 2_000);
    let ask = |name, cases| Question::new(name, Unit::Percent("of what it wants"), cases).fixed(millis);
    let questions = vec![ask("blocking storm", cases(size, Blocking)), ask("hog storm", cases(size, Hogs))];
    let absent = match size {
        Size::Full => "",
        _ => " may, which both stop for ever, is asked only in the full run.",
    };
    let share = |point, who| vec![Check::ours(who, at("mxn", point), at("onetoone", point))];
    let blocking = Exhibit {
        id: "p6-blocking",
        title: "A storm of blocking calls".into(),
        claim: "An M:N library that loses an LWP to each blocked thread comes to a stand; Solaris made one \
                more when all were blocked.",
        then: NEW,
        here: format!(
            "{READERS} threads sleep in a raw `read` for {millis} ms, of which their library knows nothing, \
             while one more sleeps for a millisecond again and again, and in the end releases them; its \
             steps by those of a kernel thread beside it.{absent}"
        ),
        quantity: "steps, % of a kernel thread's",
        over: "",
        columns: vec![Column::of(0, "steps")],
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Ours,
            words: "blocked threads do not hold up others",
            ratio: "steps on M:N by steps on 1:1",
            bound: Bound::AtLeast(0.8),
            checks: share(0, "M:N by 1:1"),
        }],
    };
    let hogs = Exhibit {
        id: "p6-hogs",
        title: "A storm of hogs".into(),
        claim: "Without time slices, threads that never yield keep all others from running.",
        then: NEW,
        here: format!(
            "{} threads compute for {millis} ms without a pause, on {} CPUs, and one wants a hundred turns a \
             second, sleeping in between.{absent}",
            2 * cpus(),
            cpus()
        ),
        quantity: "turns, % of those wanted",
        over: "",
        columns: vec![Column::of(1, "turns")],
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Ours,
            words: "hogs do not keep a thread from its turns",
            ratio: "turns on M:N by turns on 1:1",
            bound: Bound::AtLeast(0.8),
            checks: share(1, "M:N by 1:1"),
        }],
    };
    Experiment::new(Paper::Beyond, "storms", size, questions, vec![blocking, hogs]).patience(FOREVER)
}

/// What is to be found out of parked threads.
#[derive(Clone, Copy)]
enum Parked {
    /// Bytes that each takes.
    Bytes,
    /// The time to start, wake and join them.
    Time,
}

/// Notes what the process takes when all have parked.
struct Scales {
    before: Usage,
    /// `true` if each thread has a stack in the kernel.
    kernel: bool,
    bytes: u64,
}

impl Watch for Scales {
    fn started(&mut self, _threads: u32) -> Option<String> {
        None
    }

    fn refused(&mut self, error: &io::Error) -> String {
        error.to_string()
    }

    fn parked(&mut self, _threads: u32) {
        self.bytes = usage().beyond(self.before).memory(self.kernel);
    }

    fn woken(&mut self, _threads: u32) {}
}

fn parked<L: Named>(what: Parked, kernel: bool, threads: u64) -> Run {
    let mut scales = Scales { before: usage(), kernel, bytes: 0 };
    let plan = Plan { threads: threads as u32, attributes: Attributes::default() };
    let reached = park_all::<L>(plan, &mut scales);
    if let Some(reason) = reached.stopped {
        panic!("after {} threads: {reason}", reached.started);
    }
    assert_eq!((u64::from(reached.woken), reached.strays), (threads, 0), "a thread went astray");
    match what {
        Parked::Bytes => Run::part(scales.bytes / threads, 1),
        Parked::Time => Run::took(threads, reached.start + reached.wake + reached.join),
    }
}

/// More than a parked M:N thread takes.
const BYTES_EACH: u64 = 12 << 10;

fn crowd(size: Size) -> Experiment {
    let few = size.pick(100, 1_000, 10_000);
    // A million, if half of the memory that is to be had is enough for them.
    let room = room().map_or(0, |room| room.left() / 2 / BYTES_EACH);
    let many = size.pick(500, 20_000, room.clamp(few, 1_000_000));
    let cases = |what| {
        vec![
            Case::new("mxn", Side::Ours, move |effort| {
                Mxn::new().unwrap().run(|| parked::<Private>(what, false, effort.operations()))
            }),
            Case::new("onetoone", Side::Ours, move |effort| {
                OneToOne::new().unwrap().run(|| parked::<Private>(what, true, effort.operations()))
            }),
            Case::new("std", Side::Peer, move |effort| parked::<Std>(what, true, effort.operations())),
        ]
    };
    let ask = |what, threads: u64, names: usize| {
        let unit = match what {
            Parked::Bytes => Unit::Number("bytes a thread"),
            Parked::Time => Unit::NanosEach("a thread"),
        };
        let mut cases = cases(what);
        cases.truncate(names);
        Question::new(format!("{threads} parked threads"), unit, cases).fixed(threads)
    };
    let questions = vec![
        ask(Parked::Bytes, few, 3),
        ask(Parked::Bytes, many, 1),
        ask(Parked::Time, few, 3),
        ask(Parked::Time, many, 1),
    ];
    let columns = |first: usize| {
        let labels = [few, many].map(|threads| format!("{} threads", grouped(threads as f64)));
        labels
            .into_iter()
            .enumerate()
            .map(|(number, label)| Column::of(first + number, label))
            .collect::<Vec<_>>()
    };
    let here = "Threads with default stacks park, are woken by name, and are joined, one process for each \
                sample. Kernel threads only in the smaller number, which leaves the machine usable.";
    let bytes = Exhibit {
        id: "p6-parked-bytes",
        title: "Parked threads: memory".into(),
        claim: "A thread that waits should cost little more than what it has touched of its stack.",
        then: NEW,
        here: format!(
            "{here} Memory is what the process has touched, with page tables, and the kernel's stacks of \
             kernel threads (which are counted for the whole machine)."
        ),
        quantity: "memory, bytes a thread",
        over: "",
        columns: columns(0),
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Ours,
            words: "a parked M:N thread takes less than half of a kernel thread's memory",
            ratio: "bytes of M:N by bytes of 1:1",
            bound: Bound::AtMost(0.5),
            checks: by([("mxn", "onetoone"), ("mxn", "std")], 0, 0),
        }],
    };
    let time = Exhibit {
        id: "p6-parked-time",
        title: "Parked threads: to start, wake and join them all".into(),
        claim: "A program should not have to think twice before it makes a thread for each of its clients.",
        then: NEW,
        here: here.into(),
        quantity: "time, ns a thread",
        over: "",
        columns: columns(2),
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Ours,
            words: "an M:N thread is started, woken and joined in less than a third of a kernel thread's \
                    time",
            ratio: "time of M:N by that of kernel threads",
            bound: Bound::AtMost(0.33),
            checks: by([("mxn", "onetoone"), ("mxn", "std")], 2, 2),
        }],
    };
    Experiment::new(Paper::Beyond, "parked", size, questions, vec![bytes, time]).rounds(size.rounds().min(3))
}

fn network(size: Size) -> Experiment {
    let connections: &[u32] = size.pick(&[4], &[1, 200], &[1, 64, 1_000]);
    let names = ["mxn", "onetoone", "std", "may", "tokio"];
    let ask = |&connections: &u32| {
        let cases = some(&names, Conversations::own(connections));
        let name = format!("echo, {connections} connections");
        let question = Question::new(name, Unit::NanosEach("a message"), cases).prepare(allow_all_lwps);
        question.per_operation(connections.into()).first(10)
    };
    let last = connections.len() - 1;
    let exhibit = Exhibit {
        id: "p6-echo",
        title: "Echo over TCP".into(),
        claim: "A server should be able to give each connection a thread, and read from a socket as if \
                nothing else existed.",
        then: NEW,
        here: "Both ends in one process, 64 bytes there and back over the loopback, a thread at each end of \
               each connection. Kernel threads block in `read`. M:N, may and tokio have sockets of their own \
               over epoll, which block no kernel thread."
            .into(),
        quantity: "time, ns a message",
        over: "connections",
        columns: Column::each(0, connections),
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Ours,
            words: "with many connections, M:N is no slower than kernel threads",
            ratio: "time of M:N by that of kernel threads",
            bound: Bound::AtMost(1.1),
            checks: by([("mxn", "onetoone"), ("mxn", "std")], last, last),
        }],
    };
    Experiment::new(Paper::Beyond, "echo", size, connections.iter().map(ask).collect(), vec![exhibit])
}
