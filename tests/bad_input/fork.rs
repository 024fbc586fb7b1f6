//! A forked child that does not exec. In the child, the calls of this crate return errors, or work with
//! the one kernel thread that it has. None hangs, whichever thread of whichever runtime called `fork`.
//!
//! Each scenario forks in a process of its own, many times, while other threads are busy. So the child comes
//! into being with locks held and queues full.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use selvedge::sync::{
    Barrier, CheckedMutex, Condition, Condvar, LockError, LockWith, Mutex, RawRobust, RawRobustMutex,
    ReentrantMutex, RobustError, RwLock, RwLockUpgradableReadGuard, Semaphore,
};
use selvedge::thread::{self, Builder, JoinHandle, Priority, ShutdownTimeout, Thread};
use selvedge::{Mxn, OneToOne, Runtime, ThreadRegister, Wait};

use super::forked::{expect_end, fork_into, in_child, panics_end_the_process};
use super::watchdog::Watchdog;
use super::{child, mxn, unseen};

const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(1000);

/// What `f` says when it panics.
#[track_caller]
fn refusal<T>(f: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).map(|_| ()).expect_err("would have waited forever");
    panic.downcast_ref::<&str>().map_or_else(|| "?".into(), ToString::to_string)
}

/// Threads of the parent in every state, and what they hold.
struct Scene {
    held: Mutex<u32>,
    free: Mutex<()>,
    changed: Condvar,
    three: Barrier,
    /// There is never one in the parent.
    permits: Semaphore,
    /// There is one, and a thread waits for two.
    one_of_two: Semaphore,
    over: AtomicBool,
}

/// Starts threads that wait for each other, and threads that hammer on everything.
fn play<R: Runtime>(rt: &R) -> (Arc<Scene>, Vec<JoinHandle<()>>) {
    panics_end_the_process();
    let scene = Arc::new(Scene {
        held: Mutex::new(0),
        free: Mutex::new(()),
        changed: Condvar::new(),
        three: Barrier::new(3),
        permits: Semaphore::new(0),
        one_of_two: Semaphore::new(1),
        over: AtomicBool::new(false),
    });
    let actor = |bound: bool, act: fn(&Scene)| {
        let scene = Arc::clone(&scene);
        rt.spawn_with(Builder::new().bound(bound), move || act(&scene)).expect("a thread")
    };
    let mut actors = vec![
        actor(false, |scene| {
            let held = scene.held.lock();
            while !scene.over.load(SeqCst) {
                thread::park_timeout(Duration::from_secs(1000));
            }
            drop(held);
        }),
        actor(true, |scene| {
            while !scene.over.load(SeqCst) {
                thread::park()
            }
        }),
        actor(false, |scene| drop(scene.one_of_two.acquire_many(2))),
    ];
    // Until it has queued. A child that is forked before misses what that thread has claimed.
    while scene.one_of_two.try_acquire().is_some() || scene.one_of_two.available_permits() == 0 {
        thread::yield_now();
    }
    while scene.held.try_lock().is_some() {
        thread::yield_now();
    }
    for bound in [false, true] {
        actors.push(actor(bound, |scene| drop(scene.held.lock())));
        actors.push(actor(bound, |scene| {
            let mut guard = scene.free.lock();
            while !scene.over.load(SeqCst) {
                scene.changed.wait(&mut guard);
            }
        }));
        actors.push(actor(bound, |scene| {
            while !scene.over.load(SeqCst) {
                drop(scene.free.lock());
                thread::sleep(Duration::from_micros(5));
                thread::yield_now();
            }
        }));
        actors.push(actor(bound, |scene| {
            while !scene.over.load(SeqCst) {
                assert!(scene.permits.try_acquire_for(Duration::from_micros(5)).is_none());
            }
        }));
        actors.push(actor(bound, |scene| {
            while !scene.over.load(SeqCst) {
                let one = thread::spawn(thread::park);
                one.thread().set_priority(Priority::High);
                one.thread().unpark();
                one.join().expect("it only parks");
            }
        }));
    }
    (scene, actors)
}

fn end(scene: &Scene, actors: Vec<JoinHandle<()>>) {
    scene.over.store(true, SeqCst);
    scene.one_of_two.add_permits(1);
    // The two that park, first: the one has the lock.
    for actor in &actors {
        actor.thread().unpark();
    }
    for actor in actors {
        while !actor.is_finished() {
            drop(scene.free.lock());
            scene.changed.notify_all();
            actor.thread().unpark();
            thread::yield_now();
        }
        actor.join().expect("an actor of the parent");
    }
}

/// In the child of a thread of `rt`, or (`own` is false) of a foreign one.
fn counts_only_what_is_here<R: Runtime>(rt: &R, own: bool) {
    let (info, stats, left) = (rt.info(), rt.stats(), usize::from(own));
    assert_eq!((info.model, stats.model), (R::NAME, R::NAME));
    assert_eq!((info.threads, stats.threads, stats.bound), (left, left, left), "{info} {stats}");
    assert!(stats.lwps.is_empty() && stats.helpers.is_empty() && !stats.preempts_by_signal, "{stats}");
    // The one that called `fork` is no LWP of `mxn`; each thread of `onetoone` is its own.
    assert_eq!(info.lwps, if R::NAME == "mxn" { 0 } else { left });
}

/// What the child of a thread of `rt`, or (`own` is false) of a foreign one, may ask for.
fn audit<R: Own>(rt: &R, own: bool, scene: &Scene, actors: &[JoinHandle<()>]) {
    let me = thread::current();
    let refused = rt.spawn_with(Builder::new(), || ()).expect_err("no LWP would run it");
    assert!(refused.to_string().contains("fork"), "{refused}");
    assert!(rt.spawn_with(Builder::new().bound(true), || ()).is_err());
    counts_only_what_is_here(rt, own);
    // Whichever thread asks.
    std::thread::scope(|s| s.spawn(|| counts_only_what_is_here(rt, own)).join().expect("it has said why"));

    // Time passes.
    let start = Instant::now();
    thread::sleep(SHORT);
    thread::sleep_until(Instant::now() + SHORT);
    thread::park_timeout(SHORT);
    assert!(start.elapsed() >= 3 * SHORT);
    thread::yield_now();
    assert_eq!(thread::blocking(|| rt.blocking(|| 7)), 7);

    // Its own permit, and its own interrupts.
    me.unpark();
    thread::park();
    assert!(refusal(thread::park).contains("fork"));
    me.interrupt();
    assert!(thread::sleep_with(Wait::timeout(SHORT).interruptible()).is_err());
    assert!(refusal(|| thread::park_with(Wait::forever().interruptible())).contains("fork"));

    // Locks, free and not.
    assert!(scene.held.try_lock().is_none());
    assert!(scene.held.try_lock_for(SHORT).is_none());
    assert!(refusal(|| drop(scene.held.lock())).contains("fork"));
    assert!(refusal(|| drop(scene.held.lock_with(Wait::forever().interruptible()))).contains("fork"));
    let table = RwLock::new(());
    let read = table.read();
    // Its own guard is in the way, and no other thread could let it go. It is refused, and leaves the
    // lock open.
    let upgrades = table.upgradable_read();
    assert!(refusal(|| drop(RwLockUpgradableReadGuard::upgrade(upgrades))).contains("fork"));
    assert!(table.try_read().is_some() && table.try_upgradable_read().is_some());
    drop(read);
    assert!(table.try_write().is_some());
    let mine = Mutex::new(1);
    let mut guard = mine.lock();
    let changed = Condvar::new();
    assert!(changed.wait_for(&mut guard, SHORT).timed_out());
    assert!(refusal(|| changed.wait(&mut guard)).contains("fork"));
    // With another mutex than the parent's waiters, which are not here.
    assert!(scene.changed.wait_for(&mut guard, SHORT).timed_out());
    assert!(mine.try_lock().is_none(), "the guard has it still");
    drop(guard);
    assert_eq!(*mine.lock(), 1);
    assert!(Barrier::new(2).wait_timeout(SHORT).is_none());
    assert!(refusal(|| scene.three.wait()).contains("fork"));
    assert!(scene.one_of_two.try_acquire().is_some());
    scene.permits.add_permits(1);
    assert!(scene.permits.try_acquire_many(2).is_none());
    scene.permits.acquire().forget();
    assert!(scene.permits.try_acquire_for(SHORT).is_none());
    scene.changed.notify_one();
    scene.changed.notify_all();

    // Threads of the parent: they neither end nor wake.
    for actor in actors {
        assert!(!actor.is_finished());
        actor.thread().unpark();
        actor.thread().interrupt();
        actor.thread().set_priority(Priority::Low);
        let _ = (actor.thread().id(), actor.thread().name(), actor.thread().is_interrupted());
    }
    // SAFETY: the handles are the parent's too, in its own copy; here the originals are not used again.
    let copy = |actor: &JoinHandle<()>| unsafe { ptr::read(actor) };
    let lost = copy(&actors[0]).join().expect_err("it never ends here");
    assert!(lost.downcast_ref::<&str>().is_some_and(|what| what.contains("fork")));
    assert!(copy(&actors[1]).join_timeout(SHORT).expect("no need to wait").is_err());
    assert!(
        copy(&actors[2]).join_with(Wait::forever().interruptible()).expect("it is not interrupted").is_err()
    );
    drop(copy(&actors[3]));

    // Kernel threads can be had, and everything works between them.
    let turn = Mutex::new(0);
    let passed = Condvar::new();
    std::thread::scope(|s| {
        for mine in 0..2 {
            let (turn, passed) = (&turn, &passed);
            s.spawn(move || {
                for _ in 0..50 {
                    let mut now = turn.lock();
                    passed.wait_while(&mut now, |now| *now % 2 != mine);
                    *now += 1;
                    passed.notify_all();
                }
            });
        }
    });
    assert_eq!(*turn.lock(), 100);
    let (tell, hear) = std::sync::mpsc::channel::<Thread>();
    let other = std::thread::spawn(move || {
        tell.send(thread::current()).unwrap();
        thread::park();
    });
    hear.recv().unwrap().unpark();
    other.join().unwrap();

    // The child's own runtimes are its own.
    let own = OneToOne::new().expect("a runtime of the child's");
    assert_eq!(own.run(|| thread::spawn(|| 4).join().unwrap()), 4);
    drop(own);

    // SAFETY: a copy of the handle, of which neither use does anything in a child.
    let unstopped = unsafe { ptr::read(rt) }.stop(LONG).expect_err("its threads are elsewhere");
    assert!(unstopped.to_string().contains("fork"), "{unstopped}");
    // SAFETY: a copy of the handle, and its drop does nothing in a child.
    drop(unsafe { ptr::read(rt) });
}

/// What is not in the trait.
pub(crate) trait Own: Runtime {
    fn stop(self, timeout: Duration) -> Result<(), ShutdownTimeout>;
}

impl Own for Mxn {
    fn stop(self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        self.shutdown(timeout)
    }
}

impl Own for OneToOne {
    fn stop(self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        self.shutdown(timeout)
    }
}

/// Forks `times` from each kind of thread.
///
/// In a child the C library gives the stacks of all other threads to new threads. So everything that the
/// children use is on the heap.
fn fork_from_all<R: Own + 'static>(rt: R, times: usize) {
    let rt = Box::new(rt);
    let (rt, set) = (&*rt, Box::new(play(&*rt)));
    let (scene, actors) = (&*set.0, &set.1[..]);
    for round in 0..times {
        rt.run(|| in_child(|| audit(rt, true, scene, actors)));
        rt.run(|| {
            thread::scope(|s| {
                let bound = Builder::new().bound(true);
                let forks = || in_child(|| audit(rt, true, scene, actors));
                bound.spawn_scoped(s, forks).expect("a bound thread").join().expect("its child ends well");
            });
        });
        // This one, which no runtime started; before it has waited, and after.
        in_child(|| audit(rt, false, scene, actors));
        if round % 4 == 0 {
            // In a region that announced blocking, for so long that its slot is gone by the time it ends.
            rt.run(|| {
                thread::blocking(|| {
                    unseen::sleep(SHORT);
                    in_child(|| ());
                    let child = fork_into(|| thread::sleep(SHORT));
                    expect_end(child);
                });
            });
        }
    }
    let (scene, actors) = *set;
    end(&scene, actors);
}

const TIMES: usize = 6;

fn green(register: ThreadRegister) {
    let rt = Mxn::builder().concurrency(2).thread_register(register).build();
    match rt {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => println!("skipped: {error}"),
        rt => fork_from_all(rt.expect("the runtime starts"), TIMES),
    }
}

/// A thread that forks, and returns from its closure in the child too: there the process ends with it.
fn returns_in_the_child<R: Runtime>(rt: &R) {
    panics_end_the_process();
    for _ in 0..5 {
        // SAFETY: the child returns at once.
        let pid = rt.spawn(|| unsafe { libc::fork() }).join().expect("the parent's thread ends as usual");
        assert!(pid > 0);
        expect_end(pid);
    }
    assert_eq!(rt.spawn(|| 5).join().expect("the parent goes on"), 5);
}

/// The caller of `fork` goes on in the child with the locks that it has; those of all others are dead.
fn locks_of_a_fork<R: Runtime>(rt: &R) {
    panics_end_the_process();
    for bound in [false, true] {
        let (own, other) = (Arc::new(RawRobustMutex::new()), Arc::new(RawRobustMutex::new()));
        let theirs = Arc::clone(&other);
        let owner = rt
            .spawn_with(Builder::new().bound(bound), move || {
                assert_eq!(theirs.lock(), Ok(Condition::Consistent));
                thread::park();
                theirs.unlock()
            })
            .expect("a thread");
        while !other.is_locked() {
            thread::yield_now();
        }
        let theirs = Arc::clone(&other);
        let forks = move || {
            let (checked, reentrant) = (CheckedMutex::new(()), ReentrantMutex::new(()));
            let _guards = (checked.lock(), reentrant.lock());
            assert_eq!(own.lock(), Ok(Condition::Consistent));
            let me = thread::current().id();
            in_child(|| {
                assert_eq!(thread::current().id(), me);
                assert_eq!(own.lock(), Err(RobustError::Deadlock));
                assert_eq!(own.unlock(), Ok(()));
                assert_eq!(theirs.try_lock(), Ok(Some(Condition::OwnerDied)));
                assert!(theirs.mark_consistent());
                assert_eq!(theirs.unlock(), Ok(()));
                assert_eq!(checked.lock().map(drop), Err(LockError::Deadlock));
                assert!(reentrant.is_owned_by_current_thread() && reentrant.try_lock().is_some());
                // A thread of the child's own ends with one.
                let ends = Arc::clone(&theirs);
                std::thread::spawn(move || _ = ends.lock()).join().expect("it only locks");
                assert_eq!(theirs.lock(), Ok(Condition::OwnerDied));
            });
            assert_eq!(own.unlock(), Ok(()));
            assert_eq!(theirs.try_lock(), Ok(None));
        };
        rt.spawn_with(Builder::new().bound(bound), forks).expect("a thread").join().expect("it forks");
        owner.thread().unpark();
        assert_eq!(owner.join().expect("it parks"), Ok(()));
    }
}

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("switched", || green(ThreadRegister::Switched)),
    ("syscall", || green(ThreadRegister::Syscall)),
    ("pinned", || {
        // SAFETY: what runs here keeps nothing in a thread-local across a wait.
        let rt = unsafe { Mxn::builder().concurrency(2).pinned() }.build().expect("the runtime starts");
        fork_from_all(rt, TIMES);
    }),
    ("onetoone", || fork_from_all(OneToOne::new().expect("the runtime starts"), TIMES)),
    ("returns", || {
        returns_in_the_child(&Mxn::new().expect("the runtime starts"));
        returns_in_the_child(&OneToOne::new().expect("the runtime starts"));
    }),
    ("child_with_green_threads", || {
        let rt = Mxn::builder().concurrency(2).build().expect("the runtime starts");
        let (scene, actors) = play(&rt);
        for _ in 0..TIMES {
            rt.run(|| {
                in_child(|| {
                    let own = Mxn::builder().concurrency(2).build().expect("a runtime of the child's");
                    let sum: u32 =
                        (0..100).map(|n| own.spawn(move || n)).map(|t| t.join().expect("its value")).sum();
                    assert_eq!(sum, 4950);
                    let raised = own.spawn(thread::park);
                    raised.thread().set_priority(Priority::High);
                    raised.thread().unpark();
                    raised.join().expect("it only parks");
                    // And so on: a green thread of the child forks.
                    own.run(|| in_child(|| assert!(own.spawn_with(Builder::new(), || ()).is_err())));
                    drop(own);
                });
            });
        }
        end(&scene, actors);
    }),
    ("owners", || {
        locks_of_a_fork(&mxn());
        locks_of_a_fork(&super::onetoone());
    }),
    ("others_start_and_end", || {
        let over = Arc::new(AtomicBool::new(false));
        let starts = Arc::clone(&over);
        let starter = std::thread::spawn(move || {
            while !starts.load(SeqCst) {
                std::thread::spawn(|| ()).join().expect("it does nothing");
            }
        });
        let rt = super::onetoone();
        for _ in 0..100 {
            rt.run(|| {
                in_child(|| {
                    let own = OneToOne::new().expect("a runtime of the child's");
                    assert_eq!(own.spawn(|| 4).join().expect("its value"), 4);
                });
            });
        }
        over.store(true, SeqCst);
        starter.join().expect("it only starts threads");
    }),
    ("goes_on", || {
        let rt = mxn();
        let forks = Builder::new().name("forks".into()).priority(Priority::High);
        let forks = rt.spawn_with(forks, || {
            let me = thread::current();
            me.unpark();
            me.interrupt();
            in_child(|| {
                let me = thread::current();
                assert_eq!((me.name(), me.priority()), (Some("forks"), Priority::High));
                assert!(thread::take_interrupt());
                thread::park();
            });
        });
        forks.expect("a thread").join().expect("its child ends well");
    }),
    ("ambient", || {
        let rt = Mxn::builder().concurrency(2).build().expect("the runtime starts");
        rt.run(|| {
            in_child(|| {
                let refused = Builder::new().spawn(|| ()).expect_err("its runtime is the parent's");
                assert!(refused.to_string().contains("fork"), "{refused}");
                assert!(rt.set_concurrency(1).is_err());
            });
        });
    }),
];

macro_rules! played {
    ($($role:ident),* $(,)?) => {
        $(#[test]
        fn $role() {
            let _watchdog = Watchdog::start(stringify!($role));
            child::run(stringify!($role), &[]).expect_success();
        })*
    };
}

played!(
    switched,
    syscall,
    pinned,
    onetoone,
    returns,
    child_with_green_threads,
    owners,
    others_start_and_end,
    goes_on,
    ambient,
);
