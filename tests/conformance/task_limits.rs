//! Groups of tasks with a deadline, with a limit on the number of threads, and with an owner that is
//! interrupted late.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::sync::{Barrier, Semaphore};
use selvedge::thread::{Builder, TaskGroup, TaskGroupBuilder};
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::task_group::{LONG, Outcome, Told, endless};
use crate::waiting::until_waits;

both! {
    a_deadline_ends_the_wait_for_the_end,
    a_deadline_ends_a_join,
    a_deadline_ends_a_tasks_own_wait,
    a_deadline_is_seen_by_tasks_that_compute,
    what_has_seen_the_deadline_ends_no_group_well,
    groups_inherit_deadlines,
    only_so_many_tasks_run,
    a_spawn_that_waits_for_room_ends_with_the_group,
    a_task_that_cannot_start_leaves_its_place,
    an_interrupt_after_a_failure_is_kept,
}

const SHORT: Duration = Duration::from_millis(10);

/// Runs a group with a short deadline, until all of it has been interrupted by that.
#[track_caller]
fn times_out<F>(f: F)
where
    F: for<'s> FnOnce(&'s TaskGroup<'s, '_, WaitError>, &'s Told) -> Outcome,
{
    let told = Told::default();
    let start = Instant::now();
    let outcome = {
        let told = &told;
        TaskGroupBuilder::new().timeout(SHORT).timeout(LONG).run(|group| f(group, told))
    };
    assert_eq!(outcome, Err(WaitError::TimedOut));
    assert!(start.elapsed() >= SHORT);
    assert_eq!(told.interrupted(), told.began.load(SeqCst));
}

/// Waits until so many tasks have begun. On a slow machine, the deadline may come before.
fn wait_for(tasks: usize, told: &Told, group: &TaskGroup<'_, '_, WaitError>) {
    while told.began.load(SeqCst) != tasks && !group.is_cancelled() {
        thread::yield_now();
    }
}

fn a_deadline_ends_the_wait_for_the_end<L: Leg>() {
    L::new().run(|| {
        times_out(|group, told| {
            (0..3).for_each(|_| drop(group.spawn(|| told.waits())));
            wait_for(3, told, group);
            Ok(())
        });
    });
}

fn a_deadline_ends_a_join<L: Leg>() {
    L::new().run(|| {
        times_out(|group, told| {
            let task = group.spawn(|| told.waits());
            wait_for(1, told, group);
            assert_eq!(task.join(), Err(WaitError::TimedOut));
            assert!(group.is_cancelled());
            // Not the reason any more.
            Err(WaitError::Interrupted)
        });
    });
}

fn a_deadline_ends_a_tasks_own_wait<L: Leg>() {
    L::new().run(|| {
        times_out(|group, told| {
            group.spawn(|| told.waits());
            wait_for(1, told, group);
            let task = group.spawn(|| thread::park_with(Wait::within(group)));
            // The closure does not wait in the group.
            while !task.is_finished() {
                thread::yield_now();
            }
            Ok(())
        });
    });
}

fn a_deadline_is_seen_by_tasks_that_compute<L: Leg>() {
    L::new().run(|| {
        times_out(|group, _| {
            let task = group.spawn(|| {
                while !group.is_cancelled() {
                    thread::yield_now();
                }
                Ok(())
            });
            while !task.is_finished() {
                thread::yield_now();
            }
            // The task itself ended well, if it was not too late for it.
            let started = task.thread().is_some();
            assert_eq!(task.join().is_ok(), started);
            assert!(group.spawn(|| Ok(())).thread().is_none(), "nothing starts after the deadline");
            Ok(())
        });
    });
}

/// Work that was cut short by the deadline is no success, even if no thread waits in the group any more.
fn what_has_seen_the_deadline_ends_no_group_well<L: Leg>() {
    fn computes(group: &TaskGroup<'_, '_, WaitError>) -> Outcome {
        while !group.is_cancelled() {
            thread::yield_now();
        }
        Ok(())
    }
    fn waits(group: &TaskGroup<'_, '_, WaitError>) -> Outcome {
        // The deadline, and no reason to fail.
        assert!(thread::park_with(Wait::within(group)).is_err());
        Ok(())
    }
    L::new().run(|| {
        let short = || TaskGroupBuilder::new().timeout(SHORT);
        for work in [computes, waits] {
            let outcome = short().run(|group| {
                let task = group.spawn(move || work(group));
                while !task.is_finished() {
                    thread::yield_now();
                }
                Ok(())
            });
            assert_eq!(outcome, Err(WaitError::TimedOut));
        }
        assert_eq!(short().run(computes), Err(WaitError::TimedOut));
        assert_eq!(short().run(waits), Err(WaitError::TimedOut));
    });
}

fn groups_inherit_deadlines<L: Leg>() {
    L::new().run(|| {
        let at = |n| Instant::now() + LONG * n;
        let (early, middle, late) = (at(1), at(2), at(3));
        let deadline_of =
            |builder: TaskGroupBuilder| builder.run(|group| Ok::<_, WaitError>(group.deadline())).unwrap();
        let new = TaskGroupBuilder::new;
        let looks =
            || [deadline_of(new()), deadline_of(new().deadline(early)), deadline_of(new().deadline(late))];
        assert_eq!(looks(), [None, Some(early), Some(late)]);
        let inherited = [Some(middle), Some(early), Some(middle)];
        new()
            .deadline(middle)
            .run(|group| {
                assert_eq!(looks(), inherited);
                let task = move || {
                    // A wait in between, in which other threads come to the same LWP.
                    thread::yield_now();
                    assert_eq!(looks(), inherited);
                    Ok::<_, WaitError>(())
                };
                let tasks = [(); 4].map(|()| group.spawn(task));
                let bound = group.spawn_with(Builder::new().bound(true), task).unwrap();
                // A thread that is no task inherits nothing.
                let other = thread::scope(|s| s.spawn(looks).join().unwrap());
                assert_eq!(other, [None, Some(early), Some(late)]);
                tasks.into_iter().try_for_each(|task| task.join())?;
                bound.join()
            })
            .unwrap();
        assert_eq!(looks(), [None, Some(early), Some(late)]);
    });
}

fn only_so_many_tasks_run<L: Leg>() {
    const LIMIT: usize = 3;
    L::new().run(|| {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // With fewer than the limit, the tasks would wait here forever.
        let all = Barrier::new(LIMIT);
        TaskGroupBuilder::new()
            .limit(LIMIT)
            .run(|group| {
                for _ in 0..10 * LIMIT {
                    group.spawn(|| {
                        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                        all.wait();
                        thread::yield_now();
                        running.fetch_sub(1, SeqCst);
                        Ok(())
                    });
                }
                Ok::<_, WaitError>(())
            })
            .unwrap();
        assert_eq!((running.into_inner(), most.into_inner()), (0, LIMIT));
    });
}

fn a_spawn_that_waits_for_room_ends_with_the_group<L: Leg>() {
    fn full(group: &TaskGroup<'_, '_, WaitError>, ran: &AtomicBool) -> WaitError {
        assert!(!group.is_cancelled());
        assert!(!ran.load(SeqCst));
        WaitError::Interrupted
    }
    L::new().run(|| {
        let ran = AtomicBool::new(false);
        let runs = || {
            ran.store(true, SeqCst);
            Ok(())
        };
        let limited = || TaskGroupBuilder::new().limit(1);
        // By the deadline.
        let outcome: Outcome = limited().timeout(SHORT).run(|group| {
            let _first = group.spawn(endless);
            let second = group.spawn(runs);
            assert!(group.is_cancelled() && second.thread().is_none() && second.is_finished());
            second.join()
        });
        assert_eq!(outcome, Err(WaitError::TimedOut));
        // By an interrupt of the thread that spawns.
        let outcome: Outcome = limited().run(|group| {
            group.spawn(endless);
            full(group, &ran);
            thread::current().interrupt();
            assert_eq!(group.spawn(runs).join(), Err(WaitError::Interrupted));
            Ok(())
        });
        assert_eq!(outcome, Err(WaitError::Interrupted));
        // By the failure of a task, which also makes room.
        let outcome: Outcome = limited().run(|group| {
            group.spawn(|| Err::<(), _>(full(group, &ran)));
            group.spawn(runs);
            Ok(())
        });
        assert_eq!(outcome, Err(WaitError::Interrupted));
        assert!(!ran.load(SeqCst));
    });
}

fn a_task_that_cannot_start_leaves_its_place<L: Leg>() {
    L::new().run(|| {
        let outcome = TaskGroupBuilder::new().limit(1).run(|group| {
            for _ in 0..3 {
                let refused = group.spawn_with(Builder::new().stack_size(0), || Ok(()));
                assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }
            let named = Builder::new().name("task".into());
            let name = || Ok(thread::current().name().map(str::to_owned));
            let task = group.spawn_with(named, name).unwrap();
            assert_eq!(task.thread().unwrap().name(), Some("task"));
            task.join()
        });
        assert_eq!(outcome, Ok(Some("task".into())));
    });
}

/// The group reports the failure. So the owner's next wait must report the interrupt: it may be the one that
/// ends an outer group.
fn an_interrupt_after_a_failure_is_kept<L: Leg>() {
    let rt = L::new();
    for joins in [false, true] {
        let go = Arc::new(Semaphore::new(0));
        let failed = Arc::new(AtomicBool::new(false));
        let theirs = (Arc::clone(&go), Arc::clone(&failed));
        let owner = rt.spawn(move || {
            let (go, failed) = theirs;
            let begun = Semaphore::new(0);
            let outcome: io::Result<()> = thread::task_group(|group| {
                // No interrupt ends this one.
                let slow = group.spawn(|| {
                    begun.add_permits(1);
                    go.acquire().forget();
                    Ok(())
                });
                begun.acquire().forget();
                assert!(group.spawn(|| Err::<(), _>(io::Error::other("first"))).join().is_err());
                failed.store(true, SeqCst);
                if joins {
                    assert_eq!(slow.join(), Err(WaitError::Interrupted));
                }
                Ok(())
            });
            (outcome.unwrap_err().to_string(), thread::take_interrupt())
        });
        while !failed.load(SeqCst) {
            std::thread::yield_now();
        }
        until_waits(&rt, &owner);
        owner.thread().interrupt();
        go.add_permits(1);
        assert_eq!(owner.join().unwrap(), ("first".into(), true), "{joins}");
    }
}

#[test]
#[should_panic(expected = "a group with a limit of 0 could run no task")]
fn a_limit_of_zero_is_refused() {
    let _ = TaskGroupBuilder::new().limit(0);
}
