//! Models of the robust lock. An owner ends while one thread waits, while two wait, and while a waiter
//! gives up. The process forks while the owner locks or unlocks. The negative twins leave out the last look,
//! or walk the queues before they change the word. Others begin the pending entry too late, or clear it too
//! early.

use std::sync::Arc;

use super::{Condition, RawRobust, RawRobustMutex, dead};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{
    Core, Green, Letter, body, both_outcomes, instant, large_model, model, model_within, on, spawn_with,
    together,
};
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::park::wait_queue::{self, OWNER_DIED, Options, Woken};
use crate::shim::strike;

/// A lock, and what it guards.
#[derive(Default)]
#[repr(align(2048))]
struct Guarded {
    lock: RawRobustMutex,
    count: Letter,
}

impl Guarded {
    fn new() -> Arc<Self> {
        // Creates all of loom's objects before the threads start.
        dead::passed_on(0);
        assert!(!dead::is_dead(0));
        let guarded: Arc<Self> = Arc::default();
        let first = Core::new();
        assert_eq!(on(first.thread(), || guarded.section()), Condition::Consistent);
        guarded.count.write(0);
        guarded
    }

    /// Locks, counts, unlocks. Returns the condition in which it found the lock.
    fn section(&self) -> Condition {
        let found = self.lock.lock().unwrap();
        self.count.add_one();
        assert_eq!(self.lock.mark_consistent(), found != Condition::Consistent);
        self.lock.unlock().unwrap();
        found
    }

    fn ends_with(&self, count: u32) {
        assert!(!self.lock.is_locked());
        assert_eq!(self.count.read(), count);
        assert!(!dead::is_dead(1) && wait_queue::grant_one(self.lock.mutex.key(), |_| OWNER_DIED).is_none());
    }
}

/// A thread that has locked, and will end.
struct Owner(Core);

impl Owner {
    fn of(guarded: &Guarded) -> Self {
        let core = Core::new();
        assert_eq!(on(core.thread(), || guarded.lock.lock()), Ok(Condition::Consistent));
        Self(core)
    }

    /// Goes on in a thread of the model, and ends.
    fn dies(&self, guarded: &Arc<Guarded>, how: fn(ThreadRef)) -> loom::thread::JoinHandle<()> {
        let (me, guarded) = (self.0.thread(), guarded.clone());
        loom::thread::spawn(move || {
            on(me, || {
                guarded.count.add_one();
                assert!(me.leaves_robust());
                how(me);
            });
        })
    }
}

#[test]
fn a_waiter_inherits() {
    model(|| {
        let guarded = Guarded::new();
        let owner = Owner::of(&guarded);
        let end = owner.dies(&guarded, ThreadRef::dies_with_robust);
        together([body(&guarded, |guarded| assert_eq!(guarded.section(), Condition::OwnerDied))]);
        end.join().unwrap();
        guarded.ends_with(2);
    });
}

#[test]
fn a_green_waiter_inherits() {
    model(|| {
        let guarded = Guarded::new();
        let owner = Owner::of(&guarded);
        let end = owner.dies(&guarded, ThreadRef::dies_with_robust);
        let green = Green::new();
        green.thread().id();
        on(green.thread(), || assert_eq!(guarded.section(), Condition::OwnerDied));
        end.join().unwrap();
        guarded.ends_with(2);
    });
}

#[test]
fn one_of_two_inherits() {
    model_within(1, || {
        let guarded = Guarded::new();
        let owner = Owner::of(&guarded);
        let end = owner.dies(&guarded, ThreadRef::dies_with_robust);
        let heirs = Arc::new(std::sync::atomic::AtomicU32::new(0));
        together([(); 2].map(|()| {
            let heirs = heirs.clone();
            body(&guarded, move |guarded| {
                if guarded.section() == Condition::OwnerDied {
                    heirs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            })
        }));
        end.join().unwrap();
        assert_eq!(heirs.load(std::sync::atomic::Ordering::Relaxed), 1);
        guarded.ends_with(3);
    });
}

/// The owner of one lock ends. A thread that waits for another, of a living owner, is woken for nothing,
/// and loses nothing.
#[test]
fn the_heirs_of_others_wait_on() {
    large_model(|| {
        let (guarded, other) = (Guarded::new(), Guarded::new());
        let owner = Owner::of(&other);
        let end = owner.dies(&other, ThreadRef::dies_with_robust);
        let found = |guarded: &Guarded| assert_eq!(guarded.section(), Condition::Consistent);
        together([body(&guarded, found), body(&guarded, found)]);
        end.join().unwrap();
        guarded.ends_with(2);
    });
}

/// One heir gives up at any moment; the next then gets the lock.
#[test]
fn an_heir_may_give_up() {
    both_outcomes(model, |seen| {
        let guarded = Guarded::new();
        let owner = Owner::of(&guarded);
        let end = owner.dies(&guarded, ThreadRef::dies_with_robust);
        let clock = loom::thread::spawn(strike);
        let seen = seen.clone();
        let timed = move |guarded: &Guarded| {
            let found = guarded.lock.try_lock_until(instant()).unwrap();
            seen.saw(found.is_none());
            if let Some(found) = found {
                assert_eq!(found, Condition::OwnerDied);
                guarded.count.add_one();
                // It does not mend what the lock protects.
                guarded.lock.unlock().unwrap();
            }
        };
        together([body(&guarded, timed)]);
        clock.join().unwrap();
        end.join().unwrap();
    });
}

/// A death walks through the queues first: a thread that queues in between waits forever.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_walk_before_the_word() {
    model(|| {
        let guarded = Guarded::new();
        let owner = Owner::of(&guarded);
        let end = owner.dies(&guarded, |me| {
            wait_queue::wake_heirs();
            dead::add(me.id().get(), 1);
        });
        together([body(&guarded, |guarded| _ = guarded.section())]);
        end.join().unwrap();
    });
}

/// A waiter looks at the owner only before it locks the bucket.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_no_last_look() {
    model(|| {
        let guarded = Guarded::new();
        let owner = Owner::of(&guarded);
        let end = owner.dies(&guarded, ThreadRef::dies_with_robust);
        let wrong = |guarded: &Guarded| {
            let mutex = &guarded.lock.mutex;
            while guarded.lock.dead_owner().is_none() {
                let mut options = Options::new(WaitReason::Mutex, Wait::forever());
                options.heir = true;
                let announce = || !mutex.announce_or_take();
                let waited = wait_queue::wait(mutex.key(), &options, announce, || ());
                assert_eq!(waited, Ok(Woken::Granted(OWNER_DIED)));
            }
        };
        together([body(&guarded, wrong)]);
        end.join().unwrap();
    });
}

/// An heir looks, and then takes what another has taken before.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_heirs_that_do_not_compare() {
    model(|| {
        let guarded = Guarded::new();
        let owner = Owner::of(&guarded);
        let end = owner.dies(&guarded, ThreadRef::dies_with_robust);
        end.join().unwrap();
        let wrong = |guarded: &Guarded| {
            if guarded.lock.dead_owner().is_some() {
                guarded.lock.owner.set(dead::me().1);
                guarded.count.add_one();
            }
        };
        together([body(&guarded, wrong), body(&guarded, wrong)]);
    });
}

/// Checks what a fork at this moment would copy of a thread that locks once or unlocks once. If the thread
/// has the mutex and is not named in the lock, it must have a pending entry. The looks come one after the
/// other, and each sees the last store. What is true both before and after the look at the entry was true
/// during that look.
fn a_fork_here_finds_the_owner(guarded: &Guarded, owner: ThreadRef) {
    let lock = &guarded.lock;
    let holds_unnamed = || lock.mutex.is_locked_now() && lock.owner.try_inherit(0, 0);
    let unnamed = holds_unnamed();
    let pends = owner.pends();
    assert!(pends || !unnamed || !holds_unnamed(), "the child would not find the owner");
}

/// Forks the process while an owner does `step`.
fn forks_during(locked: bool, step: fn(&Guarded, ThreadRef)) {
    model(move || {
        let guarded = Guarded::new();
        let owner = Core::new();
        let thread = owner.thread();
        thread.id();
        // Loom creates an atomic at its first use, which must not happen in two threads at once.
        assert_eq!(on(thread, || guarded.lock.lock()), Ok(Condition::Consistent));
        if !locked {
            on(thread, || guarded.lock.unlock()).unwrap();
        }
        let step = spawn_with(guarded.clone(), move |theirs| on(thread, || step(&theirs, thread)));
        a_fork_here_finds_the_owner(&guarded, thread);
        step.join().unwrap();
        assert!(!thread.pends());
    });
}

#[test]
fn a_fork_finds_an_owner_that_locks() {
    forks_during(false, |guarded, _| {
        let _ = guarded.lock.lock();
    });
}

#[test]
fn a_fork_finds_an_owner_that_unlocks() {
    forks_during(true, |guarded, _| guarded.lock.unlock().unwrap());
}

/// A pending entry begins after the lock has been acquired.
#[test]
#[should_panic(expected = "the child would not find the owner")]
fn negative_entry_after_the_word() {
    forks_during(false, |guarded, thread| {
        lock_api::RawMutex::lock(&guarded.lock.mutex);
        let _pending = dead::Pending::begin(thread, &guarded.lock);
        let _ = guarded.lock.enter(thread, thread.id().get());
    });
}

/// A pending entry ends before the lock is released.
#[test]
#[should_panic(expected = "the child would not find the owner")]
fn negative_entry_cleared_before_the_release() {
    forks_during(true, |guarded, thread| {
        let pending = dead::Pending::begin(thread, &guarded.lock);
        thread.frees_robust();
        guarded.lock.owner.set(0);
        drop(pending);
        guarded.lock.mutex.release();
    });
}
