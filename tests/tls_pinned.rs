//! The rung where the thread register cannot be switched: what threads then share, and that nothing migrates.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use selvedge::sync::{Barrier, Condvar, Mutex};
use selvedge::thread::ThreadId;
use selvedge::{Mxn, Runtime, ThreadRegister, thread};
use watchdog::Watchdog;

thread_local! {
    static LAST: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn kernel_thread() -> i64 {
    // SAFETY: no arguments, no effects.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

fn pinned(concurrency: usize) -> Mxn {
    let builder = Mxn::builder().concurrency(concurrency);
    // SAFETY: no test here keeps a stack discipline in a thread-local across a switch.
    unsafe { builder.pinned() }.build().expect("the runtime starts")
}

#[test]
fn it_says_what_it_is() {
    let _watchdog = Watchdog::start("it_says_what_it_is");
    assert_eq!(pinned(1).info().thread_register, Some(ThreadRegister::Pinned));
}

#[test]
fn thread_locals_belong_to_the_lwp() {
    let _watchdog = Watchdog::start("thread_locals_belong_to_the_lwp");
    pinned(1).run(|| {
        LAST.set(1);
        let addresses = thread::spawn(|| {
            // What another thread wrote: on this rung that is how it is, and why choosing it is unsafe.
            assert_eq!(LAST.replace(2), 1);
            LAST.with(|last| std::ptr::from_ref(last).addr())
        });
        let theirs = addresses.join().expect("the thread");
        assert_eq!(LAST.get(), 2);
        assert_eq!(LAST.with(|last| std::ptr::from_ref(last).addr()), theirs);
        // errno likewise.
        // SAFETY: no preconditions.
        let mine = unsafe { libc::__errno_location() }.addr();
        // SAFETY: no preconditions.
        let theirs = thread::spawn(|| unsafe { libc::__errno_location() }.addr()).join().expect("the thread");
        assert_eq!(mine, theirs);
    });
}

#[test]
fn a_thread_stays_where_it_first_ran() {
    const SIZE: usize = 64;
    const ROUNDS: usize = 50;
    let _watchdog = Watchdog::start("a_thread_stays_where_it_first_ran");
    // A thread belongs to the LWP that first ran it; which one, the test learns from the thread itself.
    let homes = pinned(4).run(|| {
        let barrier = Arc::new(Barrier::new(SIZE));
        let turn = Arc::new((Mutex::new(0_usize), Condvar::new()));
        let start = |index| {
            let (barrier, turn) = (barrier.clone(), turn.clone());
            thread::spawn(move || {
                let home = (kernel_thread(), LAST.with(|last| std::ptr::from_ref(last).addr()));
                let check = || {
                    assert_eq!(kernel_thread(), home.0, "it migrated");
                    assert_eq!(LAST.with(|last| std::ptr::from_ref(last).addr()), home.1);
                };
                for _ in 0..ROUNDS {
                    thread::yield_now();
                    check();
                    barrier.wait();
                    check();
                }
                let (lock, changed) = &*turn;
                let mut turn = lock.lock();
                while *turn != index {
                    changed.wait(&mut turn);
                    check();
                }
                *turn += 1;
                changed.notify_all();
                drop(turn);
                thread::sleep(std::time::Duration::from_micros(100));
                check();
                home
            })
        };
        let threads: Vec<_> = (0..SIZE).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect::<Vec<_>>()
    });
    // One set of thread-locals for each LWP, and no more.
    let mut of_lwp = HashMap::new();
    for (lwp, address) in homes {
        assert_eq!(*of_lwp.entry(lwp).or_insert(address), address);
    }
}

/// Thread-locals are destroyed at the end of the LWP, where no green thread runs any more.
#[test]
fn destructors_at_the_end_of_an_lwp_run_in_no_green_thread() {
    struct Notes;

    impl Drop for Notes {
        fn drop(&mut self) {
            *DESTROYED_BY.lock() = Some(thread::current().id());
        }
    }

    static DESTROYED_BY: Mutex<Option<ThreadId>> = Mutex::new(None);
    thread_local! {
        static NOTES: Notes = const { Notes };
    }

    let _watchdog = Watchdog::start("destructors_at_the_end_of_an_lwp_run_in_no_green_thread");
    let rt = pinned(1);
    let of = rt.spawn(|| {
        NOTES.with(|_| ());
        thread::current().id()
    });
    let green = of.join().unwrap();
    drop(rt);
    let destroyed_by = DESTROYED_BY.lock().expect("the runtime has ended, and its LWPs with it");
    assert_ne!(destroyed_by, green);
}
