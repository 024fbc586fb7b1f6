//! Calibration beside what changes a descriptor at any moment: the scheduler of the kernel, and threads that
//! begin and end.

use super::super::calibrate::Shape;
use super::super::symbols::Functions;
use super::alone;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Moves every thread of this process to processor `cpu`.
fn move_all_to(cpu: usize) {
    // SAFETY: a set of no processors.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is less than the size of a set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let tid = task.file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: a set of this size. Threads that have ended since are refused.
        unsafe { libc::sched_setaffinity(tid, size_of_val(&set), &raw const set) };
    }
}

/// glibc 2.35 and later keep the number of the processor, and the links of the list of threads, in the
/// descriptor.
#[test]
fn what_others_change_does_not_disturb_calibration() {
    if !alone("calibration::what_others_change_does_not_disturb_calibration") {
        return;
    }
    let functions = Functions::bind().unwrap();
    let ends = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            for cpu in [0, 1].into_iter().cycle() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                move_all_to(cpu);
            }
        });
        s.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                thread::spawn(|| ()).join().unwrap();
            }
        });
        // A busy machine takes long for each.
        let end = Instant::now() + Duration::from_secs(10);
        let shapes = (0..3000).map_while(|_| (Instant::now() < end).then(|| Shape::find(&functions)));
        let shapes: Vec<_> = shapes.collect();
        ends.store(true, Ordering::Relaxed);
        let expected = format!("{:?}", shapes[0].as_ref().unwrap());
        let odd =
            shapes.iter().filter(|shape| !matches!(shape, Ok(shape) if format!("{shape:?}") == expected));
        let odd: Vec<_> = odd.collect();
        assert!(odd.is_empty(), "{} of {}: {odd:?}; {expected}", odd.len(), shapes.len());
    });
}
