//! The socket of ThreadMon, from outside: what it tells, and what it survives.

mod attacks;
#[path = "../support/child.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod child;
mod dumps;
mod errors;
mod many;
#[path = "../support/random.rs"]
#[allow(dead_code, reason = "frames are drawn as they are sent, and do not shrink")]
mod random;
mod seen;
mod storm;
mod views;
#[path = "../support/watchdog.rs"]
mod watchdog;

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use selvedge::threadmon::{Client, serve};
use selvedge::{Mxn, Runtime, thread};
use watchdog::Watchdog;

/// Runs a role in a process with a private directory for sockets.
fn run(role: &str) {
    let _watchdog = Watchdog::start(role);
    let room = tempfile::tempdir().unwrap();
    // A child gets no variable of ours but those that are named.
    let stress = std::env::var("SELVEDGE_STRESS").unwrap_or_default();
    let variables =
        [("XDG_RUNTIME_DIR", room.path().to_str().unwrap()), ("SELVEDGE_STRESS", stress.as_str())];
    child::run(role, &variables).expect_success();
}

/// A file to which this process prints its errors from some moment on, so that it can see what it has
/// printed.
struct ErrorFile(tempfile::NamedTempFile);

impl ErrorFile {
    fn begin() -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        // SAFETY: two open descriptors.
        assert_eq!(unsafe { libc::dup2(file.as_file().as_raw_fd(), 2) }, 2);
        Self(file)
    }

    /// Waits until what was printed is as `is` says, and returns it.
    fn until(&self, is: impl Fn(&str) -> bool) -> String {
        loop {
            let text = std::fs::read_to_string(self.0.path()).unwrap();
            if is(&text) {
                return text;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Returns the path of this process's socket.
fn socket() -> PathBuf {
    let room = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap());
    room.join("selvedge").join(format!("{}.sock", std::process::id()))
}

/// A program that is looked at: two threads hand something to and fro, on all LWPs that there are.
struct Target {
    rt: Mxn,
    rounds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    players: Vec<thread::JoinHandle<()>>,
}

impl Target {
    fn start() -> Self {
        serve().unwrap();
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        let (rounds, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let players = (0..2).map(|n| {
            let (rounds, stop) = (Arc::clone(&rounds), Arc::clone(&stop));
            let named = thread::Builder::new().name(format!("player-{n}"));
            rt.spawn_with(named, move || {
                while !stop.load(Relaxed) {
                    rounds.fetch_add(1, Relaxed);
                    thread::yield_now();
                }
            })
            .unwrap()
        });
        let players = players.collect();
        Self { rt, rounds, stop, players }
    }

    /// Checks that the threads go on, and that a client is served.
    fn check(&self) {
        let before = self.rounds.load(Relaxed);
        let overview = Client::connect(std::process::id()).unwrap().overview().unwrap();
        assert_eq!(overview.pid, std::process::id());
        assert_eq!(overview.runtimes.len(), 1);
        while self.rounds.load(Relaxed) == before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(self) {
        self.check();
        self.stop.store(true, Relaxed);
        self.players.into_iter().for_each(|player| player.join().unwrap());
        drop(self.rt);
    }
}

/// Runs as a child process of a test.
#[test]
#[ignore = "run as a child by other tests"]
fn child() {
    child::play(&[
        ("frames", attacks::frames),
        ("stall", attacks::stall),
        ("vanish", attacks::vanish),
        ("ten", attacks::ten),
        ("strangers", attacks::strangers),
        ("crowd", attacks::crowd),
        ("other_user", attacks::other_user),
        ("roots_client", attacks::roots_client),
        ("other_server", attacks::other_server),
        ("hogs", attacks::hogs),
        ("fork", errors::fork),
        ("fork_asked", errors::fork_asked),
        ("orphan", errors::orphan),
        ("closed", attacks::closed),
        ("together", errors::together),
        ("serve", errors::serves),
        ("refuse", errors::refuses),
        ("errors", errors::errors),
        ("stays", errors::stays),
        ("elsewhere", errors::elsewhere),
        ("quit", views::quit),
        ("views", views::views),
        ("wants", views::wants),
        ("young", views::young),
        ("walk", views::walk),
        ("many", many::many),
        ("events", views::events),
        ("history", views::history),
        ("parked", dumps::parked),
        ("computing", dumps::computing),
        ("preempted", dumps::preempted),
        ("blocking", dumps::blocking),
        ("storm", storm::storm),
        ("many", dumps::many),
        ("forms", dumps::forms),
        ("quit_deep", dumps::quit_deep),
        ("quit_in_vain", dumps::quit_in_vain),
        ("quit_locked", dumps::quit_locked),
        ("own", dumps::own),
    ]);
}
