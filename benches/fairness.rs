//! Does every thread get the same share? And what does that cost?
//!
//! Two and eight threads for each CPU do equal work, a part of it under a lock that all want, for two seconds: by how much the least
//! served falls behind the most served, and how many turns all got. Then 400 and 2,000 threads that compute, with a short lock
//! now and then, as throughput. It is the experiment of `examples/java_threads.rs`.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use support::harness::{Case, Question, Run, Side, Unit, answer};
use support::java_threads::{Plan, Shares, Until, work};
use support::library::{Attributes, Library, Std};
use support::peers::ParkingLot;
use support::selvedge::Private;

/// Time for everybody to be served in, in ms.
const TIME: u64 = 2_000;

fn main() -> ExitCode {
    let cpus = support::affinity::allowed().len() as u32;
    let mut questions = Vec::new();
    for per_cpu in [2, 8] {
        let plan = move |ms| Plan {
            threads: per_cpu * cpus,
            outside: 400,
            inside: 100,
            until: Until::Time(Duration::from_millis(ms)),
            attributes: Attributes::default(),
        };
        let gap = |shares: Shares| Run::part(shares.most() - shares.least(), shares.most());
        let each = |shares: Shares| Run::took(shares.total(), shares.elapsed);
        let about = format!("{per_cpu} threads for each CPU");
        questions.extend([
            Question::new(format!("gap, {about}"), Unit::Percent("behind"), cases(plan, gap)).fixed(TIME),
            Question::new(format!("throughput, {about}"), Unit::NanosEach("a turn"), cases(plan, each))
                .fixed(TIME),
        ]);
    }
    for threads in [400, 2_000] {
        let crowd = move |turns| Plan {
            threads,
            outside: 5_000,
            inside: 100,
            until: Until::Turns(turns),
            attributes: Attributes::default(),
        };
        let each = |shares: Shares| Run::took(shares.total(), shares.elapsed);
        let name = format!("throughput, {threads} threads");
        questions.push(Question::new(name, Unit::NanosEach("a turn"), cases(crowd, each)).fixed(100));
    }
    answer(questions)
}

/// All contenders with locks, with a plan of this size and what is to be read off its shares.
fn cases(plan: impl Fn(u64) -> Plan + Copy + Send + Sync + 'static, read: fn(Shares) -> Run) -> Vec<Case> {
    fn on<L: Library>(plan: Plan) -> Shares {
        work::<L, _>(plan, |_| ()).expect("threads").exact()
    }
    vec![
        Case::new("mxn", Side::Ours, move |effort| {
            read(Mxn::new().unwrap().run(|| on::<Private>(plan(effort.operations()))))
        }),
        Case::new("onetoone", Side::Ours, move |effort| {
            read(OneToOne::new().unwrap().run(|| on::<Private>(plan(effort.operations()))))
        }),
        Case::new("parking_lot", Side::Peer, move |effort| read(on::<ParkingLot>(plan(effort.operations())))),
        Case::new("std", Side::Peer, move |effort| read(on::<Std>(plan(effort.operations())))),
    ]
}
