//! A program with large static thread-locals, which the C library puts on the stacks of kernel threads.
//!
//! With 200 KiB of thread-locals, a stack of 128 KiB used to be refused. With 100 KiB, none of it was usable.

#[path = "support/unseen.rs"]
mod unseen;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::cell::Cell;

use selvedge::{Mxn, OneToOne, Runtime, thread};
use watchdog::Watchdog;

const SIZE: usize = 200 << 10;

thread_local! {
    static LARGE: [Cell<u8>; SIZE] = const { [const { Cell::new(1) }; SIZE] };
}

/// Checks that the thread-locals are fresh, and writes all of them.
fn use_all() -> usize {
    LARGE.with(|large| {
        let sum = large.iter().map(|byte| usize::from(byte.replace(2))).sum();
        thread::yield_now();
        assert!(large.iter().all(|byte| byte.get() == 2));
        sum
    })
}

fn threads_of<R: Runtime>(rt: &R) {
    for bound in [false, true] {
        let start = || rt.spawn_with(thread::Builder::new().bound(bound), use_all).expect("a thread");
        let threads: Vec<_> = (0..8).map(|_| start()).collect();
        for thread in threads {
            assert_eq!(thread.join().expect("it only counts"), SIZE);
        }
    }
}

#[test]
fn kernel_threads_have_room_beside_them() {
    let _watchdog = Watchdog::start("kernel_threads_have_room_beside_them");
    let rt = Mxn::builder().concurrency(2).build().expect("the runtime starts");
    threads_of(&rt);
    // The reserve and the monitor work, too.
    rt.set_concurrency(4).expect("more slots");
    rt.run(|| {
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| thread::blocking(|| unseen::sleep(std::time::Duration::from_millis(20))));
            }
        });
    });
    threads_of(&rt);
    threads_of(&OneToOne::new().expect("the runtime starts"));
}

/// A stack has the requested size, whatever room the thread-locals take.
#[test]
fn small_stacks_of_kernel_threads_are_usable() {
    let _watchdog = Watchdog::start("small_stacks_of_kernel_threads_are_usable");
    #[inline(never)]
    fn dive(left: usize) -> usize {
        let frame = std::hint::black_box([1_u8; 1024]);
        if left < 2048 { 1 } else { dive(left - 1024) + usize::from(frame[left % 1024]) }
    }
    let builder = || thread::Builder::new().bound(true).stack_size(128 << 10);
    for _ in 0..2 {
        let rt = OneToOne::new().expect("the runtime starts");
        let deep = rt.spawn_with(builder(), || dive(64 << 10)).expect("a thread");
        assert!(deep.join().expect("it has room") > 1);
        let rt = Mxn::new().expect("the runtime starts");
        let deep = rt.spawn_with(builder(), || dive(64 << 10)).expect("a thread");
        assert!(deep.join().expect("it has room") > 1);
    }
}
