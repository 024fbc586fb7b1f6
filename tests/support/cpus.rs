//! On which CPUs the kernel threads of this process may run.

use std::fs;
use std::io;

type Mask = [u64; 128];

/// The CPUs that a kernel thread may run on, in ascending order; 0: the calling one. `None`: it has ended.
pub(crate) fn of(tid: u32) -> Option<Vec<usize>> {
    let mut mask: Mask = [0; 128];
    // SAFETY: room for a mask of this size.
    let result =
        unsafe { libc::sched_getaffinity(tid.cast_signed(), size_of::<Mask>(), (&raw mut mask).cast()) };
    let words = mask.iter().enumerate().filter(|(_, word)| **word != 0);
    let cpus = words
        .flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 64 * at + bit));
    (result == 0).then(|| cpus.collect())
}

/// The CPUs that the calling kernel thread may run on.
pub(crate) fn mine() -> Vec<usize> {
    of(0).expect("a mask")
}

/// Has a kernel thread run on these CPUs; 0: the calling one. It may have ended.
pub(crate) fn send(tid: u32, cpus: &[usize]) {
    let mut mask: Mask = [0; 128];
    cpus.iter().for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
    // SAFETY: a mask of this size.
    let result =
        unsafe { libc::sched_setaffinity(tid.cast_signed(), size_of::<Mask>(), (&raw const mask).cast()) };
    let error = io::Error::last_os_error();
    assert!(result == 0 || error.raw_os_error() == Some(libc::ESRCH), "{error}");
}

/// Has all kernel threads of this process run on these CPUs, as `taskset --all-tasks --pid` does.
pub(crate) fn send_all(cpus: &[usize]) {
    all().into_iter().for_each(|tid| send(tid, cpus));
}

/// All kernel threads of this process.
pub(crate) fn all() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").expect("a /proc").map(|task| task.expect("a task"));
    tasks.map(|task| task.file_name().to_string_lossy().parse().expect("a number")).collect()
}
