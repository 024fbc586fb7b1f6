//! Runs a unit test's body in a process of its own, as in its sibling `child_tests.rs`.

use std::process::{Command, Output, Stdio};

/// Tells the child which test it is to be.
const ROLE: &str = "SELVEDGE_UNIT_TEST";

/// How a child ended, and what it printed.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ended(Output);

/// Runs `body`, the whole of the test at the path `test` (`concat!(module_path!(), "::name")`), in a child.
/// Returns in the parent how that ended. In the child it returns `None`.
pub(crate) fn run(test: &str, body: impl FnOnce()) -> Option<Ended> {
    let test = test.split_once("::").map_or(test, |(_crate, path)| path);
    if std::env::var_os(ROLE).is_some_and(|role| role == test) {
        body();
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, test).stdin(Stdio::null());
    Some(Ended(child.output().unwrap()))
}

/// Does what [`run`] does, for a body that is to return.
#[track_caller]
pub(crate) fn isolated(test: &str, body: impl FnOnce()) {
    if let Some(ended) = run(test, body) {
        // A misspelt path would run nothing, and succeed.
        ended.expect_words(&["1 passed"]);
        assert!(ended.0.status.success(), "{ended:?}");
    }
}

impl Ended {
    /// Checks that it failed. (There are several codes for `abort`.)
    #[track_caller]
    pub(crate) fn expect_abort(&self) {
        assert!(!self.0.status.success(), "{self:?}");
    }

    /// Checks that it printed this.
    #[track_caller]
    pub(crate) fn expect_words(&self, words: &[&str]) {
        let said = [&self.0.stdout, &self.0.stderr].map(|said| String::from_utf8_lossy(said)).concat();
        for word in words {
            assert!(said.contains(word), "no {word:?} in:\n{said}");
        }
    }
}
