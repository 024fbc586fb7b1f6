//! Signals and forks: what a forked child hears, and what becomes of children.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use selvedge::signal::{SIGCHLD, SIGUSR1, SIGUSR2, SIGWINCH, Signals};
use selvedge::thread;

use super::{CALLS, LONG, counts_itself, install_with, raise};

/// What was made before a fork works in the child, whatever other threads were doing with signals at that
/// moment. So does what is made there.
pub(super) fn a_forked_child_has_its_own() {
    let signals = Arc::new(Signals::new([SIGUSR1, SIGWINCH]).expect("signals"));
    // What a process finds out at its first wait is known then: of std's cells, a fork in that moment
    // would leave one half done.
    assert_eq!(signals.wait_timeout(Duration::from_millis(1)), None);
    let over = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = [0, 1]
        .map(|_| {
            let (signals, over) = (Arc::clone(&signals), Arc::clone(&over));
            std::thread::spawn(move || {
                while !over.load(SeqCst) {
                    drop(Signals::new([SIGUSR1, SIGUSR2]).expect("signals"));
                    raise(SIGWINCH);
                    let _ = signals.wait_timeout(Duration::from_micros(20));
                }
            })
        })
        .into();
    for _ in 0..50 {
        // SAFETY: the child leaves by _exit.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: no preconditions. Ends a child that hangs.
            unsafe { libc::alarm(20) };
            let ends_well = std::panic::catch_unwind(|| {
                // Beside what this copy had got before the fork.
                let mine = || (0..3).any(|_| signals.wait_timeout(LONG) == Some(SIGUSR1));
                raise(SIGUSR1);
                assert!(mine());
                let own = Signals::new([SIGUSR1]).expect("signals of the child's");
                raise(SIGUSR1);
                assert_eq!(own.wait_timeout(LONG), Some(SIGUSR1));
                assert!(mine());
                drop(own);
                raise(SIGUSR1);
                assert!(mine());
            });
            // SAFETY: no preconditions.
            unsafe { libc::_exit(i32::from(ends_well.is_err())) };
        }
        let mut status = 0;
        // SAFETY: a child of this process and a place for its status.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0, "the child has said why, or was ended by an alarm");
    }
    over.store(true, SeqCst);
    busy.into_iter().for_each(|thread| thread.join().expect("it only waits and raises"));
}

/// What has come to the parent is not the child's.
pub(super) fn a_child_gets_no_signal_of_its_parent() {
    let signals = Signals::new([SIGUSR1, SIGUSR2]).expect("signals");
    // It gets the signal after the first.
    let last = Signals::new([SIGUSR1]).expect("signals");
    raise(SIGUSR1);
    assert_eq!(last.wait(), SIGUSR1);
    // SAFETY: the child leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no preconditions. Ends a child that hangs.
        unsafe { libc::alarm(20) };
        let ends_well = std::panic::catch_unwind(|| {
            assert_eq!(signals.try_recv(), None);
            raise(SIGUSR2);
            assert_eq!(signals.wait_timeout(LONG), Some(SIGUSR2));
        });
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(ends_well.is_err())) };
    }
    let mut status = 0;
    // SAFETY: a child of this process and a place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child has said why, or was ended by an alarm");
    assert_eq!(signals.try_recv(), Some(SIGUSR1));
}

/// Starts a process that sleeps, or ends at once.
fn fork_that(sleeps: bool) -> libc::pid_t {
    // SAFETY: the child leaves by _exit, or is killed.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no preconditions. Ends a child that was left alone.
        unsafe { libc::alarm(20) };
        if sleeps {
            loop {
                // SAFETY: no preconditions.
                unsafe { libc::pause() };
            }
        }
        // SAFETY: no preconditions.
        unsafe { libc::_exit(0) };
    }
    pid
}

/// SA_NOCLDSTOP and SA_NOCLDWAIT, and SIGCHLD that is ignored: what becomes of children, and when the handler
/// hears of them, is as before.
pub(super) fn the_flags_for_children_count_on() {
    let theirs = counts_itself as extern "C" fn(libc::c_int) as libc::sighandler_t;
    let calls = || CALLS.load(SeqCst);
    let waits = |pid, options| {
        loop {
            let mut status = 0;
            // SAFETY: a place for the status.
            let waited = unsafe { libc::waitpid(pid, &mut status, options) };
            if waited != -1 || std::io::Error::last_os_error().kind() != ErrorKind::Interrupted {
                break waited;
            }
        }
    };
    install_with(SIGCHLD, theirs, None, libc::SA_NOCLDSTOP);
    let signals = Signals::new([SIGCHLD]).expect("signals");
    let child = fork_that(true);
    for signal in [libc::SIGSTOP, libc::SIGCONT, libc::SIGKILL] {
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::kill(child, signal) }, 0);
        assert_eq!(waits(child, libc::WUNTRACED | libc::WCONTINUED), child);
    }
    assert_eq!(signals.wait_timeout(LONG), Some(SIGCHLD));
    while calls() == 0 {
        thread::yield_now();
    }
    assert_eq!(calls(), 1, "it has asked for children that end");
    drop(signals);
    for (handler, flags) in [(theirs, libc::SA_NOCLDWAIT), (libc::SIG_IGN, 0), (theirs, 0)] {
        install_with(SIGCHLD, handler, None, flags);
        let is_left = || {
            let child = fork_that(false);
            waits(child, 0) == child
        };
        let alone = is_left();
        let signals = Signals::new([SIGCHLD]).expect("signals");
        assert_eq!(is_left(), alone, "{flags:#x}");
        assert_eq!(signals.wait_timeout(LONG), Some(SIGCHLD));
    }
}
