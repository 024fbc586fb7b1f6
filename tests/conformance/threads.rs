//! The list of a runtime's threads. Each state is seen, and a wait names its lock and the lock's owner. A
//! walk in pages lists each thread once. Threads and LWPs name each other.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use selvedge::channel::unbounded;
use selvedge::sync::{Barrier, Condvar, Mutex, RwLock, stats};
use selvedge::thread::{
    Builder, JoinHandle, Priority, ThreadCursor, ThreadId, ThreadInfo, ThreadState, WaitReason,
};
use selvedge::{OneToOne, Runtime, thread};

use crate::legs::Leg;
use crate::unseen;

both! {
    the_caller_is_in_the_list,
    each_wait_is_seen,
    a_thread_in_the_kernel_and_one_that_computes_are_seen,
    a_wait_names_its_lock_and_the_owner,
    pages_list_each_thread_once,
    pages_of_any_size_make_up_the_list,
    a_thread_and_its_lwp_name_each_other,
    threads_of_other_runtimes_are_not_listed,
}
both! { @leg mxn_woken, Green, Some(crate::legs::switched), a_woken_thread_is_dispatchable_or_runnable }
both! { @leg mxn_one_slot_woken, Green, Some(crate::legs::one_slot), a_woken_thread_is_dispatchable_or_runnable }

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(1000);

fn is_one_to_one<R: Runtime>(_: &R) -> bool {
    R::NAME == OneToOne::NAME
}

pub(crate) fn find<R: Runtime>(rt: &R, id: ThreadId) -> Option<ThreadInfo> {
    rt.threads().into_iter().find(|thread| thread.id() == id)
}

/// Looks until the thread looks like that. The watchdog ends a wait that would not.
pub(crate) fn seen<R: Runtime>(rt: &R, id: ThreadId, is_so: impl Fn(&ThreadInfo) -> bool) -> ThreadInfo {
    loop {
        if let Some(thread) = find(rt, id).filter(&is_so) {
            return thread;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn waits_for(thread: &ThreadInfo, what: WaitReason) -> bool {
    matches!(thread.state(), ThreadState::Waiting { reason, .. } if reason == what)
}

fn the_caller_is_in_the_list<L: Leg>() {
    let rt = L::new();
    assert!(rt.threads().is_empty(), "a thread of no runtime asks");
    rt.run(|| {
        let others: Vec<_> = (0..10).map(|_| thread::spawn(thread::park)).collect();
        let me = thread::current();
        let threads = (&&rt).threads();
        assert_eq!(threads.len(), 11);
        assert!(threads.windows(2).all(|two| two[0].id() < two[1].id()), "{threads:?}");
        let caller = find(&rt, me.id()).expect("the caller lives");
        assert!(matches!(caller.state(), ThreadState::Running { .. }), "{caller}");
        assert_eq!(caller.is_bound(), is_one_to_one(&rt));
        assert_eq!(caller.lwp().is_some(), !is_one_to_one(&rt), "{caller}");
        assert_eq!(caller.priority(), Priority::Normal);
        others.iter().for_each(|other| other.thread().unpark());
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// What threads wait for, until they are let go.
struct Stage {
    mutex: Mutex<()>,
    lock: RwLock<()>,
    other: Mutex<bool>,
    changed: Condvar,
    two: Barrier,
}

fn each_wait_is_seen<L: Leg>() {
    let rt = L::new();
    let stage = Arc::new(Stage {
        mutex: Mutex::new(()),
        lock: RwLock::new(()),
        other: Mutex::new(false),
        changed: Condvar::new(),
        two: Barrier::new(2),
    });
    let (sender, receiver) = unbounded::<()>();
    let held = (stage.mutex.lock(), stage.lock.write());
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut start = |reason: WaitReason, wait: Box<dyn FnOnce(&Stage) + Send>| {
        let stage = Arc::clone(&stage);
        let builder = Builder::new().name(format!("{reason:?}")).bound(threads.len() % 3 == 2);
        let thread = rt.spawn_with(builder, move || wait(&stage)).unwrap();
        let id = thread.thread().id();
        let seen = seen(&rt, id, |thread| waits_for(thread, reason));
        assert_eq!(seen.name(), Some(&*format!("{reason:?}")));
        assert!(seen.cpu().is_none() && seen.object_name().is_none());
        assert_eq!(seen.kernel_thread().is_some(), seen.is_bound(), "{seen}");
        threads.push(thread);
        (id, seen.state())
    };
    let (parked, state) = start(WaitReason::Park, Box::new(|_| thread::park()));
    assert!(matches!(state, ThreadState::Waiting { at: None, thread: None, .. }));
    let (sleeps, _) = start(
        WaitReason::Sleep,
        Box::new(|_| _ = thread::sleep_with(selvedge::Wait::timeout(LONG).interruptible())),
    );
    let at = |state| match state {
        ThreadState::Waiting { at: Some(at), thread: None, .. } => at,
        other => panic!("it waits at no address: {other}"),
    };
    let (_, state) = start(WaitReason::Mutex, Box::new(|stage| drop(stage.mutex.lock())));
    // SAFETY: nothing is unlocked.
    assert_eq!(at(state), std::ptr::from_ref(unsafe { stage.mutex.raw() }).addr());
    let (_, state) = start(WaitReason::RwLock, Box::new(|stage| drop(stage.lock.read())));
    // SAFETY: nothing is unlocked.
    assert_eq!(at(state), std::ptr::from_ref(unsafe { stage.lock.raw() }).addr());
    start(
        WaitReason::Condvar,
        Box::new(|stage| {
            let mut over = stage.other.lock();
            while !*over {
                stage.changed.wait(&mut over);
            }
        }),
    );
    start(WaitReason::Barrier, Box::new(|stage| _ = stage.two.wait()));
    start(WaitReason::Receive, Box::new(move |_| _ = receiver.recv()));
    let last = rt.spawn(thread::park);
    let (last_id, unpark) = (last.thread().id(), last.thread().clone());
    let (_, state) = start(WaitReason::Join, Box::new(move |_| last.join().unwrap()));
    assert!(matches!(state, ThreadState::Waiting { at: None, thread: Some(id), .. } if id == last_id));
    // All over.
    drop((held, sender));
    *stage.other.lock() = true;
    stage.changed.notify_all();
    stage.two.wait();
    unpark.unpark();
    for thread in threads {
        let id = thread.thread().id();
        if id == parked {
            thread.thread().unpark();
        } else if id == sleeps {
            thread.thread().interrupt();
        }
        thread.join().unwrap();
    }
    crate::legs::settle(&rt, 0);
    assert!(rt.threads().is_empty());
}

fn a_thread_in_the_kernel_and_one_that_computes_are_seen<L: Leg>() {
    let rt = L::new();
    let (theirs, ours) = std::io::pipe().unwrap();
    let reads = rt.spawn(move || thread::blocking(|| unseen::read(&theirs)));
    let in_kernel = |thread: &ThreadInfo| match thread.state() {
        ThreadState::InKernel { tid } => tid > 0,
        // Only on Linux does the runtime learn that a kernel thread sleeps.
        ThreadState::Running { .. } => !cfg!(target_os = "linux"),
        _ => false,
    };
    let there = seen(&rt, reads.thread().id(), in_kernel);
    assert_eq!(there.cpu().is_some(), cfg!(target_os = "linux"), "{there}");
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    let builder = Builder::new().priority(Priority::Low);
    let computes = rt.spawn_with(builder, move || while !theirs.load(SeqCst) {}).unwrap();
    let runs = |thread: &ThreadInfo| matches!(thread.state(), ThreadState::Running { tid: Some(1..) });
    let there = seen(&rt, computes.thread().id(), runs);
    assert!(there.priority() == Priority::Low && there.to_string().ends_with(", low priority"), "{there}");
    assert_eq!(there.cpu().is_some(), cfg!(target_os = "linux"), "{there}");
    stop.store(true, SeqCst);
    drop(ours);
    assert!(!reads.join().unwrap());
    computes.join().unwrap();
}

fn a_wait_names_its_lock_and_the_owner<L: Leg>() {
    thread::record_owners();
    let rt = L::new();
    let accounts = Arc::new((Mutex::new(0), RwLock::new(0)));
    stats::name(&accounts.0, "accounts");
    let stop = Arc::new(AtomicBool::new(false));
    let (theirs, over) = (Arc::clone(&accounts), Arc::clone(&stop));
    let holder = rt
        .spawn_with(Builder::new().name("holder".into()), move || {
            let _held = (theirs.0.lock(), theirs.1.write());
            while !over.load(SeqCst) {
                thread::park();
            }
        })
        .unwrap();
    seen(&rt, holder.thread().id(), |thread| waits_for(thread, WaitReason::Park));
    let theirs = Arc::clone(&accounts);
    let locks = rt.spawn(move || *theirs.0.lock() += 1);
    let theirs = Arc::clone(&accounts);
    let reads = rt.spawn(move || *theirs.1.read());
    let owner = Some((holder.thread().id(), Some("holder")));
    let there = seen(&rt, locks.thread().id(), |thread| waits_for(thread, WaitReason::Mutex));
    assert_eq!((there.object_name(), there.owner()), (Some("accounts"), owner), "{there}");
    let line = there.to_string();
    assert!(line.contains(" \"accounts\", held by ThreadId(") && line.ends_with(") \"holder\""), "{line}");
    let there = seen(&rt, reads.thread().id(), |thread| waits_for(thread, WaitReason::RwLock));
    assert_eq!((there.object_name(), there.owner()), (None, owner), "{there}");
    stop.store(true, SeqCst);
    holder.thread().unpark();
    holder.join().unwrap();
    locks.join().unwrap();
    assert_eq!(reads.join().unwrap(), 0);
    stats::unname(&accounts.0);
}

/// Walks over all threads in pages of at most `max`. Returns their identities.
pub(crate) fn walk<R: Runtime>(rt: &R, max: usize) -> Vec<ThreadId> {
    let (mut found, mut next) = (Vec::new(), Some(ThreadCursor::default()));
    while let Some(from) = next {
        let page = rt.threads_page(from, max);
        assert!(page.threads().len() <= max.max(1));
        next = page.next();
        found.extend(page.into_threads().iter().map(ThreadInfo::id));
    }
    found
}

fn pages_list_each_thread_once<L: Leg>() {
    let rt = L::new();
    let count = if is_one_to_one(&rt) { 1_000 } else { 10_000 };
    let parked: Vec<_> = (0..count)
        .map(|_| rt.spawn_with(Builder::new().stack_size(64 << 10), thread::park).unwrap())
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        // Others begin and end meanwhile.
        s.spawn(|| {
            while !stop.load(SeqCst) {
                let some: Vec<_> = (0..100).map(|_| rt.spawn(thread::yield_now)).collect();
                some.into_iter().for_each(|one| one.join().unwrap());
            }
        });
        for max in [777, 100_000] {
            let found = walk(&rt, max);
            let once: HashSet<ThreadId> = found.iter().copied().collect();
            assert_eq!(once.len(), found.len(), "a thread was listed twice");
            assert!(parked.iter().all(|thread| once.contains(&thread.thread().id())));
        }
        stop.store(true, SeqCst);
    });
    parked.iter().for_each(|thread| thread.thread().unpark());
    parked.into_iter().for_each(|thread| thread.join().unwrap());
}

fn pages_of_any_size_make_up_the_list<L: Leg>() {
    let rt = L::new();
    let parked: Vec<_> =
        (0..20).map(|n| rt.spawn_with(Builder::new().bound(n % 4 == 0), thread::park).unwrap()).collect();
    let list: Vec<ThreadId> = rt.threads().iter().map(ThreadInfo::id).collect();
    assert_eq!(list.len(), 20);
    for max in [0, 1, 2, 7, 20, usize::MAX] {
        let mut found = walk(&rt, max);
        found.sort();
        assert_eq!(found, list, "{max}");
    }
    // A joined thread is named, on whichever page it is.
    let joined = parked[0].thread().id();
    let mut parked = parked.into_iter();
    let first = parked.next().unwrap();
    let unpark = first.thread().clone();
    let joins = rt.spawn(move || first.join().unwrap());
    seen(&rt, joins.thread().id(), |thread| waits_for(thread, WaitReason::Join));
    let mut next = Some(ThreadCursor::start());
    let mut found = false;
    while let Some(from) = next {
        let page = rt.threads_page(from, 1);
        found |= page.threads().iter().any(
            |thread| matches!(thread.state(), ThreadState::Waiting { thread: Some(id), .. } if id == joined),
        );
        next = page.next();
    }
    assert!(found);
    unpark.unpark();
    joins.join().unwrap();
    parked.for_each(|thread| {
        thread.thread().unpark();
        thread.join().unwrap();
    });
}

fn a_thread_and_its_lwp_name_each_other<L: Leg>() {
    let rt = L::new();
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    let computes = rt.spawn(move || while !theirs.load(SeqCst) {});
    let id = computes.thread().id();
    if is_one_to_one(&rt) {
        let runs = |thread: &ThreadInfo| matches!(thread.state(), ThreadState::Running { tid: Some(1..) });
        let there = seen(&rt, id, runs);
        assert!(there.is_bound() && there.lwp().is_none() && rt.stats().lwps.is_empty(), "{there}");
    } else {
        // The LWP may lose its slot, and the thread its LWP, but not for long.
        loop {
            let (stats, there) = (rt.stats(), find(&rt, id).expect("it lives"));
            let ThreadState::Running { tid: Some(tid) } = there.state() else { continue };
            let Some(lwp) = stats.lwps.iter().find(|lwp| lwp.thread == Some(id)) else { continue };
            if there.lwp() == Some(lwp.number) && tid == lwp.tid {
                assert_eq!(lwp.cpu.is_some(), cfg!(target_os = "linux"), "{stats}");
                assert!(stats.to_string().contains(&format!("{id:?}")), "{stats}");
                break;
            }
        }
        let others = rt.stats().lwps;
        assert!(others.iter().filter(|lwp| lwp.thread.is_some()).count() <= 1, "{others:?}");
    }
    stop.store(true, SeqCst);
    computes.join().unwrap();
}

/// A running thread wakes two others. Its LWP is to run the second next. The first is in a queue. All other
/// LWPs that may run a thread compute meanwhile. Otherwise one could run the first before it is looked at, as
/// one always would on a slow machine.
fn a_woken_thread_is_dispatchable_or_runnable<L: Leg>() {
    let rt = L::new();
    let (stop, hold, held) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    rt.run(|| {
        thread::scope(|s| {
            let parked = || {
                while !stop.load(SeqCst) {
                    thread::park();
                }
            };
            let others = rt.info().concurrency - 1;
            for _ in 0..others {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        thread::no_preempt(|| {
                            held.fetch_add(1, SeqCst);
                            while hold.load(SeqCst) {
                                std::hint::spin_loop();
                            }
                            held.fetch_sub(1, SeqCst);
                        });
                        thread::yield_now();
                    }
                });
            }
            let two = [s.spawn(parked), s.spawn(parked)];
            let ids = [two[0].thread().id(), two[1].thread().id()];
            loop {
                for id in ids {
                    seen(&rt, id, |thread| waits_for(thread, WaitReason::Park));
                }
                hold.store(true, SeqCst);
                while held.load(SeqCst) < others {
                    thread::yield_now();
                }
                // A waker that has lost its slot has no next-slot. It gets a slot when it yields.
                thread::yield_now();
                let states = thread::no_preempt(|| {
                    two.iter().for_each(|thread| thread.thread().unpark());
                    let all = rt.threads();
                    ids.map(|id| all.iter().find(|thread| thread.id() == id).expect("it lives").state())
                });
                hold.store(false, SeqCst);
                if let [ThreadState::Runnable, ThreadState::Dispatchable { .. }] = states {
                    break;
                }
            }
            stop.store(true, SeqCst);
            two.iter().for_each(|thread| thread.thread().unpark());
        });
    });
}

fn threads_of_other_runtimes_are_not_listed<L: Leg>() {
    let (rt, other) = (L::new(), L::new());
    let parked = other.spawn(thread::park);
    assert!(rt.threads().is_empty() && walk(&rt, 10).is_empty());
    assert_eq!(walk(&other, 10), [parked.thread().id()]);
    parked.thread().unpark();
    parked.join().unwrap();
}
