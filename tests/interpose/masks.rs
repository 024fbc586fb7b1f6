//! Signal masks of green threads, which are preempted meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};
use std::{mem, ptr};

use selvedge::{Mxn, Runtime, ThreadRegister};

use crate::watchdog::Watchdog;

/// Returns what the kernel thread blocks.
fn kernel_mask() -> u64 {
    let mut mask = 0_u64;
    // SAFETY: a place for the kernel's eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, ptr::null::<u64>(), &raw mut mask, 8) };
    mask
}

/// Makes the running thread block one signal, and no other.
fn block_only(signal: i32) {
    // SAFETY: plain data, filled in below.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: a valid place.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: an initialized set and an existing signal.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: an initialized set.
    assert_eq!(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut()) }, 0);
}

/// Computes, and waits now and then, until `over`. Its mask, and that of a thread that it starts, are its own
/// all the time.
fn keeps(signal: i32, over: &AtomicBool) {
    block_only(signal);
    let own = 1 << (signal - 1);
    let mut rounds = 0_u32;
    while !over.load(Relaxed) {
        assert_eq!(kernel_mask(), own);
        for _ in 0..10_000 {
            std::hint::spin_loop();
        }
        rounds += 1;
        match rounds % 200 {
            0 => thread::spawn(move || assert_eq!(kernel_mask(), own)).join().unwrap(),
            100 => thread::yield_now(),
            _ => {}
        }
    }
}

#[test]
fn a_preempted_thread_keeps_its_mask() {
    for rung in [ThreadRegister::Switched, ThreadRegister::Syscall] {
        let slice = Duration::from_millis(1);
        let builder = Mxn::builder().thread_register(rung).concurrency(1).max_lwps(1).time_slice(Some(slice));
        let rt = match builder.green_std_threads(true).build() {
            Ok(rt) => rt,
            Err(error) => {
                eprintln!("skipped: {rung}: {error}");
                continue;
            }
        };
        let _watchdog = Watchdog::start(format!("masks, {rung}"));
        let over = Arc::new(AtomicBool::new(false));
        let threads = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM].map(|signal| {
            let over = Arc::clone(&over);
            rt.spawn(move || keeps(signal, &over))
        });
        let start = Instant::now();
        let preempts = rt.stats().preempts_by_signal;
        while preempts && rt.stats().preempted < 20 && start.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        over.store(true, Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
        eprintln!("  {rung}: {} preemptions", rt.stats().preempted);
        assert!(!preempts || rt.stats().preempted > 0, "{}", rt.stats());
    }
}
