//! A green thread forks in a process with many stacks. In the child the C library frees the stacks of all
//! other threads, including that of the LWP.

use std::time::{Duration, Instant};

use super::forked::{in_child, panics_end_the_process};
use super::watchdog::Watchdog;
use super::{child, mxn};
use selvedge::{Runtime, thread};

/// Together these stacks take more than the 40 MiB that glibc keeps for later threads.
const STACKS: usize = 40;
const STACK: usize = 2 << 20;

/// Long enough for the kernel to preempt the thread, and to report the CPU on which it continues.
const LONG_ENOUGH: Duration = Duration::from_millis(100);

fn a_green_thread_forks() {
    panics_end_the_process();
    // The runtime comes first, because glibc frees the stacks of the oldest threads.
    let rt = mxn();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let stopped = std::sync::Mutex::new(stopped);
    std::thread::scope(|s| {
        for _ in 0..STACKS {
            let wait = || _ = stopped.lock().map(|stopped| stopped.recv());
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(s, wait).expect("a thread");
        }
        rt.run(|| {
            for _ in 0..5 {
                in_child(|| {
                    // glibc frees cached stacks when a thread ends.
                    for _ in 0..4 {
                        std::thread::spawn(|| ()).join().expect("it does nothing");
                    }
                    let start = Instant::now();
                    while start.elapsed() < LONG_ENOUGH {
                        std::thread::sleep(Duration::from_micros(100));
                        std::thread::yield_now();
                    }
                    thread::sleep(Duration::from_millis(1));
                });
            }
        });
        drop(stop);
    });
}

pub(crate) const ROLES: &[(&str, fn())] = &[("large", a_green_thread_forks)];

#[test]
fn a_child_of_a_green_thread_lives_on_where_its_lwps_memory_is_gone() {
    let _watchdog = Watchdog::start("a_child_of_a_green_thread_lives_on_where_its_lwps_memory_is_gone");
    child::run("large", &[]).expect_success();
}
