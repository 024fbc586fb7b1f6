//! Children that are forked and do not exec: how they are made, and how they end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use selvedge::thread;

/// The child's exit status if std can start no threads in it.
const STD_IS_LOCKED: i32 = 77;

/// Forks, and runs `f` in the child, which must end well and soon.
///
/// Every kernel thread that std starts or ends takes a lock of std. If another thread had that lock at the
/// fork, every `std::thread::spawn` hangs in the child. Such a child says so, and another one is made.
pub(crate) fn in_child(f: impl FnOnce()) {
    for _ in 0..20 {
        // SAFETY: what the child does is what is under test; it leaves by _exit.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            play_child(f);
        }
        if status_of(pid) != STD_IS_LOCKED {
            return;
        }
        eprintln!("std's lock was held at the fork: once more");
    }
    panic!("std starts no threads in any of 20 children");
}

fn play_child(f: impl FnOnce()) -> ! {
    if !std_starts_threads() {
        // SAFETY: no preconditions.
        unsafe { libc::_exit(STD_IS_LOCKED) };
    }
    // SAFETY: no preconditions. Ends a child that hangs.
    unsafe { libc::alarm(20) };
    // Many panics are expected: a line each, no backtraces.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let code = i32::from(catch_unwind(AssertUnwindSafe(f)).is_err());
    // SAFETY: no preconditions.
    unsafe { libc::_exit(code) };
}

/// Tries it in a copy of this process, which has one kernel thread. No handler of a fork runs.
fn std_starts_threads() -> bool {
    let (zero, end) = (0_usize, libc::SIGCHLD);
    // SAFETY: a fork by the kernel's name, without a new stack.
    let pid = unsafe { libc::syscall(libc::SYS_clone, end, zero, zero, zero, zero) };
    assert!(pid >= 0, "clone: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::alarm(3) };
        std::thread::spawn(|| ()).join().expect("it does nothing");
        // SAFETY: no preconditions.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: a child of this process and a place for its status.
    while unsafe { libc::waitpid(pid as libc::pid_t, &mut status, 0) } < 0 {}
    status == 0
}

/// Makes every later panic end this process at once. Unwinding would wait for a runtime that has waiting
/// threads.
pub(crate) fn panics_end_the_process() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        // SAFETY: no preconditions.
        unsafe { libc::_exit(101) };
    }));
}

pub(crate) fn expect_end(pid: libc::pid_t) {
    assert_eq!(status_of(pid), 0, "the child has said why");
}

/// Returns the exit status of a child: 0, or [`STD_IS_LOCKED`]. Any other is a failure.
fn status_of(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process and a place for its status.
    assert_eq!(thread::blocking(|| unsafe { libc::waitpid(pid, &mut status, 0) }), pid);
    assert!(!libc::WIFSIGNALED(status), "the child was ended by signal {}", libc::WTERMSIG(status));
    let code = libc::WEXITSTATUS(status);
    assert!(code == 0 || code == STD_IS_LOCKED, "exit status {code}: the child has said why");
    code
}

/// Forks; the child does `f` and then goes on like any thread, which here means to leave its region, and
/// then the process.
pub(crate) fn fork_into(f: impl FnOnce()) -> libc::pid_t {
    // SAFETY: what the child does is what is under test; it ends with its thread.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::alarm(20) };
        f();
        // SAFETY: no preconditions.
        thread::blocking(|| unsafe { libc::_exit(0) });
    }
    pid
}
