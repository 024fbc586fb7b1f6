//! Clients of servers, whose sockets are std's, in migrating green threads. They block their LWPs, and the
//! runtime replaces these.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{HOPS, crew};

/// More threads than can run at once, which is four.
const WAITERS: usize = 8;

/// Lets clients wait for an answer, on more threads than can run at once. The answers come only after
/// another thread has had many turns. So if the waiters kept all slots, this would not end.
pub fn others_go_on<C>(
    connect: impl Fn() -> C + Send + Sync + 'static,
    wait: impl Fn(&mut C) + Send + Sync + 'static,
    release: impl Fn(&mut C) + Send + Sync + 'static,
) -> usize {
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    crew(WAITERS + 1, move |member| {
        let mut client = connect();
        if member.index() < WAITERS {
            begun.fetch_add(1, Ordering::SeqCst);
            wait(&mut client);
            ended.fetch_add(1, Ordering::SeqCst);
            // Meanwhile the others may have kept all LWPs but one, so that no thread could move.
            return (0..HOPS).for_each(|_| member.hop());
        }
        while begun.load(Ordering::SeqCst) < WAITERS {
            member.hop();
        }
        for _ in 0..HOPS {
            member.hop();
            selvedge::thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(ended.load(Ordering::SeqCst), 0, "an answer came before its time");
        release(&mut client);
    })
}

/// What takes the place of a scenario without its server: threads that only switch.
pub fn without() -> usize {
    crew(WAITERS, |member| (0..HOPS).for_each(|_| member.hop()))
}

/// A server of another package, in a folder of its own. Dropped, it ends.
pub struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// Returns a new folder.
    pub fn folder() -> tempfile::TempDir {
        // Short: the path of a socket has at most 107 bytes.
        tempfile::Builder::new().prefix("sv").tempdir_in("/tmp").expect("a folder")
    }

    /// Starts a server, and waits until `answers` does.
    pub fn start(command: &mut Command, folder: tempfile::TempDir, answers: impl Fn(&Path) -> bool) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let this = Self { child: child.expect("a server that was found"), folder };
        let deadline = Instant::now() + PATIENCE;
        while !answers(this.path()) {
            assert!(Instant::now() < deadline, "{command:?} does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        this
    }

    /// Returns the folder in which the server has its socket.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Like Ctrl-C: postgres has processes of its own.
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-INT", &pid]).status();
        if !told.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Returns the path of a program: from `PATH`, or from one of `folders`. If there is none, says so.
pub fn find(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).chain(folders.iter().cloned());
    let found = found.map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: {name}: {}", std::io::Error::from(ErrorKind::NotFound));
    }
    found
}
