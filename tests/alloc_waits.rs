//! An allocator may have locks of this crate. A thread that starts another may then wait for one of them in
//! the middle of that, and go on on another LWP.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::ErrorKind;

use selvedge::sync::{Barrier, Mutex};
use selvedge::thread::{self, JoinHandle};
use selvedge::{Mxn, Runtime};
use watchdog::Watchdog;

struct Locked;

#[global_allocator]
static HEAP: Locked = Locked;

static LOCK: Mutex<()> = Mutex::new(());

/// The largest stack of a green thread.
const LARGEST: usize = 64 << 30;

thread_local! {
    /// The thread starts another, and the allocator locks.
    static SPAWNS: Cell<bool> = const { Cell::new(false) };
}

impl Locked {
    fn lock(&self) {
        if SPAWNS.replace(false) {
            // As if another thread held it.
            thread::yield_now();
            drop(LOCK.lock());
            SPAWNS.set(true);
        }
    }
}

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.lock();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        self.lock();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

/// Starts a thread, and waits for memory meanwhile. The closure is larger than the room that a thread has.
fn start_one() -> JoinHandle<u64> {
    let large = black_box([1_u64; 64]);
    SPAWNS.set(true);
    let handle = thread::spawn(move || large.iter().sum());
    SPAWNS.set(false);
    handle
}

/// Returns the number of the LWP that the calling thread is on, and how many threads were started there.
fn started_here(rt: &Mxn) -> (usize, u64) {
    let stats = rt.stats();
    let me = thread::current().id();
    let here = stats.lwps.iter().find(|lwp| lwp.thread == Some(me)).expect("it runs on an LWP");
    (here.number, here.spawned)
}

#[test]
fn a_thread_that_waits_for_memory_to_start_another_may_move() {
    const ROUNDS: usize = 200;
    let _watchdog = Watchdog::start("a thread that waits for memory to start another may move");
    // A thread of this runtime goes on on another LWP whenever it waits.
    let rt = Mxn::builder().concurrency(2).time_slice(None).migrate_always(true).build().unwrap();
    let moves = rt.run(|| {
        let (mut started, mut moves) = (BTreeMap::new(), 0);
        for _ in 0..ROUNDS {
            let (before, _) = started_here(&rt);
            let handle = start_one();
            let (number, spawned) = started_here(&rt);
            let started = started.entry(number).or_insert(0);
            *started += 1;
            assert_eq!(spawned, *started, "another LWP has counted it");
            assert_eq!(handle.join().unwrap(), 64);
            moves += usize::from(before != number);
        }
        moves
    });
    assert!(moves > 0, "it has not moved");
}

/// From now on the process may have some more address space, which is less than a stack of [`LARGEST`] takes.
fn limit_address_space() {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("proc");
    let pages: u64 = pages.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    // SAFETY: no memory is involved.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let bytes = (pages * page + LARGEST as u64 / 4 * 3) as libc::rlim_t;
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a local.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// If the address space is limited, to map stacks took memory from the allocator. A thread that went on on
/// another LWP then put the rest of the stacks where the LWP that it had left keeps its own.
#[test]
fn a_thread_that_waits_for_memory_to_get_a_stack_may_move() {
    const THREADS: usize = 4;
    let _watchdog = Watchdog::start("a thread that waits for memory to get a stack may move");
    limit_address_space();
    let rt = Mxn::builder().concurrency(2).time_slice(None).migrate_always(true).build().unwrap();
    let together = Barrier::new(THREADS);
    rt.run(|| {
        thread::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    // Each size has stacks of its own. The first are mapped when they are wanted.
                    for size in (13..25).flat_map(|power| [3 << (power - 1), 1 << power]) {
                        together.wait();
                        SPAWNS.set(true);
                        let handle = thread::Builder::new().stack_size(size).spawn(|| ());
                        SPAWNS.set(false);
                        handle.unwrap().join().unwrap();
                    }
                });
            }
        });
    });
}

/// The error of a stack that could not be mapped took memory, too. If a thread waits for that, others may
/// need the lock of the pool of stacks.
#[test]
fn a_thread_that_waits_for_memory_to_say_that_it_gets_no_stack_holds_up_no_other() {
    let _watchdog = Watchdog::start("a thread that waits for memory to say that it gets no stack");
    limit_address_space();
    let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
    let refused = || {
        SPAWNS.set(true);
        let spawned = thread::Builder::new().stack_size(LARGEST).spawn(|| ());
        SPAWNS.set(false);
        spawned.map(drop).unwrap_err().kind()
    };
    let refused = || thread::scope(|s| [(); 2].map(|()| s.spawn(refused)).map(|it| it.join().unwrap()));
    assert_eq!(rt.run(refused), [ErrorKind::OutOfMemory; 2]);
}
