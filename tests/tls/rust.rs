//! What Rust's standard library keeps in thread-locals, used as any crate uses it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::sync::{Barrier, Condvar, Mutex};
use selvedge::thread;

use super::crew::{HOPS, crew};

thread_local! {
    static MARK: Cell<u8> = const { Cell::new(0) };
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static LIST: RefCell<Vec<usize>> = RefCell::new(vec![usize::MAX]);
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// Where this thread's thread-locals live: constant for a thread, different for any two at once.
fn home() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

/// Counts its drops, apart for those that happen away from home.
struct Noted {
    home: usize,
    drops: Arc<[AtomicUsize; 2]>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.drops[usize::from(home() != self.home)].fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn destructors_run_once_at_home_before_join() -> usize {
    const SIZE: usize = 32;
    let drops = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let theirs = drops.clone();
    let migrations = crew(SIZE, move |member| {
        NOTED.set(Some(Noted { home: home(), drops: theirs.clone() }));
        // Registered after NOTED, so destroyed in whatever order std likes, but both.
        LIST.with_borrow_mut(|list| list.push(member.index));
        for _ in 0..HOPS {
            member.hop();
        }
    });
    // `crew` has joined all of them.
    assert_eq!(drops[0].load(Ordering::Relaxed), SIZE, "dropped on the thread they belong to");
    assert_eq!(drops[1].load(Ordering::Relaxed), 0, "dropped on another thread");
    migrations
}

pub(crate) fn values_and_addresses_stay_with_their_thread() -> usize {
    let homes = Arc::new(Mutex::new(HashSet::new()));
    let all_here = Arc::new(Barrier::new(24));
    crew(24, move |member| {
        let start = home();
        assert!(homes.lock().insert(start), "two living threads share their thread-locals");
        all_here.wait();
        assert_eq!(LIST.with_borrow(Vec::clone), [usize::MAX], "not initialised for this thread");
        for round in 0..HOPS {
            COUNT.set(member.index << 16 | round);
            LIST.with_borrow_mut(|list| list.push(round));
            member.hop();
            assert_eq!(COUNT.get(), member.index << 16 | round);
            assert_eq!(home(), start);
        }
        LIST.with_borrow(|list| assert!(list[1..].iter().copied().eq(0..HOPS)));
    })
}

pub(crate) fn a_borrow_survives_every_kind_of_blocking() -> usize {
    const SIZE: usize = 16;
    let turn = Arc::new((Mutex::new(0_usize), Condvar::new()));
    let barrier = Arc::new(Barrier::new(SIZE));
    crew(SIZE, move |member| {
        for round in 0..HOPS / 10 {
            LIST.with(|list| {
                let mut list = list.borrow_mut();
                list.push(round);
                // A mutex that the others contend for, a condition that another thread makes true, a barrier.
                member.across(|| {
                    let (lock, changed) = &*turn;
                    let mut turn = lock.lock();
                    while *turn % SIZE != member.index {
                        changed.wait(&mut turn);
                    }
                    *turn += 1;
                    changed.notify_all();
                });
                member.across(|| barrier.wait());
                member.across(|| thread::sleep(Duration::from_micros(10)));
                // A park that a child ends, and a join: both while this thread's list is borrowed.
                let me = thread::current();
                let child = thread::spawn(move || {
                    // The child has a list of its own.
                    LIST.with_borrow_mut(|own| own.push(1));
                    me.unpark();
                    LIST.with_borrow(Vec::len)
                });
                member.across(thread::park);
                assert_eq!(member.across(|| child.join()).expect("the child"), 2);
                assert_eq!(list.last(), Some(&round));
            });
        }
        assert_eq!(LIST.with_borrow(Vec::len), 1 + HOPS / 10);
    })
}

pub(crate) fn std_knows_the_thread() -> usize {
    let ids = Arc::new(Mutex::new(HashSet::new()));
    let all_here = Arc::new(Barrier::new(24));
    crew(24, move |member| {
        let id = std::thread::current().id();
        assert!(ids.lock().insert(id), "two living threads have one id");
        all_here.wait();
        for _ in 0..HOPS {
            member.hop();
            assert_eq!(std::thread::current().id(), id);
            assert!(!std::thread::panicking());
        }
    })
}

pub(crate) fn a_stdout_lock_survives_a_park() -> usize {
    let inside = Arc::new(AtomicUsize::new(0));
    // Waiting for this lock blocks the LWP in the kernel, so fewer threads than LWPs.
    crew(3, move |member| {
        for _ in 0..HOPS / 10 {
            let mut out = std::io::stdout().lock();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two threads hold the lock");
            for _ in 0..4 {
                member.hop();
                // It is reentrant: std must see that the same thread asks again, on whichever LWP.
                let mut again = std::io::stdout().lock();
                again.write_all(b"").expect("standard output");
            }
            member.across(|| thread::park_timeout(Duration::from_micros(50)));
            out.flush().expect("standard output");
            inside.fetch_sub(1, Ordering::SeqCst);
            drop(out);
            member.hop();
        }
    })
}

/// Hops while its thread unwinds.
struct HopsInDrop<'a>(&'a super::crew::Member);

impl Drop for HopsInDrop<'_> {
    fn drop(&mut self) {
        for _ in 0..4 {
            assert!(std::thread::panicking());
            self.0.hop();
        }
        assert!(std::thread::panicking());
    }
}

pub(crate) fn panics_stay_with_their_thread() -> usize {
    crew(16, |member| {
        for round in 0..HOPS / 10 {
            if member.index % 2 == 0 {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    let _guard = HopsInDrop(member);
                    // Without the hook's message: there would be hundreds.
                    std::panic::resume_unwind(Box::new((member.index, round)));
                }));
                let payload =
                    caught.expect_err("it panicked").downcast::<(usize, usize)>().expect("its payload");
                assert_eq!(*payload, (member.index, round));
            }
            for _ in 0..4 {
                assert!(!std::thread::panicking(), "another thread's panic");
                member.hop();
            }
        }
    })
}

pub(crate) fn recycled_threads_start_fresh() -> usize {
    let drops = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let ids = Arc::new(Mutex::new(HashSet::new()));
    let (theirs, seen) = (drops.clone(), ids.clone());
    let mut migrations = 0;
    for life in 0..300 {
        let (drops, ids) = (theirs.clone(), seen.clone());
        migrations += crew(1, move |member| {
            assert!(ids.lock().insert(std::thread::current().id()), "the id of an earlier thread");
            assert_eq!(COUNT.replace(life + 1), 0, "the value of an earlier thread");
            assert_eq!(LIST.take(), [usize::MAX]);
            assert!(NOTED.replace(Some(Noted { home: home(), drops: drops.clone() })).is_none());
            // SAFETY: no preconditions.
            let errno = unsafe { libc::__errno_location() };
            // If it is a kernel thread, std has made system calls before this.
            // SAFETY: this thread's own.
            assert_ne!(unsafe { errno.read() }, 99, "errno of an earlier thread");
            assert!(!std::thread::panicking());
            member.hop();
            member.hop();
            // Last: a hop may set it.
            // SAFETY: this thread's own.
            unsafe { errno.write(99) };
        });
    }
    assert_eq!([drops[0].load(Ordering::Relaxed), drops[1].load(Ordering::Relaxed)], [300, 0]);
    assert_eq!(ids.lock().len(), 300);
    migrations
}

pub(crate) fn kernel_threads_can_be_started_and_joined() -> usize {
    crew(4, |member| {
        for round in 0..HOPS / 20 {
            let child = std::thread::spawn(move || {
                COUNT.set(round);
                COUNT.get()
            });
            member.hop();
            assert_eq!(child.join().expect("the kernel thread"), round);
        }
    })
}

pub(crate) fn channels_of_std_keep_their_thread_local_context() -> usize {
    let (to, from) = std::sync::mpsc::sync_channel::<usize>(0);
    let ends = Arc::new((Mutex::new(Some(to)), Mutex::new(Some(from))));
    // Each rendezvous parks in the kernel: one pair, so that LWPs are left.
    crew(2, move |member| {
        if member.index == 0 {
            let to = ends.0.lock().take().expect("the sender");
            for n in 0..HOPS / 4 {
                to.send(n).expect("the receiver lives");
                member.hop();
            }
        } else {
            let from = ends.1.lock().take().expect("the receiver");
            for n in 0..HOPS / 4 {
                assert_eq!(from.recv(), Ok(n));
                member.hop();
            }
        }
    })
}
