//! What the kernel says of the processor's counter, and the monotonic clock as a number.

use std::ffi::CStr;

use super::short_file::{ROOT, read_text};

/// The clock sources that the kernel considers usable. A counter that differs between CPUs, or changes its
/// rate, is not among them.
const SOURCES: &CStr = c"/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Returns `true` if the kernel says that the processor's counter advances at a constant rate, and is the
/// same on all CPUs.
pub(crate) fn counter_is_a_clock() -> bool {
    if cfg!(any(target_arch = "aarch64", target_arch = "riscv64")) {
        // The architectures guarantee it.
        return true;
    }
    let mut text = [0; 256];
    read_text(ROOT, SOURCES, &mut text).is_ok_and(|sources| sources.split_whitespace().any(|it| it == "tsc"))
}

/// The clock behind [`Instant`](std::time::Instant).
#[cfg(not(target_vendor = "apple"))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
#[cfg(target_vendor = "apple")]
const CLOCK: libc::clockid_t = libc::CLOCK_UPTIME_RAW;

/// Returns the monotonic clock, in ns. Neither allocates nor takes a lock.
pub(crate) fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written. The clock exists on every system with this file, so the call does not fail.
    unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// How many ns pass between two of the kernel's ticks at most: 100 a second are the fewest.
#[cfg(all(feature = "net", any(target_os = "linux", target_os = "android")))]
const TICK: u64 = 10_000_000;

/// Returns a time of the monotonic clock, in ns, that is not over yet, and at most two ticks ahead (20 ms). It
/// is some 20 ns faster: the kernel has noted the time of its last tick. If a tick of the kernel is late by
/// more than one, what this returns may be over, as with the kernel's own timeouts.
#[cfg(feature = "net")]
#[inline]
pub(crate) fn monotonic_ahead() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is written. Linux has this clock since 2.6.32, so the call does not fail.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned() + 2 * TICK
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    monotonic()
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "net")]
    #[test]
    fn what_is_ahead_is_not_over() {
        // A tick may come between the two. If the machine stands still, it is late.
        let is_ahead = || {
            let (before, ahead, after) = (super::monotonic(), super::monotonic_ahead(), super::monotonic());
            ahead >= before && ahead <= after + 20_000_000
        };
        let good = (0..100_000).filter(|_| is_ahead()).count();
        assert!(good > 99_000, "{good}");
    }

    #[test]
    fn the_clock_is_the_one_of_instants() {
        let (start, before) = (std::time::Instant::now(), super::monotonic());
        std::thread::sleep(std::time::Duration::from_millis(2));
        let (after, took) = (super::monotonic(), start.elapsed().as_nanos() as u64);
        assert!(after - before >= 2_000_000 && after - before <= took + 1_000_000, "{before} {after} {took}");
    }
}
