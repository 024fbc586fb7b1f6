//! Processes in which no thread is left that could run, or it only looks so. A test harness has a thread that
//! waits where no other can see it. So this program is without one: it starts itself again, once for each
//! scene and runtime.

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::{self, Builder};
use selvedge::{Mxn, OneToOne, Runtime};

const SCENE: &str = "SELVEDGE_TEST_SCENE";
const RT: &str = "SELVEDGE_TEST_RUNTIME";
const SIGABRT: i32 = 6;
/// A scene that should end, and does not, ends itself after this.
const PATIENCE: &str = "60";

/// What must be said before a process is aborted; `None`: it must not be.
type Said = Option<&'static [&'static str]>;

/// On a runtime by its name.
type Play = fn(&str);

/// What a scene is, what it does on a runtime by name, and what must come of it.
const SCENES: [(&str, Play, Said); 9] = [
    (
        "no thread notifies",
        |rt| on(rt, &NoThreadNotifies),
        Some(&["deadlock: these wait forever", "\"other\"", "a condition variable", "no thread is left"]),
    ),
    ("no thread unparks", |rt| on(rt, &NoThreadUnparks), Some(&["its permit", "no thread is left"])),
    ("strangers have ended", |rt| on(rt, &StrangersEnded), Some(&["its permit", "no thread is left"])),
    ("no message can be written", |rt| on(rt, &NoMessage), Some(&[])),
    ("the end of a runtime", |rt| on(rt, &EndOfRuntime), Some(&["\"other\"", "the end of other threads"])),
    ("the end of a runtime with a lock", |rt| on(rt, &EndWithLock), Some(&["2 threads wait for each other"])),
    ("owners by themselves", |rt| on(rt, &Locks), Some(&["2 threads wait for each other"])),
    ("a forked child", |rt| on(rt, &ForkedChild), Some(&["its permit", "no thread is left"])),
    ("all sleep", |rt| on(rt, &AllSleep), None),
];

trait Scene {
    fn play<R: Runtime>(&self, rt: R);
}

fn on(rt: &str, scene: &impl Scene) {
    match rt {
        "mxn" => scene.play(Mxn::builder().concurrency(2).build().expect("the runtime starts")),
        "onetoone" => scene.play(OneToOne::new().expect("the runtime starts")),
        other => panic!("no runtime {other:?}"),
    }
}

fn other<R: Runtime>(rt: &R, f: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    rt.spawn_with(Builder::new().name("other".into()), f).expect("a thread")
}

struct NoThreadNotifies;

impl Scene for NoThreadNotifies {
    fn play<R: Runtime>(&self, rt: R) {
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        let theirs = Arc::clone(&shared);
        other(&rt, move || theirs.1.wait(&mut theirs.0.lock()));
        rt.run(|| shared.1.wait(&mut shared.0.lock()));
    }
}

struct NoThreadUnparks;

impl Scene for NoThreadUnparks {
    fn play<R: Runtime>(&self, rt: R) {
        // One that has been notified once is not the last that runs.
        let parked = other(&rt, || (0..2).for_each(|_| thread::park()));
        parked.thread().unpark();
        parked.join().unwrap();
    }
}

/// Threads that Selvedge did not start have used it. They are not among those that could wake the last one.
struct StrangersEnded;

impl Scene for StrangersEnded {
    fn play<R: Runtime>(&self, rt: R) {
        let met = std::sync::Barrier::new(3);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let _ = thread::current();
                    met.wait();
                });
            }
        });
        other(&rt, thread::park).join().unwrap();
    }
}

struct NoMessage;

impl Scene for NoMessage {
    fn play<R: Runtime>(&self, rt: R) {
        let (reads, writes) = std::io::pipe().unwrap();
        drop(reads);
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::dup2(writes.as_raw_fd(), libc::STDERR_FILENO) }, libc::STDERR_FILENO);
        other(&rt, thread::park).join().unwrap();
    }
}

/// The main thread waits for the threads in the runtime's destructor.
struct EndOfRuntime;

impl Scene for EndOfRuntime {
    fn play<R: Runtime>(&self, rt: R) {
        drop(other(&rt, thread::park));
        drop(rt);
    }
}

/// The same, and it holds what they wait for.
struct EndWithLock;

impl Scene for EndWithLock {
    fn play<R: Runtime>(&self, rt: R) {
        let mutex = Arc::new(Mutex::new(()));
        let _held = mutex.lock();
        let theirs = Arc::clone(&mutex);
        drop(other(&rt, move || drop(theirs.lock())));
        drop(rt);
    }
}

struct Locks;

impl Scene for Locks {
    fn play<R: Runtime>(&self, rt: R) {
        // The main thread, which Selvedge did not start, is one of the two.
        let mutex = Arc::new(Mutex::new(()));
        let _held = mutex.lock();
        let theirs = Arc::clone(&mutex);
        other(&rt, move || drop(theirs.lock())).join().unwrap();
    }
}

/// The threads of the parent wait and run as they did when the child was forked, as far as it can see.
struct ForkedChild;

impl Scene for ForkedChild {
    fn play<R: Runtime>(&self, rt: R) {
        let _parked = other(&rt, thread::park);
        let _runs = other(&rt, || std::thread::sleep(Duration::from_secs(100)));
        // By a thread that Selvedge did not start, and by one of a runtime.
        if forks_and_is_aborted() && rt.run(forks_and_is_aborted) {
            std::process::abort();
        }
        std::process::exit(0);
    }
}

/// Forks a child in which all wait, and returns `true` if it was aborted.
fn forks_and_is_aborted() -> bool {
    // SAFETY: the child starts a runtime of its own, and is aborted.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let own = OneToOne::new().expect("the runtime starts");
        other(&own, thread::park).join().unwrap();
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WTERMSIG(status) == SIGABRT
}

/// All sleep, again and again, and are woken by the clock, by a thread's end, or by one that the runtime
/// does not know.
struct AllSleep;

impl Scene for AllSleep {
    fn play<R: Runtime>(&self, rt: R) {
        let parked = rt.spawn(thread::park);
        let of = parked.thread().clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            of.unpark();
        });
        rt.run(|| parked.join().unwrap());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            rt.run(|| {
                let mutex = Mutex::new(());
                let held = mutex.lock();
                thread::scope(|s| {
                    s.spawn(|| drop(mutex.try_lock_for(Duration::from_millis(1))));
                    s.spawn(|| thread::sleep(Duration::from_millis(2)));
                });
                drop(held);
                thread::sleep(Duration::from_millis(120));
            });
        }
        drop(rt.spawn(|| thread::sleep(Duration::from_millis(300))));
        drop(rt);
        println!("played");
    }
}

fn again(scene: &str, rt: &str) -> Output {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).arg(std::env::current_exe().expect("a test has a file"));
    command.envs([(SCENE, scene), (RT, rt), ("SELVEDGE_DEADLOCK", "abort")]);
    command.output().expect("the test can be started again")
}

fn main() -> ExitCode {
    if let Ok(scene) = std::env::var(SCENE) {
        let (_, play, _) = SCENES.iter().find(|(name, ..)| *name == scene).expect("a scene of that name");
        play(&std::env::var(RT).expect("a runtime's name"));
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (scene, _, expected) in SCENES {
        for rt in ["mxn", "onetoone"] {
            let output = again(scene, rt);
            let said = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            // `timeout` dies of the signal that its child died of, or says 128 and its number.
            let aborted =
                output.status.signal() == Some(SIGABRT) || output.status.code() == Some(128 + SIGABRT);
            let fine = match expected {
                Some(words) => aborted && words.iter().all(|word| said.contains(word)),
                None => output.status.success() && said == "played\n",
            };
            println!("{scene} on {rt}: {}", if fine { "ok" } else { "FAILED" });
            if !fine {
                println!("{:?}\n{said}", output.status);
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
