//! The frame of a preemption signal, and where the kernel puts it. With the frame on its own stack, a green
//! thread must not leave its kernel thread. No register may be lost.
//!
//! The tests run in processes of their own, because handlers belong to the process.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, thread};

use crate::ladder::{MIGRATING, ThreadRegister, builder, on, sized};
use crate::registers;
use crate::signals::{SLICE, gettid, in_a_process, install};

/// The number of signals that [`in_front`] has passed on.
static PASSED_ON: AtomicU64 = AtomicU64::new(0);
/// The handler that was installed before.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

type ThreeArguments = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Passes on all signals, as the handler of signal-hook-registry does.
extern "C" fn in_front(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    PASSED_ON.fetch_add(1, Ordering::Relaxed);
    // SAFETY: `handler_in_front` has stored Selvedge's handler, which takes three arguments.
    let before = unsafe { std::mem::transmute::<usize, ThreeArguments>(BEFORE.load(Ordering::Relaxed)) };
    before(signal, info, context);
}

/// Runs threads that compute in general, float and vector registers, with the stack pointer at each possible
/// alignment. They do so for a second, and on a slow machine until `enough` says so.
fn compute(rt: &Mxn, before_each_turn: fn(), enough: impl Fn() -> bool) {
    let least = sized(Duration::from_secs(1), Duration::from_secs(30));
    let most = least + Duration::from_secs(30);
    let ends = Arc::new(AtomicBool::new(false));
    let hog = |n: usize| {
        let ends = Arc::clone(&ends);
        rt.spawn(move || {
            let mut turns = 0;
            while !ends.load(Ordering::Relaxed) || turns < 8 {
                before_each_turn();
                registers::vectors(8 * ((n + turns) % 8));
                registers::general();
                turns += 1;
                // If the slot was handed off, the thread becomes preemptible again. A turn may be shorter
                // than a slice.
                if turns % 16 == 0 {
                    thread::yield_now();
                }
            }
        })
    };
    let begun = Instant::now();
    let hogs: Vec<_> = (0..8).map(hog).collect();
    while begun.elapsed() < least || (!enough() && begun.elapsed() < most) {
        std::thread::sleep(SLICE);
    }
    ends.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}

/// Returns `true` if the monitor has ended the slice of a thread.
fn has_ended_a_slice(rt: &Mxn) -> bool {
    let stats = rt.stats();
    stats.preempted + stats.handed_off > 0
}

/// The process: a handler installed later, without SA_ONSTACK, calls the one that preempts.
pub(crate) fn handler_in_front(rung: ThreadRegister) {
    // Without spares, slots are not handed off instead, as they would be where other processes have the CPUs.
    let rt = builder(rung).concurrency(2).max_lwps(2).time_slice(Some(SLICE)).build().unwrap();
    rt.run(|| ());
    // SAFETY: all zeroes is a valid value.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a query into a valid place.
    assert_eq!(unsafe { libc::sigaction(libc::SIGURG, ptr::null(), &raw mut before) }, 0);
    BEFORE.store(before.sa_sigaction, Ordering::Relaxed);
    install(libc::SIGURG, in_front, 0);
    let has_passed_on = || PASSED_ON.load(Ordering::Relaxed) > 0;
    compute(&rt, || (), has_passed_on);
    assert!(has_passed_on(), "no signal was sent: {}", rt.stats());
}

/// Disables the alternate stack of the caller's kernel thread, as some libraries do at their end.
fn disable_alternate_stack() {
    let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: from here on handlers run on the thread's own stack.
    assert_eq!(unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) }, 0);
}

/// The process: no kernel thread has an alternate stack.
pub(crate) fn no_alternate_stack(rung: ThreadRegister) {
    let rt = builder(rung).concurrency(2).time_slice(Some(SLICE)).build().unwrap();
    compute(&rt, disable_alternate_stack, || has_ended_a_slice(&rt));
    assert!(has_ended_a_slice(&rt), "no slice ended: {}", rt.stats());
}

/// The process: the kernel has no memory for the value of a signal. The default action of that signal is to
/// end the process.
pub(crate) fn no_signal_memory(rung: ThreadRegister) {
    let builder = builder(rung).preemption_signal(Some(libc::SIGUSR1));
    let rt = builder.concurrency(2).time_slice(Some(SLICE)).build().unwrap();
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit to read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const none) }, 0);
    compute(&rt, || (), || has_ended_a_slice(&rt));
    assert!(has_ended_a_slice(&rt), "no slice ended: {}", rt.stats());
}

/// The number of handlers that ended on another kernel thread than the one they began on.
static MOVED: AtomicU64 = AtomicU64::new(0);
/// The number of handlers that have ended.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// A handler that blocks no signal and takes longer than a slice.
extern "C" fn that_blocks_nothing(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let begun_on = gettid();
    let until = Instant::now() + 4 * SLICE;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
    MOVED.fetch_add(u64::from(gettid() != begun_on), Ordering::Relaxed);
}

/// The process: handlers with SA_NODEFER on green stacks.
pub(crate) fn handlers_that_block_nothing(rung: ThreadRegister) {
    install(libc::SIGUSR2, that_blocks_nothing, libc::SA_NODEFER);
    let rt = builder(rung).concurrency(2).time_slice(Some(SLICE)).build().unwrap();
    let signalled = || {
        // SAFETY: no memory is involved. This thread handles the signal before the call returns.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), gettid(), libc::SIGUSR2) };
    };
    compute(&rt, signalled, || HANDLED.load(Ordering::Relaxed) > 0);
    let [handled, moved] = [&HANDLED, &MOVED].map(|count| count.load(Ordering::Relaxed));
    eprintln!("\n  {rung:?}: {handled} handled, {}", rt.stats().preempted);
    assert!(handled > 0);
    assert_eq!(moved, 0, "of {handled} handlers, ended on another kernel thread than they had begun on");
}

/// The process: each thread has a different value in the base of GS.
#[cfg(target_arch = "x86_64")]
pub(crate) fn base_of_gs(rung: ThreadRegister) {
    use std::arch::asm;
    const FSGSBASE: libc::c_ulong = 2;
    // SAFETY: no memory is involved.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE == 0 {
        eprintln!("  skipped: the processor does not let programs write the base of GS");
        return;
    }
    let rt = builder(rung).concurrency(2).time_slice(Some(SLICE)).build().unwrap();
    let until = Instant::now() + sized(Duration::from_secs(1), Duration::from_secs(30));
    let hog = |n: u64| {
        rt.spawn(move || {
            let mut turns = 0;
            while Instant::now() < until || turns < 10 {
                let (mine, found) = ((n + 1) << 20, 0_u64);
                // SAFETY: the instructions are allowed, and the address is not used.
                let found = unsafe {
                    let mut found = found;
                    asm!(
                        "wrgsbase {mine}",
                        "2:", "dec {turns}", "jnz 2b",
                        "rdgsbase {found}",
                        mine = in(reg) mine,
                        turns = inout(reg) 200_000_u64 => _,
                        found = inout(reg) found,
                        options(nostack),
                    );
                    found
                };
                assert_eq!(found, mine, "the base of GS, after {turns} turns");
                turns += 1;
                thread::yield_now();
            }
        })
    };
    let hogs: Vec<_> = (0..16).map(hog).collect();
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    let stats = rt.stats();
    assert!(stats.preempted + stats.handed_off > 0, "no slice ended: {stats}");
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn base_of_gs(_rung: ThreadRegister) {
    eprintln!("  skipped: this is no x86-64");
}

#[test]
fn threads_are_preempted_where_signals_come_without_their_values() {
    on(MIGRATING, "no memory for signals", |rung| in_a_process("no signal memory", rung));
}

#[test]
fn a_handler_that_blocks_nothing_ends_where_it_began() {
    on(MIGRATING, "handlers that block nothing", |rung| in_a_process("blocks nothing", rung));
}

#[test]
fn a_preempted_thread_keeps_the_base_of_gs() {
    on(MIGRATING, "the base of GS", |rung| in_a_process("base of GS", rung));
}

#[test]
fn registers_outlive_a_preemption_handler_on_the_green_stack() {
    on(MIGRATING, "a handler in front", |rung| in_a_process("handler in front", rung));
}

#[test]
fn registers_outlive_preemption_without_an_alternate_stack() {
    on(MIGRATING, "no alternate stack", |rung| in_a_process("no alternate stack", rung));
}
