//! Each experiment on both runtimes, every rung of the ladder, and std: all that was to be done is counted.

use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use crate::rungs::on_rungs;
use crate::support::library::{Attributes, Library, Std};
use crate::support::nt_solaris::workers::bursts::{self, burst};
use crate::support::nt_solaris::workers::compute::{self, compute, result_of, steps};
use crate::support::nt_solaris::workers::create::{self, create};
use crate::support::nt_solaris::workers::locks::{self, synchronize};
use crate::support::nt_solaris::workers::most::{self, Stop, most};
use crate::support::selvedge::{Private, Shared};
use crate::watchdog::Watchdog;

/// Something to be tried on any library.
trait Trial: Copy + Sync {
    fn on<L: Library>(self, attributes: Attributes);
}

/// Tries it on every runtime, with unbound and bound threads. Gives how often.
fn everywhere(trial: impl Trial) -> u32 {
    let _watchdog = Watchdog::start("an experiment");
    let mut tried = 0;
    for bound in [false, true] {
        let attributes = Attributes { stack_size: None, bound };
        trial.on::<Std>(attributes);
        OneToOne::new().unwrap().run(|| trial.on::<Private>(attributes));
        OneToOne::new().unwrap().run(|| trial.on::<Shared>(attributes));
        Mxn::builder().concurrency(1).build().unwrap().run(|| trial.on::<Private>(attributes));
        tried += 4;
        on_rungs(&Mxn::builder().concurrency(3), |rt| {
            rt.run(|| trial.on::<Private>(attributes));
            rt.run(|| trial.on::<Shared>(attributes));
            tried += 2;
        });
    }
    tried
}

#[test]
fn the_result_of_computing_is_known_beforehand() {
    for count in (0..100).chain([1_000, 12_345, 1 << 16]) {
        assert_eq!(steps(count), result_of(count), "{count} steps");
    }
    assert_ne!(result_of(100), result_of(101));
}

#[test]
fn every_thread_computes() {
    #[derive(Clone, Copy)]
    struct Computing;
    impl Trial for Computing {
        fn on<L: Library>(self, attributes: Attributes) {
            for threads in [1, 2, 17] {
                let tally = compute::<L>(compute::Plan { threads, steps: 10_000, attributes }).unwrap();
                assert_eq!((tally.counted, tally.due), (threads.into(), threads.into()));
                assert!(tally.elapsed > Duration::ZERO);
            }
        }
    }
    assert!(everywhere(Computing) >= 8);
}

#[test]
fn every_entry_is_counted() {
    #[derive(Clone, Copy)]
    struct Locks;
    impl Trial for Locks {
        fn on<L: Library>(self, attributes: Attributes) {
            let plan = locks::Plan { threads: 9, entries: 300, outside: 30, inside: 30, attributes };
            let tally = synchronize::<L>(plan).unwrap();
            assert_eq!((tally.counted, tally.due), (2_700, 2_700));
        }
    }
    everywhere(Locks);
}

/// Also where the creator is one of many that want a CPU.
#[test]
fn every_created_thread_runs() {
    #[derive(Clone, Copy)]
    struct Creation;
    impl Trial for Creation {
        fn on<L: Library>(self, attributes: Attributes) {
            for (threads, busy) in [(1, 0), (50, 0), (20, 4)] {
                let created = create::<L>(create::Plan { threads, busy, attributes }).unwrap();
                assert_eq!((created.all.counted, created.all.due), (threads.into(), threads.into()));
                assert!(created.making <= created.all.elapsed);
            }
        }
    }
    everywhere(Creation);
}

#[test]
fn every_burst_comes_after_its_idle_time() {
    #[derive(Clone, Copy)]
    struct Bursts;
    impl Trial for Bursts {
        fn on<L: Library>(self, attributes: Attributes) {
            let idle = Duration::from_millis(2);
            let plan = bursts::Plan { threads: 6, bursts: 5, steps: 5_000, idle, attributes };
            let done = burst::<L>(plan).unwrap();
            assert_eq!((done.all.counted, done.all.due), (30, 30));
            assert!(done.all.elapsed >= 5 * idle, "{done:?}");
            assert!(Duration::ZERO < done.mean_turn_around(), "{done:?}");
            assert!(done.mean_turn_around() <= done.worst && done.worst <= done.all.elapsed, "{done:?}");
        }
    }
    everywhere(Bursts);
}

#[test]
fn enough_threads_exist_at_once() {
    #[derive(Clone, Copy)]
    struct Most;
    impl Trial for Most {
        fn on<L: Library>(self, attributes: Attributes) {
            let mut told = Vec::new();
            let found = most::<L>(most::Plan { most: 300, attributes }, |made| told.push(made));
            assert_eq!((found.made, found.ran), (300, 300), "{found:?}");
            assert!(matches!(found.stop, Stop::Enough) && found.making <= found.begun, "{found:?}");
            assert_eq!(told, [most::STRIDE, 2 * most::STRIDE]);
        }
    }
    everywhere(Most);
}

/// A library that cannot make a thread says so, with the number of the thread; those made before have ended.
#[test]
fn a_refused_thread_is_an_error() {
    let _watchdog = Watchdog::start("refused threads");
    let attributes = Attributes { stack_size: Some(0), bound: false };
    OneToOne::new().unwrap().run(|| {
        let plan = create::Plan { threads: 3, busy: 0, attributes };
        let error = create::<Private>(plan).expect_err("no stack");
        assert!(error.to_string().contains("thread 1 of 3"), "{error}");
        let error = create::<Private>(create::Plan { busy: 2, ..plan }).expect_err("no stack");
        assert!(error.to_string().contains("thread 1 of 2"), "{error}");
        let found = most::<Private>(most::Plan { most: 5, attributes }, |_| ());
        assert_eq!((found.made, found.ran), (0, 0), "{found:?}");
        assert!(matches!(found.stop, Stop::Refused { .. }), "{found:?}");
    });
}
