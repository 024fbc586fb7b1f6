//! Runs a unit test's body in a process of its own. For tests that end a process, or depend on all that
//! happened in it.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

/// Tells the child which test it is to be.
const ROLE: &str = "SELVEDGE_UNIT_TEST";
/// Seconds until the kernel ends a child that hangs. Where the processor is emulated, the longest test takes
/// a minute.
const PATIENCE: libc::c_uint = 200;

/// How a child ended, and what it printed.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ended {
    status: ExitStatus,
    said: String,
}

/// Runs `body`, the whole of the test at the path `test` (`concat!(module_path!(), "::name")`), in a child.
/// Returns in the parent how that ended. In the child it returns `None`.
pub(crate) fn run(test: &str, body: impl FnOnce()) -> Option<Ended> {
    let test = test.split_once("::").map_or(test, |(_crate, path)| path);
    if std::env::var_os(ROLE).is_some_and(|role| role == test) {
        // SAFETY: no memory is involved.
        unsafe { libc::alarm(PATIENCE) };
        body();
        return None;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ROLE, test)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [child.stdout, child.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    Some(Ended { status: child.status, said: said.concat() })
}

/// Does what [`run`] does, for a body that is to return.
#[track_caller]
pub(crate) fn isolated(test: &str, body: impl FnOnce()) {
    if let Some(ended) = run(test, body) {
        // A misspelt path would run nothing, and succeed.
        let passed = ended.said.contains("1 passed");
        assert!(ended.status.success() && passed, "{}\n{}", ended.status, ended.said);
    }
}

/// Runs `body` in a fork of this process, and fails if it panics there. For the body of [`isolated`].
#[track_caller]
pub(crate) fn forked(body: impl FnOnce()) {
    // SAFETY: the other threads of this process are those of the test harness.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no memory is involved.
        unsafe { libc::alarm(PATIENCE) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child has said why");
}

impl Ended {
    /// Checks that this signal ended it.
    #[track_caller]
    pub(crate) fn expect_signal(&self, signal: libc::c_int) {
        assert_eq!(self.status.signal(), Some(signal), "{}\n{}", self.status, self.said);
    }

    /// Checks that `abort` ended it.
    #[track_caller]
    pub(crate) fn expect_abort(&self) {
        self.expect_signal(libc::SIGABRT);
    }

    /// Checks that it printed this.
    #[track_caller]
    pub(crate) fn expect_words(&self, words: &[&str]) {
        for word in words {
            assert!(self.said.contains(word), "no {word:?} in:\n{}", self.said);
        }
    }

    /// Checks that it did not print this.
    #[track_caller]
    pub(crate) fn expect_silence_about(&self, word: &str) {
        assert!(!self.said.contains(word), "{word:?} in:\n{}", self.said);
    }
}
