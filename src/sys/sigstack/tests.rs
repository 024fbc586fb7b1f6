//! Overflows, wild pointers and stray signals, in processes of their own.

use super::*;
use crate::sys::child_tests as child;
use crate::sys::kthread::{KernelThread, Options};

#[inline(never)]
fn dig(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 64]);
    if depth == usize::MAX { 0 } else { dig(depth + 1) + frame[depth % 64] }
}

#[test]
fn an_overflow_of_a_kernel_thread_names_it() {
    let ended = child::run(concat!(module_path!(), "::an_overflow_of_a_kernel_thread_names_it"), || {
        let options = Options { name: "short", stack_size: Some(128 << 10), ..Default::default() };
        let dead = KernelThread::start(&options, || {
            let _alternate = AltStack::install().unwrap();
            watched(Some("wörker"), Some(7), || dig(0));
        });
        dead.unwrap().join();
    });
    if let Some(ended) = ended {
        ended.expect_signal(libc::SIGABRT);
        ended.expect_words(&["thread 'wörker' (id 7) has overflowed its stack of 128 KiB"]);
        ended.expect_words(&["Builder::stack_size", "SELVEDGE_STACK_SIZE"]);
    }
}

#[test]
fn an_overflow_of_a_std_thread_is_ours_inside_watched() {
    let ended =
        child::run(concat!(module_path!(), "::an_overflow_of_a_std_thread_is_ours_inside_watched"), || {
            let dead = std::thread::Builder::new().stack_size(256 << 10);
            let _ = dead.spawn(|| watched(None, None, || dig(0))).unwrap().join();
        });
    if let Some(ended) = ended {
        ended.expect_signal(libc::SIGABRT);
        ended.expect_words(&["thread '<unnamed>' has overflowed its stack of", "SELVEDGE_STACK_SIZE"]);
    }
}

#[test]
fn an_overflow_of_a_strange_thread_is_left_to_std() {
    let ended =
        child::run(concat!(module_path!(), "::an_overflow_of_a_strange_thread_is_left_to_std"), || {
            install_handler().unwrap();
            let dead = std::thread::Builder::new().stack_size(256 << 10).name("strange".into());
            let _ = dead.spawn(|| dig(0)).unwrap().join();
        });
    if let Some(ended) = ended {
        ended.expect_signal(libc::SIGABRT);
        ended.expect_words(&["strange", "has overflowed its stack"]);
        ended.expect_silence_about("SELVEDGE_STACK_SIZE");
    }
}

#[test]
fn a_wild_pointer_still_kills_by_its_signal() {
    let ended = child::run(concat!(module_path!(), "::a_wild_pointer_still_kills_by_its_signal"), || {
        watched(Some("wild"), None, || {
            let nowhere = std::hint::black_box(ptr::without_provenance_mut::<u8>(16));
            // SAFETY: none. The page at zero is never mapped, and this child is here to fault.
            unsafe { nowhere.write_volatile(1) };
        });
    });
    if let Some(ended) = ended {
        ended.expect_signal(libc::SIGSEGV);
        ended.expect_silence_about("overflowed");
    }
}

#[test]
fn a_fault_signal_sent_by_a_process_kills_by_its_signal() {
    let ended =
        child::run(concat!(module_path!(), "::a_fault_signal_sent_by_a_process_kills_by_its_signal"), || {
            // Without std's handler, which would swallow the first one.
            // SAFETY: the default action is always valid.
            unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
            install_handler().unwrap();
            // SAFETY: no memory is involved.
            let me = unsafe { libc::getpid() };
            // SAFETY: no memory is involved.
            unsafe { libc::kill(me, libc::SIGBUS) };
            loop {
                std::thread::park();
            }
        });
    if let Some(ended) = ended {
        ended.expect_signal(libc::SIGBUS);
    }
}

#[test]
fn what_was_ignored_stays_ignored() {
    child::isolated(concat!(module_path!(), "::what_was_ignored_stays_ignored"), || {
        // SAFETY: to ignore is always valid.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
        install_handler().unwrap();
        // SAFETY: no memory is involved. The signal is delivered to this thread before the call returns.
        unsafe { libc::raise(libc::SIGSEGV) };
    });
}

/// Handlers of both kinds that a program installed earlier get the signals that are not this crate's.
#[test]
fn earlier_handlers_are_called() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static SEEN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    extern "C" fn plain(signal: libc::c_int) {
        SEEN[0].store(signal as usize, Ordering::Relaxed);
    }
    extern "C" fn full(_signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel's, passed on.
        SEEN[1].store(unsafe { (*info).si_signo } as usize, Ordering::Relaxed);
    }
    child::isolated(concat!(module_path!(), "::earlier_handlers_are_called"), || {
        let plain: extern "C" fn(libc::c_int) = plain;
        let full: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = full;
        for (signal, handler, flags) in
            [(libc::SIGSEGV, plain as usize, 0), (libc::SIGBUS, full as usize, libc::SA_SIGINFO)]
        {
            // SAFETY: plain data, for which zero is valid.
            let mut action: libc::sigaction = unsafe { mem::zeroed() };
            action.sa_sigaction = handler;
            action.sa_flags = flags;
            // SAFETY: the handler fits the flags, and only stores.
            unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
        }
        install_handler().unwrap();
        for signal in FAULTS {
            // SAFETY: no memory is involved.
            unsafe { libc::raise(signal) };
        }
        let seen = SEEN.each_ref().map(|seen| seen.load(Ordering::Relaxed) as libc::c_int);
        assert_eq!(seen, FAULTS);
    });
}

/// Installs `handler` for SIGSEGV as the program's, and then this crate's in front.
fn before_ours(handler: extern "C" fn(libc::c_int), flags: libc::c_int, blocks: &[libc::c_int]) {
    // SAFETY: plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags;
    for &signal in blocks {
        // SAFETY: a set to change.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, signal) };
    }
    // SAFETY: the handler takes one argument, as the flags say.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) };
    install_handler().unwrap();
}

#[test]
fn an_earlier_handler_is_called_with_the_mask_it_asked_for() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static BLOCKED: [AtomicBool; 2] = [const { AtomicBool::new(true) }; 2];
    extern "C" fn look(_: libc::c_int) {
        // SAFETY: plain data, filled in below.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: a query that writes to a local variable.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut set) };
        for (signal, blocked) in [libc::SIGSEGV, libc::SIGUSR1].into_iter().zip(&BLOCKED) {
            // SAFETY: an initialized set.
            blocked.store(unsafe { libc::sigismember(&raw const set, signal) } == 1, Ordering::Relaxed);
        }
    }
    child::isolated(
        concat!(module_path!(), "::an_earlier_handler_is_called_with_the_mask_it_asked_for"),
        || {
            before_ours(look, libc::SA_NODEFER, &[libc::SIGUSR1]);
            // SAFETY: no memory is involved. The signal is delivered to this thread before `raise` returns.
            unsafe { libc::raise(libc::SIGSEGV) };
            let blocked = BLOCKED.each_ref().map(|blocked| blocked.load(Ordering::Relaxed));
            assert_eq!(blocked, [false, true], "SIGSEGV (SA_NODEFER), SIGUSR1 (in its mask)");
        },
    );
}

#[test]
fn an_earlier_handler_for_one_fault_gets_one() {
    extern "C" fn say(_: libc::c_int) {
        message::to_standard_error(format_args!("the handler was called\n"));
    }
    let ended = child::run(concat!(module_path!(), "::an_earlier_handler_for_one_fault_gets_one"), || {
        before_ours(say, libc::SA_RESETHAND, &[]);
        for _ in 0..2 {
            // SAFETY: no memory is involved. The signal is delivered to this thread before `raise` returns.
            unsafe { libc::raise(libc::SIGSEGV) };
        }
        message::to_standard_error(format_args!("the second signal did nothing\n"));
    });
    if let Some(ended) = ended {
        ended.expect_signal(libc::SIGSEGV);
        ended.expect_words(&["the handler was called"]);
    }
}

#[test]
fn an_earlier_handler_has_system_calls_restarted() {
    extern "C" fn nothing(_: libc::c_int) {}
    child::isolated(concat!(module_path!(), "::an_earlier_handler_has_system_calls_restarted"), || {
        before_ours(nothing, libc::SA_RESTART, &[]);
        // SAFETY: plain data, for which zero is valid.
        let mut now: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: a query that writes to a local variable.
        unsafe { libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut now) };
        assert_ne!(now.sa_flags & libc::SA_RESTART, 0);
    });
}

#[test]
fn an_alternate_stack_goes_with_its_owner() {
    let done = std::thread::spawn(|| {
        let before = installed();
        let stack = AltStack::install().unwrap();
        assert!(stack.range().contains(&installed().ss_sp.addr()));
        assert!(installed().ss_size >= ALT_STACK);
        drop(stack);
        assert_ne!(installed().ss_flags & libc::SS_DISABLE, 0);
        // SAFETY: std's own stack, put back for its thread's end.
        unsafe { libc::sigaltstack(&raw const before, ptr::null_mut()) };
    });
    done.join().unwrap();
}

fn installed() -> libc::stack_t {
    let mut installed = none();
    // SAFETY: a query.
    unsafe { libc::sigaltstack(ptr::null(), &raw mut installed) };
    installed
}
