//! Beside another process that computes, threads do not take turns on as many LWPs as there are CPUs. Each
//! gets an LWP, so the kernel deals the CPUs out as if all were kernel threads. (`benches/barriers.rs`,
//! *beside a load*, measures how close that comes.)

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::Runtime;

use crate::child;
use crate::ladder::{CONTROL, MIGRATING, ThreadRegister, builder, on, report};

/// What a load that is never ended does in the end.
const LONGEST: Duration = Duration::from_secs(100);
/// On a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Has half of the CPUs.
pub(crate) fn role() {
    let end = Instant::now() + LONGEST;
    std::thread::scope(|scope| {
        for _ in 0..cpus().div_ceil(2) {
            scope.spawn(|| {
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
            });
        }
    });
}

struct Load(Child);

impl Load {
    fn start() -> Self {
        let mut command = child::command("load", &[]);
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a child"),
        )
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many slots are handed off while four threads for each CPU compute, until there is one, for so long
/// at most.
fn handed_off(rung: ThreadRegister, slice: Option<Duration>, patience: Duration) -> u64 {
    let rt = builder(rung).time_slice(slice).build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let computes = || {
        let over = Arc::clone(&over);
        rt.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    };
    let threads: Vec<_> = (0..4 * cpus()).map(|_| computes()).collect();
    let end = Instant::now() + patience;
    while rt.stats().handed_off == 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    let handed_off = rt.stats().handed_off;
    over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    handed_off
}

#[test]
fn a_thread_that_computes_beside_another_process_gets_an_lwp() {
    on(MIGRATING, "threads that compute beside a load", |rung| {
        let _load = Load::start();
        let start = Instant::now();
        assert!(handed_off(rung, Some(Duration::from_millis(10)), PATIENCE) > 0, "{rung:?}: they took turns");
        report(format_args!("{rung:?}: the first was handed off after {:?}", start.elapsed()));
        assert_eq!(handed_off(rung, None, CONTROL), 0, "{rung:?}: no thread may lose its slot");
    });
}
