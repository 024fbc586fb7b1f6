//! Branch and bound finds what trying all tours finds, the same tour with any number of threads, and what
//! is known of gr17.

use std::sync::Arc;

use selvedge::{Mxn, OneToOne, Runtime};

use crate::support::contention::workers::Choice;
use crate::support::library::{Attributes, Std};
use crate::support::nt_solaris::workers::search::{First, Found, Plan, search};
use crate::support::nt_solaris::workers::tour::greedy;
use crate::support::nt_solaris::workers::tsplib::{Instance, gr17};
use crate::support::selvedge::Private;
use crate::watchdog::Watchdog;

const PLAN: Plan = Plan {
    threads: 1,
    depth: 3,
    first: First::Greedy,
    attributes: Attributes { stack_size: None, bound: false },
};

/// Distances below `limit`: with few of them, many tours are equally long.
fn random(cities: usize, limit: u32, choice: &mut Choice) -> Arc<Instance> {
    let mut distances = vec![0; cities * cities];
    for from in 0..cities {
        for to in 0..from {
            let distance = choice.below(limit);
            distances[from * cities + to] = distance;
            distances[to * cities + from] = distance;
        }
    }
    Arc::new(Instance::new("random", cities, &distances))
}

/// The length of the shortest of all tours.
fn try_all(instance: &Instance) -> u32 {
    fn go_on(instance: &Instance, way: &mut Vec<u8>) -> u32 {
        if way.len() == instance.cities() {
            return instance.length(way);
        }
        let mut best = u32::MAX;
        for city in 1..instance.cities() as u8 {
            if !way.contains(&city) {
                way.push(city);
                best = best.min(go_on(instance, way));
                way.pop();
            }
        }
        best
    }
    go_on(instance, &mut vec![0])
}

/// What must be so of every answer.
#[track_caller]
fn check(instance: &Instance, found: &Found) {
    assert!(instance.is_tour(&found.tour), "{found:?}");
    assert_eq!(found.tour[0], 0);
    assert_eq!(instance.length(&found.tour), found.length, "{found:?}");
    assert_eq!(found.searched, found.branches, "{found:?}");
}

#[test]
fn small_instances_are_solved_as_by_trying_all() {
    let _watchdog = Watchdog::start("small instances");
    let mut choice = Choice::of(17);
    let mut improved = 0;
    for cities in 3..=8 {
        for limit in [1, 4, 1_000, 10_000_001] {
            for _ in 0..10 {
                let instance = random(cities, limit, &mut choice);
                let best = try_all(&instance);
                for depth in [0, 1, 3, 20] {
                    for first in [First::Greedy, First::Given] {
                        let found =
                            search::<Std>(&instance, Plan { threads: 2, depth, first, ..PLAN }).unwrap();
                        check(&instance, &found);
                        assert_eq!(found.length, best, "{instance:?}");
                        improved += u32::from(found.length < found.first);
                    }
                }
            }
        }
    }
    assert!(improved > 100, "the first tour was the best nearly always, and the search found nothing");
}

#[test]
fn any_number_of_threads_finds_the_same_tour() {
    let _watchdog = Watchdog::start("one answer");
    let mut choice = Choice::of(4);
    for cities in [6, 9, 11] {
        // Of distances below 3, many tours are best.
        let instance = random(cities, 3, &mut choice);
        let plan = Plan { first: First::Given, ..PLAN };
        let alone = search::<Std>(&instance, plan).unwrap();
        check(&instance, &alone);
        let runtimes = [Mxn::builder().concurrency(1), Mxn::builder().concurrency(3)];
        let runtimes = runtimes.map(|builder| builder.build().unwrap());
        let onetoone = OneToOne::new().unwrap();
        for threads in 2..=8 {
            let plan = Plan { threads, ..plan };
            let mut all =
                vec![search::<Std>(&instance, plan), onetoone.run(|| search::<Private>(&instance, plan))];
            all.extend(runtimes.each_ref().map(|rt| rt.run(|| search::<Private>(&instance, plan))));
            for found in all.into_iter().map(Result::unwrap) {
                check(&instance, &found);
                assert_eq!((found.length, &found.tour), (alone.length, &alone.tour), "{threads} threads");
            }
        }
    }
}

#[test]
fn the_greedy_tour_is_one_and_not_bad() {
    let instance = Arc::new(gr17());
    let tour = greedy(&instance);
    assert!(instance.is_tour(&tour));
    let given: Vec<u8> = (0..17).collect();
    let length = instance.length(&tour);
    assert!((2085..2300).contains(&length), "{length}");
    assert!(instance.length(&given) > 3_000, "{}", instance.length(&given));
}

/// The whole of it takes seconds without optimisation: once, on two green threads.
#[test]
fn gr17_is_2085_long() {
    let _watchdog = Watchdog::start("gr17");
    let instance = Arc::new(gr17());
    let plan = Plan { threads: 2, ..PLAN };
    let found = Mxn::new().unwrap().run(|| search::<Private>(&instance, plan)).unwrap();
    check(&instance, &found);
    assert_eq!(found.length, 2085);
    assert!(found.branches > 1_000 && found.nodes > 100_000, "{found:?}");
}
