//! Calls at the wrong moment: while a runtime goes, after it, and in a forked child.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use selvedge::thread::{self, Builder, ShutdownTimeout, ThreadId, ThreadState};
use selvedge::{Mxn, Runtime};

use super::fork::Own;
use super::watchdog::Watchdog;
use super::{child, mxn, onetoone};

pub(crate) const ROLES: &[(&str, fn())] = &[("fork_without_exec", fork_without_exec)];

/// Each thread starts the next, `left` times, while the runtime is being dropped.
fn chain(left: usize, ended: Arc<AtomicUsize>) {
    if left > 0 {
        thread::yield_now();
        let theirs = ended.clone();
        // Dropping the handle detaches it: only the runtime waits for it.
        drop(thread::spawn(move || chain(left - 1, theirs)));
    }
    ended.fetch_add(1, Ordering::Relaxed);
}

fn drop_waits_for_all<R: Runtime>(runtime: R) {
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let theirs = ended.clone();
        runtime.spawn(move || chain(50, theirs));
    }
    drop(runtime);
    assert_eq!(ended.load(Ordering::Relaxed), 8 * 51);
}

#[test]
fn threads_spawned_while_the_runtime_goes_are_waited_for() {
    let _watchdog = Watchdog::start("threads_spawned_while_the_runtime_goes_are_waited_for");
    for _ in 0..20 {
        drop_waits_for_all(mxn());
        drop_waits_for_all(onetoone());
    }
}

thread_local! {
    static SPAWNS: Cell<Option<SpawnsInDrop>> = const { Cell::new(None) };
}

/// Starts a thread when its own ends.
struct SpawnsInDrop(Arc<AtomicUsize>);

impl Drop for SpawnsInDrop {
    fn drop(&mut self) {
        let (mine, theirs) = (self.0.clone(), self.0.clone());
        let spawned = Builder::new().spawn(move || {
            theirs.fetch_add(1, Ordering::Relaxed);
        });
        // Refused or run, but never lost and never hanging.
        if let Err(error) = spawned {
            assert!(!error.to_string().is_empty());
            mine.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn spawn_from_destructors<R: Runtime>(runtime: R) {
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..16 {
        let theirs = ended.clone();
        runtime.spawn(move || SPAWNS.set(Some(SpawnsInDrop(theirs))));
    }
    drop(runtime);
    assert_eq!(ended.load(Ordering::Relaxed), 16);
}

#[test]
fn destructors_of_the_last_threads_may_spawn() {
    let _watchdog = Watchdog::start("destructors_of_the_last_threads_may_spawn");
    spawn_from_destructors(mxn());
    spawn_from_destructors(onetoone());
}

fn dropped_by_its_own_thread<R: Runtime + Send + 'static>(runtime: R) {
    let (told, heard) = channel();
    let runtime = Arc::new(runtime);
    let theirs = runtime.clone();
    let (go, gone) = channel();
    let handle = runtime.spawn(move || {
        gone.recv().expect("the other owner says when it has let go");
        drop(theirs);
        // The runtime's value is gone; its threads go on, and may still spawn.
        told.send(thread::spawn(|| 5).join().expect("a thread of a runtime that goes")).expect("a listener");
    });
    drop(runtime);
    go.send(()).expect("a listener");
    assert_eq!(heard.recv(), Ok(5));
    handle.join().expect("the thread");
}

#[test]
fn a_runtime_may_be_dropped_by_its_own_thread() {
    let _watchdog = Watchdog::start("a_runtime_may_be_dropped_by_its_own_thread");
    for _ in 0..20 {
        dropped_by_its_own_thread(mxn());
        dropped_by_its_own_thread(onetoone());
    }
}

#[test]
fn handles_outlive_their_runtime() {
    let _watchdog = Watchdog::start("handles_outlive_their_runtime");
    let (runtime, other) = (mxn(), onetoone());
    let (a, b) = (runtime.spawn(|| String::from("mxn")), other.spawn(|| String::from("onetoone")));
    drop((runtime, other));
    assert!(a.is_finished() && b.is_finished());
    a.thread().unpark();
    assert_eq!(
        (a.join().expect("its value"), b.join().expect("its value")),
        ("mxn".into(), "onetoone".into())
    );
}

/// What a destructor at the end of kernel threads waits for, and how many have come and had it.
struct Gate {
    open: std::sync::Mutex<bool>,
    opened: std::sync::Condvar,
    came: AtomicUsize,
    passed: AtomicUsize,
}

impl Gate {
    fn new() -> &'static Self {
        let (open, opened) = Default::default();
        let [came, passed] = [const { AtomicUsize::new(0) }; 2];
        Box::leak(Box::new(Self { open, opened, came, passed }))
    }

    fn pass(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        self.passed.fetch_add(1, Ordering::Release);
    }

    /// Lets all pass, and waits for as many as are there.
    fn open(&self, there: usize) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
        while self.passed.load(Ordering::Acquire) < there {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The running kernel thread passes at its end, when all its thread-locals are gone.
    fn pass_at_the_end_of_this_kernel_thread(&'static self) {
        static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
        unsafe extern "C" fn pass(gate: *mut libc::c_void) {
            // SAFETY: the value that was set below.
            unsafe { &*gate.cast::<Gate>() }.pass();
        }
        let key = KEY.get_or_init(|| {
            let mut key = 0;
            // SAFETY: a place for the key.
            assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(pass)) }, 0);
            key
        });
        // SAFETY: the key is never deleted, and the gate is leaked.
        assert_eq!(unsafe { libc::pthread_setspecific(*key, std::ptr::from_ref(self).cast()) }, 0);
    }
}

/// Shuts a runtime down, which all threads are about to leave but for what their kernel threads do last.
/// Returns the report, and what `begin` returned with the runtime. A busy machine may keep others from their
/// ends: then it tries another runtime, with more time.
#[track_caller]
fn shut_down_with_stuck_ends<R: Own, T>(
    stuck: usize,
    begin: impl Fn(&'static Gate) -> (R, T),
) -> (ShutdownTimeout, T) {
    let mut reports = Vec::new();
    for time in [200, 2_000, 20_000].map(Duration::from_millis) {
        let gate = Gate::new();
        let (rt, begun) = begin(gate);
        let start = Instant::now();
        let unstopped = rt.stop(time).expect_err("the kernel threads are not gone");
        let took = start.elapsed();
        // They end by themselves.
        gate.open(stuck);
        let kernel_threads = unstopped.kernel_threads();
        if unstopped.threads().is_empty()
            && kernel_threads.len() == stuck
            && kernel_threads.iter().all(|it| matches!(it.state(), ThreadState::InKernel { .. }))
        {
            // The second that they get at least, and what a busy machine may add.
            assert!(took < time + Duration::from_secs(20), "{took:?}");
            assert!(unstopped.to_string().contains("all threads have stopped, but "), "{unstopped}");
            return (unstopped, begun);
        }
        reports.push(unstopped.to_string());
    }
    panic!("{stuck} are stuck, and these are left: {reports:#?}");
}

/// Starts threads that end with their kernel threads stuck, and one that ends as usual. Returns the ids of
/// the first.
fn end_in<R: Own>(rt: &R, gate: &'static Gate) -> Vec<ThreadId> {
    let (told, heard) = channel();
    let ends = |name: &str, stuck: bool| {
        let (go, gone) = channel::<()>();
        let told = told.clone();
        let builder = Builder::new().bound(true).name(name.into());
        let ends = move || {
            // Detached before it ends: a later detach would join it.
            let _ = gone.recv();
            if stuck {
                gate.pass_at_the_end_of_this_kernel_thread();
            }
            told.send(thread::current().id()).unwrap();
        };
        drop(rt.spawn_with(builder, ends).unwrap());
        drop(go);
        heard.recv().unwrap()
    };
    let stuck = vec![ends("one", true), ends("two", true)];
    // One that ends after them does not wait for them.
    ends("after", false);
    stuck
}

fn ends_of_kernel_threads<R: Own>(new: fn() -> R) {
    let (unstopped, mut stuck) = shut_down_with_stuck_ends(2, |gate| {
        let rt = new();
        let stuck = end_in(&rt, gate);
        (rt, stuck)
    });
    let mut seen: Vec<_> = unstopped.kernel_threads().iter().filter_map(|kernel| kernel.thread()).collect();
    seen.sort();
    stuck.sort();
    assert_eq!(seen, stuck);
    let named = |name| unstopped.kernel_threads().iter().any(|kernel| kernel.name() == Some(name));
    assert!(named("one") && named("two") && !named("after"), "{unstopped}");
}

/// Only a `thread_local!`'s destructor holds a kernel thread up that is a thread: that has not ended then.
fn ends_of_threads<R: Own>(rt: R) {
    thread_local! {
        static PASSES: Cell<Option<Passes>> = const { Cell::new(None) };
    }
    struct Passes(&'static Gate);
    impl Drop for Passes {
        fn drop(&mut self) {
            self.0.pass();
        }
    }
    let gate = Gate::new();
    drop(rt.spawn_with(Builder::new().bound(true), || PASSES.set(Some(Passes(gate)))).unwrap());
    let waits = || matches!(&rt.threads()[..], [one] if matches!(one.state(), ThreadState::InKernel { .. }));
    while gate.came.load(Ordering::Relaxed) == 0 || !waits() {
        thread::yield_now();
    }
    let unstopped = rt.stop(Duration::from_millis(200)).expect_err("it waits");
    assert!(unstopped.kernel_threads().is_empty(), "{unstopped}");
    assert!(matches!(unstopped.threads(), [one] if matches!(one.state(), ThreadState::InKernel { .. })));
    gate.open(1);
}

#[test]
fn destructors_at_the_end_of_kernel_threads_do_not_hold_a_shutdown_up() {
    let _watchdog = Watchdog::start("destructors_at_the_end_of_kernel_threads_do_not_hold_a_shutdown_up");
    ends_of_kernel_threads(mxn);
    ends_of_kernel_threads(onetoone);
    ends_of_threads(mxn());
    ends_of_threads(onetoone());
}

/// The values of a pinned green thread are its LWP's, and destroyed with that.
#[test]
fn destructors_at_the_end_of_lwps_do_not_hold_a_shutdown_up() {
    let _watchdog = Watchdog::start("destructors_at_the_end_of_lwps_do_not_hold_a_shutdown_up");
    let (unstopped, ()) = shut_down_with_stuck_ends(1, |gate| {
        // SAFETY: what runs here keeps nothing in a thread-local across a wait.
        let rt = unsafe { Mxn::builder().concurrency(1).pinned() }.build().expect("the runtime starts");
        rt.spawn(|| gate.pass_at_the_end_of_this_kernel_thread()).join().unwrap();
        (rt, ())
    });
    let [lwp] = unstopped.kernel_threads() else { panic!("{unstopped}") };
    assert_eq!(lwp.thread(), None);
    assert!(lwp.name().is_some_and(|name| name.starts_with("selvedge-")), "{unstopped}");
    // Others are not concerned.
    assert_eq!(mxn().spawn(|| 1).join().unwrap(), 1);
}

/// In a child that does not exec, a runtime has lost its LWPs: its calls fail, and never wait for them.
fn fork_without_exec() {
    let runtime: Mxn = mxn();
    assert_eq!(runtime.spawn(|| 1).join().expect("a thread"), 1);
    // SAFETY: the child only makes calls that are under test, and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: no preconditions. Ends the child if it hangs.
        unsafe { libc::alarm(20) };
        let refused = runtime.spawn_with(Builder::new(), || ()).is_err();
        // A kernel thread of the child is fine: it has one to start it.
        let kernel = std::thread::spawn(|| 4).join().is_ok_and(|n| n == 4);
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(!refused) | i32::from(!kernel) << 1) };
    }
    let mut status = 0;
    // SAFETY: a child of this process and a place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(!libc::WIFSIGNALED(status), "the child was ended by signal {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status) & 1, 0, "a green thread was started, which no LWP will run");
    assert_eq!(libc::WEXITSTATUS(status) & 2, 0, "no kernel thread could be started");
    // The parent has noticed nothing.
    assert_eq!(runtime.spawn(|| 2).join().expect("a thread"), 2);
}

#[test]
fn a_forked_child_gets_errors() {
    child::run("fork_without_exec", &[]).expect_success();
}
