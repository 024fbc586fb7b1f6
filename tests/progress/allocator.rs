//! Many threads allocate, and lose their slices while they do. The allocator's locks are few (glibc's:
//! one for each of eight arenas a CPU), and a holder that does not run stops all others that come to the
//! same one. In the end it stops those that make LWPs, too, and so the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::Runtime;

use crate::ladder::{MIGRATING, builder, on, report, sized};

const THREADS: usize = 300;
/// Blocks that each thread has.
const BLOCKS: usize = 16;

/// Takes and gives back blocks too large for a thread's own cache, until `over`.
fn allocate(number: usize, turns: &AtomicUsize, over: &AtomicBool) {
    let mut blocks = [std::ptr::null_mut(); BLOCKS];
    let mut random = 7919 * number as u64 + 1;
    while !over.load(Ordering::Relaxed) {
        for _ in 0..100 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let block = &mut blocks[random as usize % BLOCKS];
            // SAFETY: from `malloc`, or null, and used no more.
            unsafe { libc::free(*block) };
            // SAFETY: takes nothing but a size.
            *block = unsafe { libc::malloc(1100 + (random >> 20) as usize % 30_000) };
        }
        turns.fetch_add(1, Ordering::Relaxed);
    }
    for block in blocks {
        // SAFETY: from `malloc`, or null, and used no more.
        unsafe { libc::free(block) };
    }
}

#[test]
fn threads_that_allocate_do_not_stop_each_other() {
    for slice in [Duration::from_micros(50), Duration::from_millis(10)] {
        on(MIGRATING, "300 threads that allocate", |rung| {
            let rt = builder(rung).concurrency(2).time_slice(Some(slice)).build().unwrap();
            let (turns, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let allocate = |number| {
                let (turns, over) = (Arc::clone(&turns), Arc::clone(&over));
                rt.spawn(move || allocate(number, &turns, &over))
            };
            let threads: Vec<_> = (0..THREADS).map(allocate).collect();
            let end = Instant::now() + sized(Duration::from_millis(500), Duration::from_secs(10));
            let mut longest = Duration::ZERO;
            while Instant::now() < end {
                let (since, before) = (Instant::now(), turns.load(Ordering::Relaxed));
                while turns.load(Ordering::Relaxed) == before {
                    std::thread::sleep(Duration::from_millis(1));
                    assert!(since.elapsed() < Duration::from_secs(20), "they stand still: {:?}", rt.info());
                }
                longest = longest.max(since.elapsed());
            }
            over.store(true, Ordering::Relaxed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let stats = rt.stats();
            report(format_args!(
                "{rung:?}, slices of {slice:?}: {turns:?} turns, none for {longest:.0?} at most; {} preempted, {} handed off",
                stats.preempted, stats.handed_off
            ));
        });
    }
}

/// A thread that is always found in the C library is preempted there, if no spare could take over.
#[test]
fn a_thread_that_is_always_in_the_library_takes_turns() {
    on(MIGRATING, "a thread that fills memory, one LWP", |rung| {
        let rt = builder(rung).concurrency(1).max_lwps(1).build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let filled = Arc::new(AtomicUsize::new(0));
        let fills = {
            let (over, filled) = (Arc::clone(&over), Arc::clone(&filled));
            rt.spawn(move || {
                let mut memory = vec![0_u8; 1 << 20];
                while !over.load(Ordering::Relaxed) {
                    memory.fill(std::hint::black_box(7));
                    filled.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        while filled.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let other = rt.spawn(|| ());
        assert!(other.join_timeout(Duration::from_secs(100)).is_ok(), "the other thread had no turn");
        over.store(true, Ordering::Relaxed);
        fills.join().unwrap();
    });
}
