//! A server in a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

/// Dropped, it ends.
pub(crate) struct Target {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Target {
    /// Returns the path of the example, built now, as this test was.
    pub(crate) fn path(name: &str) -> PathBuf {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let this = std::env::current_exe().expect("a path");
        let profile = this.parent().and_then(Path::parent).expect("a folder of the profile");
        let target = profile.parent().expect("a folder for what is built");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--example", name, "--target-dir"]).arg(target);
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo").success());
        profile.join("examples").join(name)
    }

    /// Starts an example, and waits until it says where it listens. The environment is the test's, but for
    /// `SELVEDGE_RUNTIME`, which is `runtime`, and for two slots.
    pub(crate) fn start(name: &str, arguments: &[&str], runtime: Option<&str>) -> Self {
        let mut command = Command::new(Self::path(name));
        command.args(["--listen", "127.0.0.1:0"]).args(arguments).env_remove("SELVEDGE_RUNTIME");
        command.env("SELVEDGE_CONCURRENCY", "2");
        command.envs(runtime.map(|runtime| ("SELVEDGE_RUNTIME", runtime)));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the example");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let address = line.trim_end().trim_end_matches('/').rsplit(['/', ' ']).next().expect("an address");
        let address = address.parse().unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { child, output, address }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill").success());
    }

    /// Waits for its end. Returns how it ended, and what it said since it listened.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.output.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("an end"), said)
    }

    /// Returns the bytes of its memory that are there.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a /proc");
        1024 * field(&status, "VmRSS:")
    }

    /// Returns how many times each of its kernel threads has gone to sleep, with the names.
    pub(crate) fn sleeps(&self) -> Vec<(String, u64)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("a /proc");
        let mut found = Vec::new();
        for task in tasks.flatten() {
            // A thread may end meanwhile.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            let name = status.lines().next().and_then(|line| line.strip_prefix("Name:\t")).expect("a name");
            found.push((name.to_owned(), field(&status, "voluntary_ctxt_switches:")));
        }
        found.sort();
        found
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A folder with the files that the tests ask for, and one beside it that they must not get.
pub(crate) struct Site(TempDir);

pub(crate) const PAGE: &[u8] = b"<p>hello</p>\n";
pub(crate) const BIG: usize = 300_000;

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("sub")).expect("a folder");
        fs::write(folder.path().join("secret"), "secret").expect("a file");
        for (name, content) in [
            ("index.html", PAGE),
            ("sub/index.html", b"sub"),
            ("a b.txt", b"spaced"),
            ("style.css", b"p {}"),
            ("empty", b""),
            (".hidden", b"hidden"),
            ("big", &big(BIG)),
        ] {
            fs::write(root.join(name), content).expect("a file");
        }
        assert!(Command::new("mkfifo").arg(root.join("fifo")).status().expect("mkfifo").success());
        Self(folder)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    /// Starts the HTTP server for the folder.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Target {
        let root = self.root();
        let mut all = arguments.to_vec();
        all.push(root.to_str().expect("a name of letters"));
        Target::start("http_server", &all, None)
    }
}

/// Bytes of which no two blocks are alike.
pub(crate) fn big(length: usize) -> Vec<u8> {
    (0..length.div_ceil(8))
        .flat_map(|number| (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
        .take(length)
        .collect()
}
