//! Where the kernel may put the calling thread, and the threads that it starts.

use std::io;

/// The CPUs that the calling thread may run on.
pub(crate) fn allowed() -> Vec<usize> {
    // SAFETY: all zeroes is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable and as large as is said; 0 is the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    assert_eq!(result, 0, "sched_getaffinity: {}", io::Error::last_os_error());
    // SAFETY: no CPU of the range lies outside of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Keeps the calling thread, and the threads that it starts from now on, on one CPU.
pub(crate) fn pin(cpu: usize) {
    // SAFETY: all zeroes is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` came from such a set, so it lies within.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is readable and as large as is said; 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(result, 0, "sched_setaffinity: {}", io::Error::last_os_error());
}
