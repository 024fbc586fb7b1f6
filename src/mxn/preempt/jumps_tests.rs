//! Handlers of the program that leave by a jump while a thread is preempted. C allows that if the interrupted
//! code calls nothing that is unsafe in handlers, and a preempted thread has called nothing.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use std::{mem, ptr};

use crate::arch::jump_probe::{Landing, count_down, jump};
use crate::mxn::Mxn;
use crate::mxn::green::Green;
use crate::mxn::lwp::preempt_request::{Manner, Preemption};
use crate::mxn::sched::Scheduler;
use crate::park::{current, no_preempt};
use crate::runtime::Runtime;
use crate::sys::child_tests::isolated;
use crate::sys::{kthread, preempt};

/// How many jumps were taken.
static JUMPS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The target of a jump, while the thread may be moved there. The handler reads it.
    static LANDING: Cell<*mut Landing> = const { Cell::new(ptr::null_mut()) };
}

extern "C" fn leave_by_jump(_: c_int) {
    let landing = LANDING.replace(ptr::null_mut());
    if !landing.is_null() {
        JUMPS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: this very thread is in `count_down`. The jump abandons only that loop, or the call before
        // it.
        unsafe { jump(landing) };
    }
}

fn action(handler: usize, flags: c_int) -> libc::sigaction {
    // SAFETY: plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags | libc::SA_RESTART;
    action
}

fn handle(signal: c_int, action: libc::sigaction) {
    // SAFETY: the handler has the type that the flags ask for.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }, 0);
}

/// The handler of the preemption signal, and how often it has called a thread away.
static PREEMPTS: AtomicUsize = AtomicUsize::new(0);
static CALLED_AWAY: AtomicU64 = AtomicU64::new(0);

type ThreeArguments = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Runs before that handler. If a thread is to be preempted, another signal arrives before the thread's next
/// instruction, unless signals are blocked. Its handler leaves by a jump.
extern "C" fn in_front(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the handler that was installed, a function of three arguments.
    let preempts = unsafe { mem::transmute::<usize, ThreeArguments>(PREEMPTS.load(Ordering::Relaxed)) };
    // SAFETY: the kernel's signal frame.
    let pc = || unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] };
    let before = pc();
    preempts(signal, info, context);
    if pc() != before {
        CALLED_AWAY.fetch_add(1, Ordering::Relaxed);
        send(kthread::gettid(), libc::SIGUSR1);
    }
}

fn send(tid: libc::pid_t, signal: c_int) {
    // SAFETY: no memory is involved. A kernel thread that has ended does not get the signal.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, signal) };
}

/// Does what the monitor does when the slice of the caller is over.
extern "C" fn ask_myself_to_leave() {
    let me = current::try_current().expect("a green thread");
    // SAFETY: the runtime has green threads only.
    let lwp = unsafe { Green::of(me) }.lwp();
    // The caller may be on another LWP by now: then it just goes on.
    Scheduler::of(me).ask_to_leave(lwp, Preemption { tick: lwp.tick.get(), manner: Manner::Anywhere });
}

/// Sends signals to LWPs at any time.
fn shoot(scheduler: &'static Scheduler, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        for lwp in scheduler.pool.lwps() {
            let tid = lwp.life.tid().cast_signed();
            if tid != 0 && lwp.running().is_some() {
                send(tid, libc::SIGUSR2);
            }
        }
        std::thread::sleep(Duration::from_micros(10));
    }
}

#[test]
fn a_handler_may_leave_a_preempted_thread_by_a_jump() {
    isolated(concat!(module_path!(), "::a_handler_may_leave_a_preempted_thread_by_a_jump"), || {
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        if !rt.scheduler.signals {
            println!("skipped: threads are not preempted by signal");
            return;
        }
        let mut before = action(0, 0);
        // SAFETY: a query that writes to a local variable.
        assert_eq!(unsafe { libc::sigaction(libc::SIGURG, ptr::null(), &raw mut before) }, 0);
        PREEMPTS.store(before.sa_sigaction, Ordering::Relaxed);
        let (jump, in_front): (extern "C" fn(c_int), ThreeArguments) = (leave_by_jump, in_front);
        handle(libc::SIGUSR1, action(jump as usize, libc::SA_ONSTACK));
        handle(libc::SIGUSR2, action(jump as usize, 0));
        let mut first = action(in_front as usize, libc::SA_ONSTACK | libc::SA_SIGINFO);
        first.sa_mask = before.sa_mask;
        handle(libc::SIGURG, first);
        let hog = |_| {
            rt.spawn(move || {
                let mask = preempt::baseline_mask();
                let place = LANDING.with(Cell::as_ptr);
                for round in 0..500 {
                    count_down(place, mask.bits(), ask_myself_to_leave, 3_000);
                    assert!(
                        no_preempt::is_allowed(),
                        "the thread cannot be preempted any more, in round {round}"
                    );
                    assert_eq!(preempt::baseline_mask(), mask, "the signals that are blocked");
                }
            })
        };
        let hogs: Vec<_> = (0..8).map(hog).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| shoot(rt.scheduler.forever(), &over));
            let ends: Vec<_> = hogs.into_iter().map(|hog| hog.join()).collect();
            over.store(true, Ordering::Relaxed);
            ends.into_iter().for_each(|end| end.unwrap());
        });
        let [jumps, called_away] = [&JUMPS, &CALLED_AWAY].map(|count| count.load(Ordering::Relaxed));
        assert!(jumps > 0 && called_away > 100, "{jumps} jumps, {called_away} preemptions");
    });
}
