//! A process with threads of all kinds in known places. It holds still until it is told to end.

use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use selvedge::channel::bounded;
use selvedge::sync::Mutex;
use selvedge::thread::{self, Builder};
use selvedge::{LwpState, LwpStats, Mxn, Runtime};

const READY: &str = "all threads are in place";
/// What the chain of calls makes of 1.
const RESULT: u64 = 0x0200_0301;

/// The process, as its parent has it.
pub(crate) struct Scene {
    child: Child,
    lines: Box<dyn Iterator<Item = std::io::Result<String>>>,
}

impl Scene {
    /// Starts it in a folder. Returns when its threads are in place.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut command = crate::child::command("scene", &[]);
        command.current_dir(folder);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child of this program");
        let mut lines = Box::new(BufReader::new(child.stdout.take().expect("piped")).lines());
        let ready = lines.any(|line| line.expect("UTF-8").contains(READY));
        assert!(ready, "the child has ended: {:?}", child.wait());
        Self { child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, and checks that all its threads have gone on.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        let said: Vec<_> = self.lines.map_while(Result::ok).collect();
        let status = self.child.wait().expect("a child to wait for");
        assert!(status.success(), "{status}\n{}", said.join("\n"));
    }
}

impl Scene {
    /// Ends it by a signal. Returns the core file in the folder, if there is one.
    pub(crate) fn abort(mut self, folder: &Path) -> Option<PathBuf> {
        // To close it would be to tell the process to end.
        let _open = self.child.stdin.take();
        // SAFETY: no memory is involved.
        unsafe { libc::kill(self.pid().cast_signed(), libc::SIGABRT) };
        let status = self.child.wait().expect("a child to wait for");
        let mut files = fs::read_dir(folder).expect("the folder");
        status.core_dumped().then(|| files.next().map(|file| file.expect("a file").path())).flatten()
    }
}

/// Computes a little with `x` around a wait, so that a wrong register shows.
#[inline(never)]
fn innermost(x: u64, wait: &dyn Fn()) -> u64 {
    let before = black_box(x);
    wait();
    black_box(before << 8 | 1)
}

#[inline(never)]
fn middle(x: u64, wait: &dyn Fn()) -> u64 {
    let before = black_box(x + 1);
    black_box(innermost(before, wait) ^ before << 24) ^ 0x0100_0000
}

#[inline(never)]
fn outermost(x: u64, wait: &dyn Fn()) -> u64 {
    black_box(middle(x, wait))
}

#[inline(never)]
fn waits_for_the_lock(lock: &Mutex<u64>, come: impl Fn()) -> u64 {
    come();
    let mut guard = lock.lock();
    *guard += 1;
    black_box(*guard)
}

/// Never waits.
#[inline(never)]
fn computes_until(stop: &AtomicBool, come: impl Fn()) -> f64 {
    come();
    let (mut sum, mut n) = (0.0, 0.0);
    while !stop.load(Ordering::Relaxed) {
        n += 1.0;
        sum += black_box(1.0 / (n * n));
    }
    sum
}

/// What the process does.
pub(crate) fn play() {
    // SAFETY: no memory is involved. Where only ancestors may stop a process, gdb is not one.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
    let mut cores = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for two numbers.
    unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut cores) };
    cores.rlim_cur = cores.rlim_max;
    // SAFETY: the same place, with what was found there.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const cores) };
    let rt = Mxn::builder().concurrency(1).time_slice(Some(Duration::from_millis(1))).build().unwrap();
    let named = |name: &str| Builder::new().name(name.into()).stack_size(64 << 10);
    let (lock, stop) = (Arc::new(Mutex::new(0)), Arc::new(AtomicBool::new(false)));
    let held = lock.lock();
    let (sender, receiver) = bounded::<u64>(1);
    let (comes, all) = mpsc::channel();
    let come = move || comes.send(()).unwrap();

    let wait = |park: fn()| {
        let come = come.clone();
        move || {
            come();
            park();
        }
    };
    let for_long = || thread::park_timeout(Duration::from_secs(3600));
    let (at, later, alone) = (wait(thread::park), wait(for_long), wait(thread::park));
    let parked = rt.spawn_with(named("parked"), move || outermost(2, &at)).unwrap();
    let long = rt.spawn_with(named("parked for long"), move || outermost(2, &later)).unwrap();
    let bound = rt.spawn_with(named("bound").bound(true), move || outermost(2, &alone)).unwrap();
    let threads = [&parked, &long, &bound].map(|it| it.thread().clone());
    let (theirs, at) = (Arc::clone(&lock), come.clone());
    let wants = rt.spawn_with(named("wants a lock"), move || waits_for_the_lock(&theirs, at)).unwrap();
    let at = come.clone();
    let receives =
        rt.spawn_with(named("receives \u{1b}[2J"), move || (at(), receiver.recv().unwrap()).1).unwrap();
    let at = come.clone();
    let joins = rt.spawn_with(named("joins"), move || (at(), parked.join().unwrap()).1).unwrap();
    all.iter().take(6).for_each(drop);
    let waits = |lwp: &LwpStats| matches!(lwp.state, LwpState::Idle | LwpState::Spare | LwpState::Starting);
    while !rt.stats().lwps.iter().all(waits) {
        std::thread::yield_now();
    }
    // The slot goes from the first of them to the second, which keeps its LWP from then on. There is no moment
    // at which neither is on an LWP.
    let computing = [("computes", false), ("computes, too", true)].map(|(name, keeps)| {
        let (stop, at) = (Arc::clone(&stop), come.clone());
        let computes = move || computes_until(&stop, at);
        rt.spawn_with(named(name), move || if keeps { thread::no_preempt(computes) } else { computes() })
            .unwrap()
    });
    all.iter().take(2).for_each(drop);
    // A thread has an id when something has asked for it.
    let _ = threads[0].id();
    println!("{READY}");

    // Until the parent closes it.
    let _ = std::io::stdin().lines().count();
    stop.store(true, Ordering::Relaxed);
    drop(held);
    sender.send(7).unwrap();
    threads.iter().for_each(thread::Thread::unpark);
    assert_eq!([joins, long, bound].map(|it| it.join().unwrap()), [RESULT; 3]);
    assert_eq!((wants.join().unwrap(), receives.join().unwrap()), (1, 7));
    for sum in computing.map(|it| it.join().unwrap()) {
        assert!((1.0..std::f64::consts::PI.powi(2) / 6.0).contains(&sum), "{sum}");
    }
}
