//! Walks that list only the threads that have changed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use selvedge::sync::{Mutex, RwLock, stats};
use selvedge::thread::{Builder, JoinHandle, Priority, ThreadId, ThreadInfo, ThreadsSeen, WaitReason};
use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::threads::{find, seen, waits_for};

both! {
    what_changes_is_listed_and_nothing_else,
    an_owner_that_changes_is_a_change,
    a_name_that_changes_is_a_change,
    another_runtime_begins_anew,
}

/// Walks over the threads that have changed, in pages of at most `max`. Returns them, and those that ended.
fn changes<R: Runtime>(rt: &R, seen: &mut ThreadsSeen, max: usize) -> (Vec<ThreadInfo>, Vec<ThreadId>) {
    let (mut threads, mut ended) = (Vec::new(), Vec::new());
    loop {
        let page = rt.threads_changed(seen, max);
        assert!(page.threads().len() <= max.max(1));
        ended.extend_from_slice(page.ended());
        let last = page.is_last();
        threads.extend(page.into_threads());
        if last {
            return (threads, ended);
        }
    }
}

/// Walks until no thread has changed: threads are on their way to their waits, and from them.
fn settle<R: Runtime>(rt: &R, seen: &mut ThreadsSeen, max: usize) -> (Vec<ThreadId>, Vec<ThreadId>) {
    let (mut all, mut gone) = (Vec::new(), Vec::new());
    loop {
        let (threads, ended) = changes(rt, seen, max);
        gone.extend(ended);
        if threads.is_empty() {
            all.sort();
            all.dedup();
            gone.sort();
            return (all, gone);
        }
        all.extend(threads.iter().map(ThreadInfo::id));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn what_changes_is_listed_and_nothing_else<L: Leg>() {
    let rt = L::new();
    for max in [0, 7, usize::MAX] {
        let mut seen = ThreadsSeen::new();
        let go = Arc::new(AtomicBool::new(false));
        let mut parked: Vec<JoinHandle<()>> = (0..200)
            .map(|n| {
                let go = Arc::clone(&go);
                let park = move || {
                    while !go.load(SeqCst) {
                        thread::park();
                    }
                };
                rt.spawn_with(Builder::new().bound(n % 20 == 0), park).unwrap()
            })
            .collect();
        let mut ids: Vec<ThreadId> = parked.iter().map(|it| it.thread().id()).collect();
        ids.sort();
        assert_eq!(settle(&rt, &mut seen, max), (ids, Vec::new()), "{max}");
        // One that waits anew. Until it runs, it seems to wait on.
        let again = parked[3].thread();
        again.unpark();
        let changed = loop {
            let changed = settle(&rt, &mut seen, max);
            if !changed.0.is_empty() {
                break changed;
            }
        };
        assert_eq!(changed, (vec![again.id()], Vec::new()), "{max}");
        // One with another priority, which still waits.
        parked[5].thread().set_priority(Priority::High);
        let (threads, ended) = changes(&rt, &mut seen, max);
        let [thread] = &threads[..] else { panic!("one has changed: {threads:?}") };
        assert_eq!((thread.id(), thread.priority()), (parked[5].thread().id(), Priority::High));
        assert!(ended.is_empty() && waits_for(thread, WaitReason::Park), "{thread}");
        // Some that end, and one that takes the place of another.
        go.store(true, SeqCst);
        let mut last = parked.split_off(150);
        let mut gone: Vec<ThreadId> = last.iter().map(|it| it.thread().id()).collect();
        last.iter().for_each(|it| it.thread().unpark());
        last.drain(..).for_each(|it| it.join().unwrap());
        let new = rt.spawn(thread::park);
        gone.sort();
        assert_eq!(settle(&rt, &mut seen, max), (vec![new.thread().id()], gone), "{max}");
        // Another view of the same threads has seen none of them.
        assert_eq!(settle(&rt, &mut ThreadsSeen::new(), max).0.len(), 151, "{max}");
        parked.push(new);
        parked.iter().for_each(|it| it.thread().unpark());
        parked.into_iter().for_each(|it| it.join().unwrap());
    }
}

/// A writer waits for two readers. The one that is named as the owner leaves and lives on, and the writer
/// waits on.
fn an_owner_that_changes_is_a_change<L: Leg>() {
    thread::record_owners();
    let rt = L::new();
    let mut listed = ThreadsSeen::new();
    let lock = Arc::new(RwLock::new(()));
    let reader = |_| {
        let (lock, steps) = (Arc::clone(&lock), Arc::new([const { AtomicBool::new(false) }; 3]));
        let its = Arc::clone(&steps);
        let read = move || {
            let [leave, left, end] = &*its;
            let wait_for = |flag: &AtomicBool| {
                while !flag.load(SeqCst) {
                    thread::park();
                }
            };
            let share = lock.read();
            wait_for(leave);
            drop(share);
            left.store(true, SeqCst);
            wait_for(end);
        };
        (rt.spawn(read), steps)
    };
    let readers: [_; 2] = std::array::from_fn(reader);
    for (reader, _) in &readers {
        seen(&rt, reader.thread().id(), |thread| waits_for(thread, WaitReason::Park));
    }
    let theirs = Arc::clone(&lock);
    let writer = rt.spawn(move || drop(theirs.write()));
    let id = writer.thread().id();
    settle(&rt, &mut listed, 10);
    let owner = |thread: &ThreadInfo| thread.owner().map(|(id, _)| id);
    let first = find(&rt, id).as_ref().and_then(owner).expect("a reader is named");
    let set = |(reader, steps): &(JoinHandle<()>, Arc<[AtomicBool; 3]>), step: usize| {
        steps[step].store(true, SeqCst);
        reader.thread().unpark();
    };
    let named = readers.iter().find(|it| it.0.thread().id() == first).expect("it is one of them");
    let other = readers.iter().map(|it| it.0.thread().id()).find(|&it| it != first);
    set(named, 0);
    while !named.1[1].load(SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (threads, ended) = changes(&rt, &mut listed, 10);
    let waits = threads.iter().find(|thread| thread.id() == id).expect("the writer has another owner");
    assert_eq!((owner(waits), ended), (other, Vec::new()), "{waits}");
    for reader in readers {
        set(&reader, 2);
        set(&reader, 0);
        reader.0.join().unwrap();
    }
    writer.join().unwrap();
}

/// What was seen of one runtime is nothing of another.
fn another_runtime_begins_anew<L: Leg>() {
    let (one, other) = (L::new(), L::new());
    let mut listed = ThreadsSeen::new();
    let parked = [&one, &other].map(|rt| {
        let parked = rt.spawn(thread::park);
        let id = parked.thread().id();
        let (mut seen, mut gone) = settle(rt, &mut listed, 10);
        assert_eq!((seen.pop(), seen.len(), gone.pop()), (Some(id), 0, None));
        parked
    });
    parked.iter().for_each(|it| it.thread().unpark());
    parked.into_iter().for_each(|it| it.join().unwrap());
}

/// Threads wait for two locks. One lock is given a name, another name, and none.
fn a_name_that_changes_is_a_change<L: Leg>() {
    let rt = L::new();
    let mut listed = ThreadsSeen::new();
    let locks: [Arc<Mutex<()>>; 2] = std::array::from_fn(|_| Arc::new(Mutex::new(())));
    let held = locks.each_ref().map(|lock| lock.lock());
    let waiters: Vec<_> = (0..6)
        .map(|n| {
            let lock = Arc::clone(&locks[n % 2]);
            rt.spawn(move || drop(lock.lock()))
        })
        .collect();
    for waiter in &waiters {
        seen(&rt, waiter.thread().id(), |thread| waits_for(thread, WaitReason::Mutex));
    }
    settle(&rt, &mut listed, 10);
    let mut expected: Vec<ThreadId> = waiters.iter().step_by(2).map(|it| it.thread().id()).collect();
    expected.sort();
    for name in [Some("first"), Some("second"), None] {
        match name {
            Some(name) => stats::name(&*locks[0], name),
            None => stats::unname(&*locks[0]),
        }
        let (mut threads, ended) = changes(&rt, &mut listed, 2);
        threads.sort_by_key(ThreadInfo::id);
        assert!(threads.iter().all(|thread| thread.object_name() == name), "{name:?}: {threads:?}");
        assert!(threads.iter().map(ThreadInfo::id).eq(expected.iter().copied()), "{name:?}: {threads:?}");
        assert!(ended.is_empty() && changes(&rt, &mut listed, 2).0.is_empty(), "{name:?}");
    }
    drop(held);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}
