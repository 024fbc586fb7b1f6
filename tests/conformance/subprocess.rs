//! Scenarios that end their process, or need one with limits: the test starts itself again, and looks at
//! how that went.

use std::env;
use std::process::{Command, ExitStatus, Output};

/// Set in the process that plays the scenario.
const CHILD: &str = "SELVEDGE_TEST_CHILD";

/// Returns `true` if this is the process that plays the scenario.
pub(crate) fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// Plays the calling test again, in a process of its own.
pub(crate) fn again() -> Output {
    play(Command::new(env::current_exe().expect("a test has a file")))
}

/// Plays the calling test again, in a process of its own with another variable set.
pub(crate) fn again_with(name: &str, value: &str) -> Output {
    let mut command = Command::new(env::current_exe().expect("a test has a file"));
    command.env(name, value);
    play(command)
}

/// Returns `true` if the process has ended itself by `abort`.
#[cfg(unix)]
fn is_aborted(status: ExitStatus) -> bool {
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    // musl sends it to the id in the thread's block. The kernel knows no such thread if that is green, and
    // musl then crashes on purpose.
    let crashed = cfg!(target_env = "musl") && signal == Some(libc::SIGSEGV);
    crashed || signal == Some(libc::SIGABRT)
}

/// Returns `true` if the process has ended itself by `abort`.
#[cfg(windows)]
fn is_aborted(status: ExitStatus) -> bool {
    /// `STATUS_STACK_BUFFER_OVERRUN`: how a program ends at once (`__fastfail`).
    const FAST_FAIL: u32 = 0xC000_0409;
    status.code() == Some(FAST_FAIL.cast_signed())
}

/// Plays the calling test again, in a process that has set a limit by the shell command `limit`.
#[cfg(unix)]
pub(crate) fn again_limited(limit: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limit} && exec \"$@\""), "sh"]);
    shell.arg(env::current_exe().expect("a test has a file"));
    play(shell)
}

fn play(mut command: Command) -> Output {
    let this = std::thread::current();
    let name = this.name().expect("the harness names its threads after the test");
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, "1").output().expect("the test can be started again")
}

/// What the process wrote to its standard error.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails unless the process aborted, and said `what`.
#[track_caller]
pub(crate) fn assert_aborted(output: &Output, what: &str) {
    let errors = errors(output);
    assert!(is_aborted(output.status), "{:?}\n{errors}", output.status);
    assert!(errors.contains(what), "does not say {what:?}:\n{errors}");
}

/// Fails unless the process played its test and the test passed.
#[track_caller]
pub(crate) fn assert_passed(output: &Output) {
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = errors(output);
    assert!(output.status.success(), "{:?}\n{told}\n{errors}", output.status);
    assert!(told.contains("1 passed"), "no test of that name was played:\n{told}");
}
