//! A green thread forks in a process with many stacks. In the child the C library gives the memory of all
//! other threads back, that of the LWP included.

use std::time::{Duration, Instant};

use super::fork::{in_child, panics_end_the_process};
use super::watchdog::Watchdog;
use super::{child, mxn};
use selvedge::{Runtime, thread};

/// Together more than the 40 MiB of stacks that glibc keeps for later threads.
const STACKS: usize = 40;
const STACK: usize = 2 << 20;

/// Long enough for the kernel to take the CPU away, and to say where the thread goes on.
const LONG_ENOUGH: Duration = Duration::from_millis(100);

fn a_green_thread_forks() {
    panics_end_the_process();
    // First: glibc gives back the memory of the oldest threads.
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
                    // The end of a thread is when glibc looks at what it keeps.
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
