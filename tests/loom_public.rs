//! How a program model-checks its own code: with `--cfg loom` the locks of `selvedge::sync` are loom's,
//! and a model tries every order of the program's steps.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --test loom_public
//! ```
//!
//! Each model has a twin with a mistake, which must be found. A model's threads are `loom::thread`s, and
//! its atomics and cells loom's.

#![cfg(loom)]

#[path = "loom_public/beside.rs"]
mod beside;
#[path = "loom_public/once.rs"]
mod once;
#[path = "loom_public/semaphore.rs"]
mod semaphore;
#[path = "loom_public/unwind.rs"]
mod unwind;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use selvedge::sync::{
    Barrier, Condvar, LockWith, Mutex, MutexGuard, RwLock, RwLockUpgradableReadGuard, RwLockWith,
    RwLockWriteGuard, UpgradeWith,
};
use selvedge::{Wait, WaitError};

/// Any time: in a model a deadline may pass at every moment.
const SOON: Duration = Duration::from_millis(1);

/// A program's own type: a queue of two places that stands between threads.
#[derive(Default)]
struct Queue {
    items: Mutex<VecDeque<u32>>,
    changed: Condvar,
}

impl Queue {
    const ROOM: usize = 2;

    fn put(&self, item: u32) {
        let mut items = self.items.lock();
        self.changed.wait_while(&mut items, |items| items.len() == Self::ROOM);
        items.push_back(item);
        drop(items);
        self.changed.notify_all();
    }

    fn take(&self) -> u32 {
        let mut items = self.items.lock();
        self.changed.wait_while(&mut items, |items| items.is_empty());
        let item = items.pop_front().expect("waited for it");
        drop(items);
        self.changed.notify_all();
        item
    }

    fn take_within(&self, time: Duration) -> Option<u32> {
        let mut items = self.items.lock();
        self.changed.wait_while_for(&mut items, |items| items.is_empty(), time);
        items.pop_front()
    }

    /// A mistake: the look at the items and the wait are two critical sections, and a notification may
    /// come between.
    fn take_carelessly(&self) -> u32 {
        if self.items.lock().is_empty() {
            let mut items = self.items.lock();
            self.changed.wait(&mut items);
        }
        self.items.lock().pop_front().expect("waited for it")
    }
}

/// Runs `body` on a thread of the model.
fn start<T: Send + Sync + 'static, R: 'static>(
    shared: &Arc<T>,
    body: impl FnOnce(&T) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = Arc::clone(shared);
    thread::spawn(move || body(&shared))
}

/// How many orders a model has.
fn count(body: impl Fn() + Send + Sync + 'static) -> usize {
    let orders = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&orders);
    let mut model = loom::model::Builder::new();
    // Nearly all mistakes show with two or three; `LOOM_MAX_PREEMPTIONS` says otherwise.
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(move || {
        counter.fetch_add(1, SeqCst);
        body();
    });
    let orders = orders.load(SeqCst);
    println!("{orders} executions");
    orders
}

#[test]
fn what_is_put_is_taken_in_order() {
    count(|| {
        let queue = Arc::new(Queue::default());
        let producer = start(&queue, |queue| (1..=3).for_each(|item| queue.put(item)));
        assert_eq!([(); 3].map(|()| queue.take()), [1, 2, 3]);
        producer.join().unwrap();
    });
}

#[test]
fn two_takers_share() {
    count(|| {
        let queue = Arc::new(Queue::default());
        let takers = [(); 2].map(|()| start(&queue, Queue::take));
        queue.put(1);
        queue.put(2);
        let mut taken = takers.map(|taker| taker.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_lost_wake_up() {
    loom::model(|| {
        let queue = Arc::new(Queue::default());
        let taker = start(&queue, Queue::take_carelessly);
        queue.put(1);
        assert_eq!(taker.join().unwrap(), 1);
    });
}

#[test]
fn a_deadline_passes_and_does_not() {
    let seen = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let theirs = Arc::clone(&seen);
    count(move || {
        let queue = Arc::new(Queue::default());
        let taker = start(&queue, |queue| queue.take_within(SOON));
        queue.put(1);
        let taken = taker.join().unwrap();
        theirs[usize::from(taken.is_some())].store(true, SeqCst);
        // Not lost, whichever came first.
        assert_eq!(taken.is_none(), queue.take_within(SOON).is_some());
    });
    assert!(seen.iter().all(|seen| seen.load(SeqCst)), "{seen:?}");
}

/// A mistake: that the deadline will not pass.
#[test]
#[should_panic(expected = "in time")]
fn negative_deadline_not_thought_of() {
    loom::model(|| {
        let queue = Arc::new(Queue::default());
        let taker = start(&queue, |queue| queue.take_within(SOON).expect("in time"));
        queue.put(1);
        taker.join().unwrap();
    });
}

#[test]
fn a_loop_of_waits_with_deadlines_ends() {
    count(|| {
        let queue = Arc::new(Queue::default());
        let producer = start(&queue, |queue| queue.put(7));
        let taken = loop {
            if let Some(item) = queue.take_within(SOON) {
                break item;
            }
        };
        assert_eq!(taken, 7);
        producer.join().unwrap();
    });
}

/// Two accounts, each with a lock.
#[derive(Default)]
struct Bank([Mutex<u32>; 2]);

impl Bank {
    fn both(&self, first: usize, second: usize) -> [MutexGuard<'_, u32>; 2] {
        [self.0[first].lock(), self.0[second].lock()]
    }
}

#[test]
fn locks_taken_in_one_order_are_fine() {
    count(|| {
        let bank = Arc::new(Bank::default());
        let other = start(&bank, |bank| *bank.both(0, 1)[1] += 1);
        *bank.both(0, 1)[0] += 1;
        other.join().unwrap();
        assert_eq!(bank.both(0, 1).map(|account| *account), [1, 1]);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_locks_taken_in_two_orders() {
    loom::model(|| {
        let bank = Arc::new(Bank::default());
        let other = start(&bank, |bank| *bank.both(0, 1)[1] += 1);
        *bank.both(1, 0)[0] += 1;
        other.join().unwrap();
    });
}

#[test]
fn a_thread_that_cannot_have_both_gives_back() {
    let seen = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let theirs = Arc::clone(&seen);
    count(move || {
        let bank = Arc::new(Bank::default());
        let other = start(&bank, |bank| *bank.both(0, 1)[1] += 1);
        let second = bank.0[1].lock();
        let both = bank.0[0].try_lock_for(SOON).is_some();
        theirs[usize::from(both)].store(true, SeqCst);
        drop(second);
        other.join().unwrap();
    });
    assert!(seen.iter().all(|seen| seen.load(SeqCst)), "{seen:?}");
}

/// A cell that a flag guards, or a lock.
#[derive(Default)]
struct Guarded {
    lock: Mutex<()>,
    busy: AtomicU32,
    value: UnsafeCell<u32>,
}

// SAFETY: what the models are to show: loom reports accesses to the cell that are not ordered.
unsafe impl Sync for Guarded {}
// SAFETY: what the models are to show, too.
unsafe impl Send for Guarded {}

impl Guarded {
    fn count(&self) {
        // SAFETY: checked by loom.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn count_locked(&self) {
        let _held = self.lock.lock();
        self.count();
    }

    /// A mistake: two may see that none is busy.
    fn count_if_not_busy(&self) {
        if self.busy.load(SeqCst) == 0 {
            self.busy.store(1, SeqCst);
            self.count();
            self.busy.store(0, SeqCst);
        }
    }
}

#[test]
fn a_lock_orders_what_it_guards() {
    let orders = count(|| {
        let guarded = Arc::new(Guarded::default());
        let other = start(&guarded, Guarded::count_locked);
        guarded.count_locked();
        other.join().unwrap();
        // SAFETY: checked by loom.
        assert_eq!(guarded.value.with(|value| unsafe { *value }), 2);
    });
    assert!(orders <= 20, "the steps of the lock itself are no part of a program's model: {orders}");
}

#[test]
#[should_panic(expected = "Concurrent")]
fn negative_data_race() {
    loom::model(|| {
        let guarded = Arc::new(Guarded::default());
        let other = start(&guarded, Guarded::count_if_not_busy);
        guarded.count_if_not_busy();
        other.join().unwrap();
    });
}

/// Threads that meet, twice, and leave each other letters.
struct Meeting {
    barrier: Barrier,
    letters: [UnsafeCell<u32>; 2],
}

// SAFETY: what the models are to show: loom reports accesses to the cells that are not ordered.
unsafe impl Sync for Meeting {}
// SAFETY: what the models are to show, too.
unsafe impl Send for Meeting {}

impl Meeting {
    fn new() -> Arc<Self> {
        Arc::new(Self { barrier: Barrier::new(2), letters: Default::default() })
    }

    fn exchange(&self, me: usize, meets_again: bool) -> bool {
        let mut led = false;
        for round in 1..=2 {
            // SAFETY: checked by loom.
            self.letters[me].with_mut(|letter| unsafe { *letter = round });
            led = self.barrier.wait().is_leader();
            // SAFETY: checked by loom.
            let theirs = self.letters[1 - me].with(|letter| unsafe { *letter });
            assert_eq!(theirs, round, "a letter of another round");
            if meets_again {
                self.barrier.wait();
            }
        }
        led
    }
}

#[test]
fn threads_that_meet_see_each_others_letters() {
    count(|| {
        let meeting = Meeting::new();
        let other = start(&meeting, |meeting| meeting.exchange(1, true));
        let led = meeting.exchange(0, true);
        assert_ne!(led, other.join().unwrap(), "one of each round leads");
    });
}

/// A mistake: the letter of the next round is written while the other may still read.
#[test]
#[should_panic(expected = "a letter of another round")]
fn negative_a_meeting_too_few() {
    loom::model(|| {
        let meeting = Meeting::new();
        let other = start(&meeting, |meeting| meeting.exchange(1, false));
        meeting.exchange(0, false);
        other.join().unwrap();
    });
}

#[test]
fn a_thread_that_comes_too_late_is_not_met() {
    let seen = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let theirs = Arc::clone(&seen);
    count(move || {
        let meeting = Meeting::new();
        let other = start(&meeting, |meeting| meeting.barrier.wait_timeout(SOON).is_some());
        let met = meeting.barrier.wait_timeout(SOON).is_some();
        assert_eq!(met, other.join().unwrap(), "both or none");
        theirs[usize::from(met)].store(true, SeqCst);
    });
    assert!(seen.iter().all(|seen| seen.load(SeqCst)), "{seen:?}");
}

/// A table that is mostly read, and is filled when something is missing.
#[derive(Default)]
struct Table {
    entries: RwLock<Vec<u32>>,
    filled: AtomicU32,
}

impl Table {
    fn fill(&self, entries: &mut Vec<u32>) {
        // Relaxed: only counted, and looked at when all is over.
        self.filled.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
        entries.push(7);
    }

    fn get(&self) -> u32 {
        if let Some(&entry) = self.entries.read().first() {
            return entry;
        }
        let entries = self.entries.upgradable_read();
        if let Some(&entry) = entries.first() {
            return entry;
        }
        let mut entries = RwLockUpgradableReadGuard::upgrade(entries);
        self.fill(&mut entries);
        RwLockWriteGuard::downgrade(entries)[0]
    }

    /// A mistake: another thread may have filled it since.
    fn get_carelessly(&self) -> u32 {
        if let Some(&entry) = self.entries.read().first() {
            return entry;
        }
        let mut entries = self.entries.write();
        self.fill(&mut entries);
        entries[0]
    }
}

/// Two threads look, by `get`.
fn filled_once(get: fn(&Table) -> u32) -> impl Fn() + Send + Sync + 'static {
    move || {
        let table = Arc::new(Table::default());
        let other = start(&table, get);
        assert_eq!((get(&table), other.join().unwrap()), (7, 7));
        assert_eq!(table.filled.load(SeqCst), 1, "filled once");
    }
}

#[test]
fn a_table_is_filled_once() {
    count(filled_once(Table::get));
}

#[test]
#[should_panic(expected = "filled once")]
fn negative_table_filled_twice() {
    loom::model(filled_once(Table::get_carelessly));
}

/// A mistake: a thread that reads twice is kept out by a writer that waits for the first read to end.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_read_twice() {
    loom::model(|| {
        let lock = Arc::new(RwLock::new(1));
        let writer = start(&lock, |lock| *lock.write() += 1);
        let (first, second) = (lock.read(), lock.read());
        assert_eq!(*first, *second);
        drop((first, second));
        writer.join().unwrap();
    });
}

#[test]
fn a_recursive_reader_says_so() {
    count(|| {
        let lock = Arc::new(RwLock::new(1));
        let writer = start(&lock, |lock| *lock.write() += 1);
        let (first, second) = (lock.read(), lock.read_recursive());
        assert_eq!(*first, *second);
        drop((first, second));
        writer.join().unwrap();
        assert_eq!(*lock.read(), 2);
    });
}

#[test]
fn all_forms_of_read_write_locks_are_there() {
    count(|| {
        let lock = RwLock::new(1);
        let reader = lock.read_with(Wait::forever().interruptible()).unwrap();
        assert!(lock.try_write_for(SOON).is_none() && lock.write_with(Wait::timeout(SOON)).is_err());
        let upgradable = lock.upgradable_read_with(Wait::timeout(SOON)).unwrap();
        assert!(lock.try_upgradable_read().is_none());
        let (upgradable, _) = UpgradeWith::upgrade_with(upgradable, Wait::timeout(SOON)).unwrap_err();
        drop(reader);
        let mut writer = UpgradeWith::upgrade_with(upgradable, Wait::forever().interruptible()).unwrap();
        *writer += 1;
        assert!(lock.is_locked_exclusive() && lock.try_read().is_none());
        let upgradable = RwLockWriteGuard::downgrade_to_upgradable(writer);
        let reader = RwLockUpgradableReadGuard::downgrade(upgradable);
        assert_eq!((*reader, *lock.read_recursive()), (2, 2));
        drop(reader);
        assert!(!lock.is_locked());
    });
}

/// The rest of the names: they are there, and wait as the plain ones do.
#[test]
fn all_forms_of_waits_are_there() {
    count(|| {
        let (mutex, changed) = (Mutex::new(1), Condvar::new());
        assert!(mutex.lock_with(Wait::forever().interruptible()).is_ok_and(|guard| *guard == 1));
        assert!(mutex.lock_with(Wait::timeout(SOON).interruptible()).is_ok());
        let mut guard = mutex.lock();
        assert!(mutex.try_lock().is_none() && mutex.try_lock_for(SOON).is_none() && mutex.is_locked());
        assert!(changed.wait_for(&mut guard, SOON).timed_out());
        assert_eq!(changed.wait_with(&mut guard, Wait::timeout(SOON)), Err(WaitError::TimedOut));
        assert_eq!((changed.notify_one(), changed.notify_all()), (false, 0));
        MutexGuard::unlock_fair(guard);
        assert!(!mutex.is_locked());
        assert!(Barrier::new(1).wait_with(Wait::forever().interruptible()).is_ok_and(|met| met.is_leader()));
        assert!(Barrier::new(2).wait_timeout(SOON).is_none() && Barrier::new(2).wait_for(SOON).is_none());
        assert_eq!(Barrier::new(2).wait_with(Wait::timeout(SOON)).err(), Some(WaitError::TimedOut));
    });
}

#[test]
#[should_panic(expected = "more than one mutex")]
fn one_condition_variable_has_one_mutex() {
    loom::model(|| {
        let shared = Arc::new((Bank::default(), Condvar::new()));
        let other = start(&shared, |(bank, changed)| {
            changed.wait_for(&mut bank.0[0].lock(), SOON);
        });
        shared.1.wait_for(&mut shared.0.0[1].lock(), SOON);
        other.join().unwrap();
    });
}
