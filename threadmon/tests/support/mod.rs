//! Programs to look at, and rooms for their sockets.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// A private folder, which goes with this.
pub(crate) struct Room(tempfile::TempDir);

impl Room {
    pub(crate) fn new() -> Self {
        // Short: the path of a socket has at most 107 bytes.
        Self(tempfile::Builder::new().prefix("tm").tempdir_in("/tmp").expect("a folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Returns the path of the binary.
pub(crate) fn threadmon() -> &'static str {
    env!("CARGO_BIN_EXE_threadmon")
}

fn examples() -> PathBuf {
    Path::new(threadmon()).parent().expect("a folder").join("examples")
}

/// Builds an example of the package in this folder. Returns its path.
fn build(name: &str, package: &str) -> String {
    let folder = examples();
    let target = folder.parent().and_then(Path::parent).expect("a folder for what is built");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--example", name, "--target-dir"]).arg(target);
    if folder.parent().is_some_and(|it| it.ends_with("release")) {
        cargo.arg("--release");
    }
    assert!(cargo.current_dir(package).status().expect("cargo").success());
    folder.join(name).display().to_string()
}

/// Returns the path of the example, built now.
pub(crate) fn hogs() -> String {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| build("hogs", env!("CARGO_MANIFEST_DIR"))).clone()
}

/// Returns the path of an example of the library, built now: an old one may speak an older version.
pub(crate) fn root_example(name: &str) -> String {
    build(name, concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.expect("kill").success());
}

/// A process that ends with this.
pub(crate) struct Ends(pub(crate) Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example, which serves.
pub(crate) struct Target {
    child: Ends,
    room: Room,
}

impl Target {
    pub(crate) fn start(words: &[&str]) -> Self {
        let room = Room::new();
        let mut command = Command::new(hogs());
        command.args(words).env("SELVEDGE_MON", "on").env("XDG_RUNTIME_DIR", room.path());
        let mut child = Ends(command.stdout(Stdio::piped()).spawn().expect("the example"));
        // It has made its threads when it says something.
        let mut said = String::new();
        let out = child.0.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said).expect("a line");
        assert!(said.starts_with("hogs run"), "{said:?}");
        Self { child, room }
    }

    fn once(&self, words: &[&str]) -> String {
        let output = self.monitor(words);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn room(&self) -> &Path {
        self.room.path()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Runs `threadmon` with these words and the number of this process.
    pub(crate) fn monitor(&self, words: &[&str]) -> Output {
        let mut command = Command::new(threadmon());
        command.args(words).arg(self.pid().to_string()).env("XDG_RUNTIME_DIR", self.room());
        run(command)
    }

    /// Checks that it runs, and that it counts nothing.
    pub(crate) fn is_unharmed(&self) {
        let text = self.once(&["--once", "--level", "off"]);
        assert!(text.contains("level off") && text.contains("hog-0"), "{text}");
    }
}

/// Runs a command to its end, which must come.
pub(crate) fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("a process");
    let pid = child.id();
    let (told, done) = std::sync::mpsc::channel();
    let watchdog = std::thread::spawn(move || {
        if done.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    });
    let output = child.wait_with_output().expect("its output");
    let _ = told.send(());
    watchdog.join().expect("the watchdog");
    assert!(output.status.code().is_some(), "{command:?} was killed: {output:?}");
    output
}
