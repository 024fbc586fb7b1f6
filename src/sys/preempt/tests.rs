//! Which sender a signal is from, what is interrupted, and what is left alone. Each test has a process of its
//! own, because handlers are the process's.

use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize};
use std::sync::mpsc;

use super::*;
use crate::sys::child_tests::{isolated, run};
use crate::sys::kthread::gettid;
use crate::sys::sigstack::AltStack;

/// What happened in the handlers below.
static OURS: AtomicUsize = AtomicUsize::new(0);
static FOREIGN: AtomicUsize = AtomicUsize::new(0);
static LAST_SIGNAL: AtomicI32 = AtomicI32::new(0);
static LAST_VALUE: AtomicUsize = AtomicUsize::new(0);
static LAST_MASK: AtomicU64 = AtomicU64::new(0);

fn count(interrupted: &mut Interrupted<'_>) {
    let Mask(mask) = interrupted.mask();
    LAST_MASK.store(mask, Ordering::Relaxed);
    OURS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn plain(signal: c_int) {
    LAST_SIGNAL.store(signal, Ordering::Relaxed);
    LAST_MASK.store(baseline_mask().0, Ordering::Relaxed);
    FOREIGN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the C library's `errno`, of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library's `errno`, of this thread.
    unsafe { *errno = 77 };
}

extern "C" fn informed(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    assert!(!context.is_null());
    // SAFETY: the signal's information, as passed on.
    let info = unsafe { &*info };
    // SAFETY: every signal of these tests has such a field, even if not always with something in it.
    let value = unsafe { info.si_value() }.sival_ptr.addr();
    LAST_VALUE.store(value, Ordering::Relaxed);
    plain(signal);
}

/// Installs a handler the way a program would. `None` ignores the signal.
fn foreign(signal: c_int, handler: Option<libc::sighandler_t>, flags: c_int, blocks: &[c_int]) {
    let mut action = sigaction::default();
    action.sa_sigaction = handler.unwrap_or(libc::SIG_IGN);
    action.sa_flags = flags;
    for &blocked in blocks {
        // SAFETY: a set to change.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, blocked) };
    }
    // SAFETY: handlers of the types that the flags say.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }, 0);
}

fn plain_address() -> Option<libc::sighandler_t> {
    let handler: extern "C" fn(c_int) = plain;
    Some(handler as libc::sighandler_t)
}

/// Sends a signal, with a value, to the calling kernel thread, as code does that knows nothing of this crate.
fn queue(signal: c_int, value: usize) {
    let info = Info {
        signal,
        errno: 0,
        code: libc::SI_QUEUE,
        _pad: 0,
        // SAFETY: takes nothing.
        pid: unsafe { libc::getpid() },
        uid: 0,
        value,
        _rest: [0; 96],
    };
    // SAFETY: reads the information.
    let rc = unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, info.pid, gettid(), signal, ptr::from_ref(&info))
    };
    assert_eq!(rc, 0);
}

fn counts() -> (usize, usize) {
    (OURS.load(Ordering::Relaxed), FOREIGN.load(Ordering::Relaxed))
}

/// Sends ten of this crate's signals, and five of other senders (by `tgkill`, by value, by pthread), to a
/// thread that notices them at once.
fn send_both(signal: c_int) {
    for i in 0..5 {
        send(gettid()).unwrap();
        match i {
            // SAFETY: no memory is involved.
            0 | 1 => assert_eq!(unsafe { libc::raise(signal) }, 0),
            2 | 3 => queue(signal, 0x5EED),
            _ => {
                // SAFETY: takes nothing.
                let me = unsafe { libc::pthread_self() };
                // SAFETY: takes nothing.
                assert_eq!(unsafe { libc::pthread_kill(me, signal) }, 0);
            }
        }
        send(gettid()).unwrap();
    }
}

#[test]
fn a_plain_handler_gets_what_is_not_ours() {
    isolated(concat!(module_path!(), "::a_plain_handler_gets_what_is_not_ours"), || {
        foreign(DEFAULT_SIGNAL, plain_address(), 0, &[libc::SIGUSR2]);
        install(DEFAULT_SIGNAL, count).unwrap();
        // SAFETY: the C library's `errno`, of this thread.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: the C library's `errno`, of this thread.
        unsafe { *errno = 5 };
        send_both(DEFAULT_SIGNAL);
        // SAFETY: the C library's `errno`, of this thread.
        assert_eq!(unsafe { *errno }, 5);
        assert_eq!(counts(), (10, 5));
        assert_eq!(LAST_SIGNAL.load(Ordering::Relaxed), DEFAULT_SIGNAL);
        queue(DEFAULT_SIGNAL, 1);
        // As if the kernel had called it: its own mask and the signal itself, and not all that this crate's
        // handler blocks.
        let Mask(before) = baseline_mask();
        let expected = before | 1 << (libc::SIGUSR2 - 1) | 1 << (DEFAULT_SIGNAL - 1);
        assert_eq!(LAST_MASK.load(Ordering::Relaxed), expected);
    });
}

#[test]
fn a_handler_of_three_arguments_gets_them() {
    isolated(concat!(module_path!(), "::a_handler_of_three_arguments_gets_them"), || {
        let handler: sigaction::Handler = informed;
        let flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        foreign(libc::SIGUSR1, Some(handler as libc::sighandler_t), flags, &[]);
        install(libc::SIGUSR1, count).unwrap();
        send_both(libc::SIGUSR1);
        assert_eq!(counts(), (10, 5));
        queue(libc::SIGUSR1, 0xABCD);
        assert_eq!(LAST_VALUE.load(Ordering::Relaxed), 0xABCD);
        assert_eq!(LAST_MASK.load(Ordering::Relaxed), baseline_mask().0);
    });
}

#[test]
fn an_ignored_signal_stays_so() {
    isolated(concat!(module_path!(), "::an_ignored_signal_stays_so"), || {
        foreign(libc::SIGUSR1, None, 0, &[]);
        install(libc::SIGUSR1, count).unwrap();
        send_both(libc::SIGUSR1);
        assert_eq!(counts(), (10, 0));
    });
}

#[test]
fn an_unhandled_signal_is_ignored_if_that_is_its_default() {
    isolated(concat!(module_path!(), "::an_unhandled_signal_is_ignored_if_that_is_its_default"), || {
        install(DEFAULT_SIGNAL, count).unwrap();
        send_both(DEFAULT_SIGNAL);
        assert_eq!(counts(), (10, 0));
    });
}

#[test]
fn an_unhandled_signal_ends_the_process_if_that_is_its_default() {
    let ended =
        run(concat!(module_path!(), "::an_unhandled_signal_ends_the_process_if_that_is_its_default"), || {
            install(libc::SIGUSR1, count).unwrap();
            send(gettid()).unwrap();
            println!("ours did not");
            // SAFETY: no memory is involved.
            unsafe { libc::raise(libc::SIGUSR1) };
        });
    if let Some(ended) = ended {
        ended.expect_words(&["ours did not"]);
        ended.expect_signal(libc::SIGUSR1);
    }
}

#[test]
fn a_handler_for_one_signal_gets_one() {
    isolated(concat!(module_path!(), "::a_handler_for_one_signal_gets_one"), || {
        foreign(DEFAULT_SIGNAL, plain_address(), libc::SA_RESETHAND, &[]);
        install(DEFAULT_SIGNAL, count).unwrap();
        send_both(DEFAULT_SIGNAL);
        assert_eq!(counts(), (10, 1));
    });
}

#[test]
fn a_later_handler_is_noticed() {
    isolated(concat!(module_path!(), "::a_later_handler_is_noticed"), || {
        assert!(!still_installed());
        assert_eq!(send(gettid()).unwrap_err().kind(), io::ErrorKind::NotFound);
        install(DEFAULT_SIGNAL, count).unwrap();
        install(DEFAULT_SIGNAL, count).unwrap();
        assert!(still_installed());
        let other = install(libc::SIGUSR2, count).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::InvalidInput, "{other}");
        foreign(DEFAULT_SIGNAL, plain_address(), 0, &[]);
        assert!(!still_installed());
        send_both(DEFAULT_SIGNAL);
        assert_eq!(counts(), (0, 15));
    });
}

#[test]
fn unfit_signals_are_refused_and_leave_room_for_another() {
    isolated(concat!(module_path!(), "::unfit_signals_are_refused_and_leave_room_for_another"), || {
        for signal in [libc::SIGSEGV, libc::SIGCHLD, libc::SIGKILL, 32, 33, 0, -1, 1000] {
            let refused = install(signal, count).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{signal}: {refused}");
            assert!(refused.to_string().contains(&format!("signal {signal}")), "{refused}");
        }
        install(libc::SIGRTMIN() + 3, count).unwrap();
        send_both(libc::SIGWINCH);
        assert_eq!(counts(), (10, 0));
    });
}

#[test]
fn the_mask_of_the_interrupted_code_is_seen() {
    isolated(concat!(module_path!(), "::the_mask_of_the_interrupted_code_is_seen"), || {
        extern "C" fn handler(_: c_int) {
            send(gettid()).unwrap();
        }
        install(DEFAULT_SIGNAL, count).unwrap();
        let Mask(baseline) = baseline_mask();
        send(gettid()).unwrap();
        assert_eq!(LAST_MASK.load(Ordering::Relaxed), baseline);
        let handler: extern "C" fn(c_int) = handler;
        foreign(libc::SIGUSR2, Some(handler as libc::sighandler_t), 0, &[libc::SIGALRM]);
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGUSR2) };
        let handled = 1 << (libc::SIGUSR2 - 1) | 1 << (libc::SIGALRM - 1);
        assert_eq!(LAST_MASK.load(Ordering::Relaxed), baseline | handled);
    });
}

#[test]
fn handlers_on_an_alternate_stack_are_told_apart() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    fn decide(interrupted: &mut Interrupted<'_>) {
        let here = 0_u8;
        // This crate's handler runs there, too: just below what it has interrupted, if that did.
        let near = interrupted.sp().abs_diff((&raw const here).addr()) < 64 << 10;
        assert_eq!(near, interrupted.on_alternate_stack());
        SEEN.fetch_add(1 + 100 * usize::from(near), Ordering::Relaxed);
    }
    isolated(concat!(module_path!(), "::handlers_on_an_alternate_stack_are_told_apart"), || {
        extern "C" fn handler(_: c_int) {
            send(gettid()).unwrap();
        }
        let _alternate = AltStack::install().unwrap();
        install(DEFAULT_SIGNAL, decide).unwrap();
        let handler: extern "C" fn(c_int) = handler;
        send(gettid()).unwrap();
        foreign(libc::SIGUSR2, Some(handler as libc::sighandler_t), libc::SA_ONSTACK, &[]);
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert_eq!(SEEN.load(Ordering::Relaxed), 102);
    });
}

#[test]
fn a_frame_on_the_interrupted_stack_is_noticed() {
    static APART: AtomicUsize = AtomicUsize::new(0);
    fn decide(interrupted: &mut Interrupted<'_>) {
        let sp = interrupted.sp();
        let near = sp - (64 << 10)..sp + 4096;
        APART.fetch_add(if interrupted.is_apart_from(&near) { 100 } else { 1 }, Ordering::Relaxed);
    }
    extern "C" fn in_front(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        on_signal(signal, info, context);
    }
    isolated(concat!(module_path!(), "::a_frame_on_the_interrupted_stack_is_noticed"), || {
        install(DEFAULT_SIGNAL, decide).unwrap();
        let alternate = AltStack::install().unwrap();
        send(gettid()).unwrap();
        assert_eq!(APART.swap(0, Ordering::Relaxed), 100);
        drop(alternate);
        send(gettid()).unwrap();
        assert_eq!(APART.swap(0, Ordering::Relaxed), 1, "there is no alternate stack");
        let _alternate = AltStack::install().unwrap();
        let in_front: sigaction::Handler = in_front;
        foreign(DEFAULT_SIGNAL, Some(in_front as libc::sighandler_t), libc::SA_SIGINFO, &[]);
        send(gettid()).unwrap();
        assert_eq!(APART.load(Ordering::Relaxed), 1, "the handler in front is on the interrupted stack");
    });
}

#[test]
fn a_signal_reaches_the_kernel_thread_that_it_is_sent_to() {
    static WHERE: AtomicI32 = AtomicI32::new(0);
    fn decide(_: &mut Interrupted<'_>) {
        WHERE.store(gettid(), Ordering::Release);
    }
    isolated(concat!(module_path!(), "::a_signal_reaches_the_kernel_thread_that_it_is_sent_to"), || {
        install(DEFAULT_SIGNAL, decide).unwrap();
        let (send_tid, receive) = mpsc::channel();
        let spinner = std::thread::spawn(move || {
            send_tid.send(gettid()).unwrap();
            while WHERE.load(Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
        });
        let tid = receive.recv().unwrap();
        send(tid).unwrap();
        spinner.join().unwrap();
        assert_eq!(WHERE.load(Ordering::Relaxed), tid);
        // It may take the kernel a moment to forget the thread.
        let gone = (0..1_000_000).find_map(|_| send(tid).err()).unwrap();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    });
}

#[test]
fn a_signal_without_its_value_is_ours_if_it_is_claimed() {
    static EXPECTED: AtomicUsize = AtomicUsize::new(0);
    fn decide(interrupted: &mut Interrupted<'_>) {
        assert!(!interrupted.is_marked());
        if EXPECTED.load(Ordering::Relaxed) > 0 {
            EXPECTED.fetch_sub(1, Ordering::Relaxed);
            interrupted.claim();
            count(interrupted);
        }
    }
    isolated(concat!(module_path!(), "::a_signal_without_its_value_is_ours_if_it_is_claimed"), || {
        foreign(libc::SIGUSR1, plain_address(), 0, &[]);
        install(libc::SIGUSR1, decide).unwrap();
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is only read.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const none) }, 0);
        EXPECTED.store(2, Ordering::Relaxed);
        (0..3).for_each(|_| send(gettid()).unwrap());
        assert_eq!(counts(), (2, 1));
    });
}

#[test]
fn a_frame_further_up_is_noticed() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    fn decide(interrupted: &mut Interrupted<'_>) {
        assert!(interrupted.is_ordinary());
        let above = interrupted.is_above_frame(interrupted.sp() + (16 << 10));
        SEEN.fetch_add(if above { 100 } else { 1 }, Ordering::Relaxed);
    }
    extern "C" fn handler(_: c_int) {
        send(gettid()).unwrap();
    }
    isolated(concat!(module_path!(), "::a_frame_further_up_is_noticed"), || {
        if crate::arch::valgrind::is_running() {
            println!("skipped: valgrind writes other frames");
            return;
        }
        // What `decide` reads above the stack pointer must belong to this stack.
        let above = std::hint::black_box([0_u8; 32 << 10]);
        let _alternate = AltStack::install().unwrap();
        install(DEFAULT_SIGNAL, decide).unwrap();
        send(gettid()).unwrap();
        assert_eq!(SEEN.swap(0, Ordering::Relaxed), 1);
        // It blocks nothing, and runs on the stack that it has interrupted.
        let handler: extern "C" fn(c_int) = handler;
        foreign(libc::SIGUSR2, Some(handler as libc::sighandler_t), libc::SA_NODEFER, &[]);
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert_eq!(SEEN.load(Ordering::Relaxed), 100);
        std::hint::black_box(&above);
    });
}

#[test]
fn thread_locals_of_the_main_program_are_static() {
    assert!(own_thread_locals_are_static());
}
