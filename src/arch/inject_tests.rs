//! Injected calls by themselves: signals as fast as they come, and every register looked at.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{mem, ptr};

use super::inject::probe::{FOUND, GARBAGE, Spoil, State, has_tiles, inject_carelessly, is_possible};
use super::*;
use crate::sys::child::isolated;
use crate::sys::kthread::gettid;
use crate::sys::preempt::{self, Interrupted};
use crate::sys::sigstack::AltStack;

thread_local! {
    /// How far down this thread may be interrupted; 0 while it may not.
    static FLOOR: Cell<usize> = const { Cell::new(0) };
}

/// Runs `body` so that it can be interrupted: on this kernel thread's own stack.
fn interruptible<R>(body: impl FnOnce() -> R) -> R {
    let here = 0_u8;
    FLOOR.set((&raw const here).addr() - (512 << 10));
    let got = body();
    FLOOR.set(0);
    got
}

static DONE: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// Injects a call of `F` wherever it may.
fn decide<F: Injected>(interrupted: &mut Interrupted<'_>) {
    // SAFETY: as `inject` wants it: `may` has looked for room.
    may(interrupted)
        .then(|| unsafe { interrupted.redirect(|sp, pc, state| inject::inject::<F>(sp, pc, state)) });
}

fn may(interrupted: &Interrupted<'_>) -> bool {
    let room = inject::room(interrupted.machine_state()).expect("state that cannot be saved");
    let floor = FLOOR.get();
    let may = floor != 0 && interrupted.sp() > floor + room;
    if !may {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
    may
}

/// Counts. Not interrupted itself, because what it is told in is there once.
struct Count;

impl Injected for Count {
    extern "C" fn call() {
        let floor = FLOOR.replace(0);
        DONE.fetch_add(1, Ordering::Relaxed);
        FLOOR.set(floor);
    }
}

/// Sends the calling kernel thread a signal every 20 us, until dropped. By a timer, because on a busy machine another
/// thread would hardly ever run while this one does; the timer's own signal is the foreign one here, and relayed.
struct Bombardment(libc::timer_t);

impl Bombardment {
    fn begin() -> Self {
        extern "C" fn relay(_: libc::c_int) {
            // Blocked in here, so it comes when this handler has returned, to the same instruction.
            preempt::send(gettid()).unwrap();
        }
        let handler: extern "C" fn(libc::c_int) = relay;
        // SAFETY: plain data, for which zero is valid.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: a set to write.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        // SAFETY: plain data, for which zero is valid.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGVTALRM;
        event.sigev_notify_thread_id = gettid();
        let mut timer = ptr::null_mut();
        let every = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
        let when = libc::itimerspec { it_interval: every, it_value: every };
        // SAFETY: the handler is async-signal-safe; the rest are valid places.
        unsafe {
            assert_eq!(libc::sigaction(libc::SIGVTALRM, &raw const action, ptr::null_mut()), 0);
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
            assert_eq!(libc::timer_settime(timer, 0, &raw const when, ptr::null_mut()), 0);
        }
        Self(timer)
    }
}

impl Drop for Bombardment {
    fn drop(&mut self) {
        // SAFETY: made above.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Holds states in all registers under fire until `count` calls were injected, and gives what differed.
fn hold_under_fire(count: usize, tiles: bool) -> Vec<String> {
    let _alternate = AltStack::install().unwrap();
    let states: Vec<_> = (0..12).map(|seed| State::filled(seed, tiles && seed % 2 == 0)).collect();
    let mut after = State::filled(0, false);
    let mut wrong = Vec::new();
    let _bombardment = Bombardment::begin();
    while wrong.is_empty() && DONE.load(Ordering::Relaxed) < count {
        for state in &states {
            interruptible(|| state.hold(&mut after, 2_000));
            wrong.extend(after.differences(state));
        }
    }
    wrong
}

/// Asks the kernel for the permission to use tiles.
fn ask_for_tiles() -> bool {
    const ARCH_REQ_XCOMP_PERM: i32 = 0x1023;
    const TILE_DATA: u64 = 18;
    // SAFETY: no memory is involved.
    has_tiles() && unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) } == 0
}

/// Whether these tests say anything here: valgrind knows nothing of extended state in signal frames.
fn possible() -> bool {
    let possible = is_possible() && !valgrind::is_running();
    if !possible {
        println!("skipped: no xsave, or inside valgrind");
    }
    possible
}

#[test]
fn every_register_survives_ten_thousand_injected_calls() {
    isolated(concat!(module_path!(), "::every_register_survives_ten_thousand_injected_calls"), || {
        if !possible() {
            return;
        }
        struct Check;
        static NEW: OnceLock<Box<State>> = OnceLock::new();
        static WRONG: Mutex<Vec<String>> = Mutex::new(Vec::new());
        impl Injected for Check {
            extern "C" fn call() {
                let floor = FLOOR.replace(0);
                let found = FOUND.get();
                let mut wrong = found.differences(NEW.get().unwrap());
                if found.is_burdened() {
                    wrong.push("burdened".into());
                }
                if !wrong.is_empty() {
                    WRONG.lock().unwrap().extend(wrong);
                }
                Count::call();
                FLOOR.set(floor);
            }
        }
        NEW.set(State::new_thread()).ok().unwrap();
        GARBAGE.set(*State::filled(100, false));
        preempt::install(preempt::DEFAULT_SIGNAL, decide::<Spoil<Check>>).unwrap();
        assert_eq!(hold_under_fire(10_000, false), Vec::<String>::new());
        assert_eq!(*WRONG.lock().unwrap(), Vec::<String>::new());
    });
}
