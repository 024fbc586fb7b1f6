//! Overflows in a child process: this test binary, run again with one test and a variable that says "die".

use super::*;
use crate::sys::kthread::{KernelThread, Options};
use std::process::{Command, Stdio};

const DIE: &str = "SELVEDGE_TEST_DIE";

/// Runs the named test again in a child with `DIE` set, and gives what it printed and how it ended.
fn in_child(test: &str) -> (String, std::process::ExitStatus) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(DIE, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (String::from_utf8_lossy(&child.stderr).into_owned(), child.status)
}

/// Whether this is the child, which then has 30 s to die.
fn is_child() -> bool {
    let child = std::env::var_os(DIE).is_some();
    if child {
        // SAFETY: no memory is involved.
        unsafe { libc::alarm(30) };
    }
    child
}

fn killed_by(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[inline(never)]
#[allow(unconditional_recursion)]
fn dig(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 64]);
    dig(depth + 1) + frame[depth % 64]
}

#[test]
fn an_overflow_of_a_kernel_thread_names_it() {
    if is_child() {
        let options = Options { name: "short", stack_size: Some(128 << 10), ..Default::default() };
        let dead = KernelThread::start(&options, || {
            let _alternate = AltStack::install().unwrap();
            watched(Some("wörker"), Some(7), || dig(0));
        });
        return dead.unwrap().join();
    }
    let (text, status) = in_child("sys::sigstack::tests::an_overflow_of_a_kernel_thread_names_it");
    assert_eq!(killed_by(status), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("thread 'wörker' (id 7) has overflowed its stack of 128 KiB"), "{text}");
    assert!(text.contains("Builder::stack_size") && text.contains("SELVEDGE_STACK_SIZE"), "{text}");
}

#[test]
fn an_overflow_of_a_std_thread_is_ours_inside_watched() {
    if is_child() {
        let dead = std::thread::Builder::new().stack_size(256 << 10);
        let _ = dead.spawn(|| watched(None, None, || dig(0))).unwrap().join();
        return;
    }
    let (text, status) = in_child("sys::sigstack::tests::an_overflow_of_a_std_thread_is_ours_inside_watched");
    assert_eq!(killed_by(status), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("thread '<unnamed>' has overflowed its stack of"), "{text}");
}

#[test]
fn an_overflow_of_a_strange_thread_is_left_to_std() {
    if is_child() {
        install_handler().unwrap();
        let dead = std::thread::Builder::new().stack_size(256 << 10).name("strange".into());
        let _ = dead.spawn(|| dig(0)).unwrap().join();
        return;
    }
    let (text, status) = in_child("sys::sigstack::tests::an_overflow_of_a_strange_thread_is_left_to_std");
    assert_eq!(killed_by(status), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("strange") && text.contains("has overflowed its stack"), "{text}");
    assert!(!text.contains("SELVEDGE_STACK_SIZE"), "{text}");
}

#[test]
fn a_wild_pointer_still_kills_by_its_signal() {
    if is_child() {
        watched(Some("wild"), None, || {
            // SAFETY: none: the page at zero is never mapped, and this child is here to fault.
            unsafe { ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
        });
        return;
    }
    let (text, status) = in_child("sys::sigstack::tests::a_wild_pointer_still_kills_by_its_signal");
    assert_eq!(killed_by(status), Some(libc::SIGSEGV), "{text}");
    assert!(!text.contains("overflowed"), "{text}");
}

#[test]
fn a_fault_signal_sent_by_a_process_kills_by_its_signal() {
    if is_child() {
        // Without std's handler, which would swallow the first one.
        // SAFETY: the default action is always valid.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
        install_handler().unwrap();
        // SAFETY: no memory is involved.
        unsafe { libc::kill(libc::getpid(), libc::SIGBUS) };
        loop {
            std::thread::park();
        }
    }
    let (text, status) =
        in_child("sys::sigstack::tests::a_fault_signal_sent_by_a_process_kills_by_its_signal");
    assert_eq!(killed_by(status), Some(libc::SIGBUS), "{text}");
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

#[test]
fn a_long_message_is_cut() {
    let mut text = Text { bytes: [0; 512], len: 0 };
    for _ in 0..100 {
        text.write_str("0123456789").unwrap();
    }
    assert_eq!(text.len, 512);
}
