//! Runs one function of this test program in a process of its own: for what ends a process, or changes
//! its limits.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tells the test called `child` which function it is to be.
const ROLE: &str = "SELVEDGE_TEST_ROLE";
/// How long a child may take on the slowest machine and under the heaviest load we care for; less than
/// the watchdog grants.
const PATIENCE: Duration = Duration::from_secs(200);

/// How a child ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Standard output and standard error.
    pub(crate) said: String,
}

impl Ended {
    /// It ended well, which the functions of the table do by returning.
    #[track_caller]
    pub(crate) fn expect_success(&self) {
        assert!(self.status.success(), "{}\n{}", self.status, self.said);
    }

    /// It was ended by `abort`, and each of `words` was said.
    #[track_caller]
    pub(crate) fn expect_abort(&self, words: &[&str]) {
        let signal = self.status.signal();
        // musl sends it to the id in the thread's block. The kernel knows no such thread if that is green,
        // and musl then crashes on purpose.
        let crashed = cfg!(target_env = "musl") && signal == Some(libc::SIGSEGV);
        assert!(crashed || signal == Some(libc::SIGABRT), "{}\n{}", self.status, self.said);
        for word in words {
            assert!(self.said.contains(word), "no {word:?} in:\n{}", self.said);
        }
    }
}

/// Runs `role` of the table in a child, with more variables in its environment.
#[track_caller]
pub(crate) fn run(role: &str, variables: &[(&str, &str)]) -> Ended {
    run_within(role, variables, PATIENCE)
}

/// [`run`], for a role that takes longer.
#[track_caller]
pub(crate) fn run_within(role: &str, variables: &[(&str, &str)], patience: Duration) -> Ended {
    let mut command = command(role, variables);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    let readers = [read(child.stdout.take().expect("piped")), read(child.stderr.take().expect("piped"))];
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child to wait for") {
            break Some(status);
        }
        if start.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said: String = readers.map(|reader| reader.join().expect("a reader")).concat();
    let status =
        status.unwrap_or_else(|| panic!("{role} has not ended after {patience:?}; it said:\n{said}"));
    Ended { status, said }
}

/// What a child is started by.
pub(crate) fn command(role: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test program"));
    command.args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env_clear().envs(std::env::vars().filter(|(name, _)| !name.starts_with("SELVEDGE_")));
    command.env(ROLE, role).envs(variables.iter().copied());
    command
}

/// Collects what comes, so that the child never waits for room.
fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What the test called `child` does: nothing, unless [`run`] started it.
pub(crate) fn play(table: &[(&str, fn())]) {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (_, function) =
        table.iter().find(|(name, _)| *name == role).unwrap_or_else(|| panic!("no role {role}"));
    function();
}
