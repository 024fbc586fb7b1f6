//! Groups of tasks: results, which error is the group's, and what is cancelled by it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use selvedge::sync::{Barrier, Semaphore};
use selvedge::thread::TaskGroupBuilder;
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::mixed;
use crate::shutdown::Shutdown;

both! {
    tasks_borrow_and_return_values,
    groups_work_on_threads_of_every_kind,
    the_first_error_interrupts_the_rest,
    the_error_of_the_closure_does_so_too,
    a_failed_task_has_no_value,
    errors_are_dropped_once,
    the_panic_of_a_task_goes_on_in_its_owner,
    a_panic_goes_before_an_error,
    the_panic_of_the_closure_waits_for_all,
    an_interrupted_owner_waits_for_all,
    an_interrupt_that_comes_too_late_is_kept,
    an_interrupted_join_cancels,
    a_failure_outside_cancels_inner_groups,
    an_error_inside_goes_out,
    nothing_starts_after_the_group_is_cancelled,
    tasks_spawn_tasks,
    handles_may_be_dropped,
    no_other_thread_is_interrupted,
    a_shutdown_ends_groups,
}

pub(crate) type Outcome = Result<(), WaitError>;

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(1000);

/// Waits until it is interrupted.
pub(crate) fn endless() -> Outcome {
    thread::sleep_with(Wait::timeout(LONG).interruptible()).map_err(WaitError::from)
}

/// What tasks say of themselves.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) began: AtomicUsize,
    interrupted: AtomicUsize,
}

impl Told {
    /// What a task does that waits to be interrupted.
    pub(crate) fn waits<E: From<WaitError>>(&self) -> Result<(), E> {
        self.began.fetch_add(1, SeqCst);
        let ended = endless();
        self.interrupted.fetch_add(usize::from(ended == Err(WaitError::Interrupted)), SeqCst);
        Ok(ended?)
    }

    pub(crate) fn wait_for(&self, tasks: usize) {
        while self.began.load(SeqCst) != tasks {
            thread::yield_now();
        }
    }

    pub(crate) fn interrupted(&self) -> usize {
        self.interrupted.load(SeqCst)
    }
}

fn tasks_borrow_and_return_values<L: Leg>() {
    L::new().run(|| {
        let mut numbers = [1, 2, 3];
        let count = AtomicUsize::new(0);
        let values = thread::task_group(|group| {
            let tasks: Vec<_> = numbers
                .iter_mut()
                .map(|number| {
                    let count = &count;
                    group.spawn(move || {
                        thread::yield_now();
                        *number *= 10;
                        count.fetch_add(1, SeqCst);
                        Ok(number.to_string())
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join()).collect::<Result<Vec<_>, WaitError>>()
        });
        assert_eq!(values.unwrap(), ["10", "20", "30"]);
        assert_eq!((numbers, count.into_inner()), ([10, 20, 30], 3));
    });
}

fn groups_work_on_threads_of_every_kind<L: Leg>() {
    let ended = mixed::everywhere::<L, _>(2, || {
        let told = Told::default();
        let sum = thread::task_group(|group| {
            let tasks = [1, 2, 3].map(|n| group.spawn(move || Ok(n)));
            let mut sum = 0;
            for task in tasks {
                sum += task.join()?;
            }
            io::Result::Ok(sum)
        });
        let failed = thread::task_group(|group| {
            (0..3).for_each(|_| drop(group.spawn(|| told.waits())));
            told.wait_for(3);
            group.spawn(|| Err::<(), _>(io::Error::other("first")));
            Ok(())
        });
        (sum.unwrap(), failed.unwrap_err().to_string(), told.interrupted(), thread::take_interrupt())
    });
    assert_eq!(ended.len(), 2 * mixed::KINDS);
    assert!(ended.iter().all(|ended| *ended == (6, "first".into(), 3, false)), "{ended:?}");
}

fn the_first_error_interrupts_the_rest<L: Leg>() {
    L::new().run(|| {
        for _ in 0..20 {
            let told = Told::default();
            let failed: io::Result<()> = thread::task_group(|group| {
                (0..5).for_each(|_| drop(group.spawn(|| told.waits())));
                group.spawn(|| {
                    told.wait_for(5);
                    Err::<(), _>(io::Error::other("first"))
                });
                Ok(())
            });
            assert_eq!(failed.unwrap_err().to_string(), "first");
            assert_eq!(told.interrupted(), 5);
            assert!(!thread::take_interrupt(), "the owner is not interrupted");
        }
    });
}

fn the_error_of_the_closure_does_so_too<L: Leg>() {
    L::new().run(|| {
        let told = Told::default();
        let failed: io::Result<()> = thread::task_group(|group| {
            (0..3).for_each(|_| drop(group.spawn(|| told.waits())));
            told.wait_for(3);
            assert!(!group.is_cancelled());
            Err(io::Error::other("of the closure"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "of the closure");
        assert_eq!(told.interrupted(), 3);
    });
}

fn a_failed_task_has_no_value<L: Leg>() {
    L::new().run(|| {
        let failed: Result<(), io::Error> = thread::task_group(|group| {
            let well = group.spawn(|| Ok(1));
            while !well.is_finished() {
                thread::yield_now();
            }
            let fails = group.spawn(|| Err::<(), _>(io::Error::other("of the task")));
            assert_eq!(fails.join(), Err(WaitError::Interrupted));
            assert!(group.is_cancelled());
            // It had ended before.
            assert_eq!(well.join(), Ok(1));
            Err(io::Error::other("too late"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "of the task");
    });
}

fn errors_are_dropped_once<L: Leg>() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    enum Error<'a> {
        Counted(#[expect(dead_code, reason = "it is only dropped")] Counted<'a>),
        Wait,
    }
    impl From<WaitError> for Error<'_> {
        fn from(_: WaitError) -> Self {
            Error::Wait
        }
    }
    L::new().run(|| {
        let dropped = AtomicUsize::new(0);
        let together = Barrier::new(3);
        let failed = thread::task_group(|group| {
            for _ in 0..3 {
                group.spawn(|| {
                    together.wait();
                    Err::<Counted<'_>, _>(Error::Counted(Counted(&dropped)))
                });
            }
            Ok(Counted(&dropped))
        });
        // Two errors and the closure's value.
        assert_eq!(dropped.load(SeqCst), 3);
        assert!(matches!(failed, Err(Error::Counted(_))));
        drop(failed);
        assert_eq!(dropped.load(SeqCst), 4);
    });
}

/// The message with which `f` panics.
fn message<T>(f: impl FnOnce() -> T) -> &'static str {
    let payload = catch_unwind(AssertUnwindSafe(|| drop(f()))).expect_err("it panics");
    payload.downcast_ref::<&'static str>().expect("a literal message")
}

fn the_panic_of_a_task_goes_on_in_its_owner<L: Leg>() {
    L::new().run(|| {
        for joined in [false, true] {
            let told = Told::default();
            let said = message(|| {
                thread::task_group(|group| {
                    (0..3).for_each(|_| drop(group.spawn(|| told.waits())));
                    told.wait_for(3);
                    let panics = group.spawn::<_, ()>(|| panic!("as the test wants"));
                    if joined {
                        assert_eq!(panics.join(), Err(WaitError::Interrupted));
                    }
                    io::Result::Ok(())
                })
            });
            assert_eq!((said, told.interrupted()), ("as the test wants", 3));
        }
    });
}

fn a_panic_goes_before_an_error<L: Leg>() {
    L::new().run(|| {
        let said = message(|| {
            thread::task_group(|group| {
                let began = AtomicBool::new(false);
                let began = Arc::new(began);
                let theirs = Arc::clone(&began);
                group.spawn::<_, ()>(move || {
                    theirs.store(true, SeqCst);
                    let _ = endless();
                    panic!("after the error");
                });
                while !began.load(SeqCst) {
                    thread::yield_now();
                }
                Err::<(), _>(io::Error::other("before"))
            })
        });
        assert_eq!(said, "after the error");
    });
}

fn the_panic_of_the_closure_waits_for_all<L: Leg>() {
    L::new().run(|| {
        let told = Told::default();
        let said = message(|| {
            thread::task_group(|group| -> io::Result<()> {
                (0..3).for_each(|_| drop(group.spawn(|| told.waits())));
                told.wait_for(3);
                panic!("of the closure");
            })
        });
        assert_eq!((said, told.interrupted()), ("of the closure", 3));
    });
}

fn an_interrupted_owner_waits_for_all<L: Leg>() {
    let rt = L::new();
    let told = Arc::new((Told::default(), Semaphore::new(0)));
    let theirs = Arc::clone(&told);
    let owner = rt.spawn(move || {
        let (told, go) = &*theirs;
        let ended = AtomicUsize::new(0);
        let outcome = thread::task_group(|group| {
            (0..3).for_each(|_| drop(group.spawn(|| told.waits())));
            // No interrupt ends this one.
            group.spawn(|| {
                told.began.fetch_add(1, SeqCst);
                go.acquire().forget();
                ended.fetch_add(1, SeqCst);
                Ok::<_, WaitError>(())
            });
            Ok(())
        });
        (outcome, ended.load(SeqCst), thread::take_interrupt())
    });
    told.0.wait_for(4);
    owner.thread().interrupt();
    while told.0.interrupted() != 3 {
        std::thread::yield_now();
    }
    assert!(!owner.is_finished());
    // It is cancelled already, and keeps this one.
    owner.thread().interrupt();
    assert!(!owner.is_finished());
    told.1.add_permits(1);
    assert_eq!(owner.join().unwrap(), (Err(WaitError::Interrupted), 1, true));
}

fn an_interrupt_that_comes_too_late_is_kept<L: Leg>() {
    L::new().run(|| {
        let outcome = TaskGroupBuilder::new().limit(1).run(|group| {
            let task = group.spawn(|| Ok(1));
            while !task.is_finished() {
                thread::yield_now();
            }
            thread::current().interrupt();
            // The value is there, and so is the room.
            let sum = task.join()? + 1;
            let other = group.spawn(|| Ok(1));
            while !other.is_finished() {
                thread::yield_now();
            }
            Ok::<_, WaitError>(sum)
        });
        assert_eq!((outcome, thread::take_interrupt()), (Ok(2), true));
    });
}

fn an_interrupted_join_cancels<L: Leg>() {
    L::new().run(|| {
        let told = Told::default();
        let outcome: Outcome = thread::task_group(|group| {
            let waits = group.spawn(|| told.waits());
            let joins = group.spawn(|| {
                told.began.fetch_add(1, SeqCst);
                // The interrupt is for this one; it is the group that ends by it.
                assert_eq!(waits.join(), Err(WaitError::Interrupted));
                Ok(())
            });
            told.wait_for(2);
            joins.thread().expect("it runs").interrupt();
            Ok(())
        });
        assert_eq!((outcome, told.interrupted()), (Err(WaitError::Interrupted), 1));
    });
}

fn a_failure_outside_cancels_inner_groups<L: Leg>() {
    L::new().run(|| {
        let told = Told::default();
        let inner = AtomicUsize::new(0);
        let failed: io::Result<()> = thread::task_group(|group| {
            for _ in 0..2 {
                group.spawn(|| {
                    let outcome: Outcome = thread::task_group(|group| {
                        for _ in 0..2 {
                            group.spawn(|| {
                                thread::task_group(|group| {
                                    group.spawn(|| told.waits::<WaitError>());
                                    Ok(())
                                })
                            });
                        }
                        Ok(())
                    });
                    inner.fetch_add(usize::from(outcome == Err(WaitError::Interrupted)), SeqCst);
                    Ok(())
                });
            }
            told.wait_for(4);
            Err(io::Error::other("outside"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "outside");
        assert_eq!((told.interrupted(), inner.load(SeqCst)), (4, 2));
    });
}

fn an_error_inside_goes_out<L: Leg>() {
    L::new().run(|| {
        let told = Told::default();
        let failed: io::Result<()> = thread::task_group(|group| {
            (0..2).for_each(|_| drop(group.spawn(|| told.waits())));
            group.spawn(|| {
                thread::task_group(|group| {
                    told.wait_for(2);
                    group.spawn(|| Err::<(), _>(io::Error::other("inside")));
                    Ok(())
                })
            });
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "inside");
        assert_eq!(told.interrupted(), 2);
    });
}

fn nothing_starts_after_the_group_is_cancelled<L: Leg>() {
    L::new().run(|| {
        let (owned, ran) = (Arc::new(()), AtomicBool::new(false));
        let failed: Outcome = thread::task_group(|group| {
            assert_eq!(group.spawn(|| Err::<(), _>(WaitError::TimedOut)).join(), Err(WaitError::Interrupted));
            let theirs = Arc::clone(&owned);
            let ran = &ran;
            let late = group.spawn(move || {
                let _theirs = theirs;
                ran.store(true, SeqCst);
                Ok(())
            });
            assert_eq!(Arc::strong_count(&owned), 1, "the closure is dropped");
            assert!(late.thread().is_none());
            late.join()
        });
        assert_eq!(failed, Err(WaitError::TimedOut));
        assert!(!ran.load(SeqCst));
    });
}

fn tasks_spawn_tasks<L: Leg>() {
    L::new().run(|| {
        let count = AtomicUsize::new(0);
        let told = Told::default();
        let failed: io::Result<()> = thread::task_group(|group| {
            for _ in 0..3 {
                group.spawn(|| {
                    count.fetch_add(group.spawn(|| Ok(2)).join()?, SeqCst);
                    group.spawn(|| told.waits());
                    Ok(())
                });
            }
            told.wait_for(3);
            Err(io::Error::other("enough"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "enough");
        assert_eq!((count.into_inner(), told.interrupted()), (6, 3));
    });
}

fn handles_may_be_dropped<L: Leg>() {
    L::new().run(|| {
        let ran = AtomicUsize::new(0);
        thread::task_group(|group| {
            for n in 0..30 {
                let task = group.spawn(|| {
                    thread::yield_now();
                    ran.fetch_add(1, SeqCst);
                    Ok(String::from("not joined"))
                });
                if n % 2 == 0 {
                    std::mem::forget(task);
                }
            }
            Ok::<_, WaitError>(())
        })
        .unwrap();
        assert_eq!(ran.into_inner(), 30);
    });
}

/// Tasks end at about the moment when another fails. Their cores are used again by threads that must know
/// nothing of it.
fn no_other_thread_is_interrupted<L: Leg>() {
    L::new().run(|| {
        for round in 0..100 {
            let over = AtomicBool::new(false);
            thread::scope(|s| {
                let spawner = s.spawn(|| {
                    while !over.load(SeqCst) {
                        assert!(!thread::spawn(thread::take_interrupt).join().unwrap());
                    }
                });
                let failed: Outcome = thread::task_group(|group| {
                    for n in 0..6 {
                        group.spawn(move || {
                            (0..(round + n) % 4).for_each(|_| thread::yield_now());
                            if n == 3 { Err(WaitError::TimedOut) } else { Ok(()) }
                        });
                    }
                    Ok(())
                });
                assert_eq!(failed, Err(WaitError::TimedOut));
                over.store(true, SeqCst);
                spawner.join().unwrap();
            });
            assert!(!thread::take_interrupt());
        }
    });
}

fn a_shutdown_ends_groups<L: Leg>() {
    let rt = L::new();
    let told = Arc::new(Told::default());
    let theirs = Arc::clone(&told);
    let owner = rt.spawn(move || {
        thread::task_group(|group| {
            (0..3).for_each(|_| drop(group.spawn(|| theirs.waits())));
            Ok::<_, WaitError>(())
        })
    });
    told.wait_for(3);
    rt.stop(Duration::from_secs(2)).unwrap();
    assert_eq!(owner.join().unwrap(), Err(WaitError::Interrupted));
    assert_eq!(told.interrupted(), 3);
}
