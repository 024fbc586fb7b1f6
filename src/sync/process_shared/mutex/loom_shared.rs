//! Models of the lock between processes: threads sleep on its word, and one of them gives up. In negative
//! models one does not pass its wake-up on, or takes the lock after its sleep as if no other slept.
//!
//! In these models the clock stands still: naps do not end, and nothing but a wake-up ends a sleep.

use std::sync::Arc;

use super::{
    Condition, How, Me, Process, RawMutex, RawRobust, Release, RobustError, number_of, owner_of, process,
    shared_futex,
};
use crate::park::tests::loom_model::{Body, Core, Letter, body, both_outcomes, model_within, on, spawn_with};
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;

/// A lock, and what it guards.
#[derive(Default)]
#[repr(align(2048))]
struct Guarded {
    lock: RawMutex,
    count: Letter,
}

impl Guarded {
    fn new() -> Arc<Self> {
        // Creates all of loom's objects before the threads start.
        process::this();
        let guarded: Arc<Self> = Arc::default();
        let first = Core::new();
        on(first.thread(), || guarded.section());
        guarded.count.write(0);
        guarded
    }

    fn section(&self) {
        assert_eq!(self.lock.lock(), Ok(Condition::Consistent));
        self.count_and_unlock();
    }

    fn count_and_unlock(&self) {
        self.count.add_one();
        self.lock.unlock().unwrap();
    }
}

/// One thread has the lock, and the others come. It interrupts the first of them, unlocks, and perhaps
/// locks once more. It is not the model's main thread, which waits for all of them. So any may begin, and
/// with one preemption two sleep and a third is faster.
fn play(guarded: &Arc<Guarded>, again: bool, others: [Body; 2]) {
    let owner = Core::new();
    on(owner.thread(), || assert_eq!(guarded.lock.lock(), Ok(Condition::Consistent)));
    let cores: Vec<Core> = others.iter().map(|_| Core::new()).collect();
    let first: ThreadRef = cores[0].thread();
    let mut threads: Vec<_> = others
        .into_iter()
        .zip(cores.iter().map(Core::thread))
        .map(|(body, thread)| loom::thread::spawn(move || on(thread, body)))
        .collect();
    let owns = body(guarded, move |guarded| {
        first.interrupt();
        guarded.count_and_unlock();
        if again {
            guarded.section();
        }
    });
    let thread = owner.thread();
    threads.push(loom::thread::spawn(move || on(thread, owns)));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(!guarded.lock.is_locked());
}

#[test]
fn sleepers_are_woken_one_after_the_other() {
    model_within(1, || {
        let guarded = Guarded::new();
        play(&guarded, false, [(); 2].map(|()| body(&guarded, Guarded::section)));
        assert_eq!(guarded.count.read(), 3);
    });
}

/// It may have been woken, while another thread sleeps.
#[test]
fn one_that_is_interrupted_passes_its_wake_up_on() {
    both_outcomes(
        |body| model_within(1, body),
        |seen| {
            let guarded = Guarded::new();
            let seen = seen.clone();
            let interruptible = move |guarded: &Guarded| {
                let locked = guarded.lock.lock_with(Wait::forever().interruptible());
                seen.saw(locked.is_ok());
                match locked {
                    Ok(_) => guarded.count_and_unlock(),
                    Err(error) => assert_eq!(error, RobustError::Interrupted),
                }
            };
            play(&guarded, true, [body(&guarded, interruptible), body(&guarded, Guarded::section)]);
        },
    );
}

/// Sleeps once, if the lock is taken.
fn sleep_once(lock: &RawMutex) {
    if owner_of(lock.word.look()) != 0 {
        let how = How { wait: Wait::forever(), nap: None, near: false };
        let _ = shared_futex::wait(&mut Release { lock, me: &Me::new() }, how);
    }
}

/// A thread gives up without passing its wake-up on, though another was faster.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_wake_up_kept() {
    model_within(1, || {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| sleep_once(&guarded.lock);
        play(&guarded, true, [body(&guarded, wrong), body(&guarded, Guarded::section)]);
    });
}

/// A woken thread takes the lock as if it had never slept.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_taken_without_a_word() {
    model_within(1, || {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| {
            sleep_once(&guarded.lock);
            let me = Me::new();
            if guarded.lock.word.try_take(0, me.process.id) {
                assert_eq!(guarded.lock.enter(&me), Ok(Condition::Consistent));
                guarded.count_and_unlock();
            }
        };
        play(&guarded, false, [body(&guarded, wrong), body(&guarded, Guarded::section)]);
    });
}

/// A process that finds an id in the record finds the start and the namespace there, too.
#[test]
fn a_record_names_the_whole_process() {
    model_within(2, || {
        let guarded = Guarded::new();
        let owner = Core::new();
        let process = Process { id: 1, start: 2, namespace: 3 };
        let me = Me { process, ..on(owner.thread(), Me::new) };
        let writer = spawn_with(Arc::clone(&guarded), move |guarded| guarded.lock.record.write(&me));
        let seen = guarded.lock.record.owner(process.id);
        assert!(seen == process || seen == Process { id: 1, start: 0, namespace: 0 }, "half of a process");
        writer.join().unwrap();
        assert_eq!(guarded.lock.record.owner(process.id), process);
    });
}

/// The lock goes from a thread of this process to one of another, and on to a second one of this process. The
/// id of the other process's thread is made of that of a thread that looks here.
fn a_stranger_looks(their_id: fn(&Me, u32) -> u64) {
    let guarded = Guarded::new();
    let cores: [Core; 4] = std::array::from_fn(|_| Core::new());
    let [me, first, second, theirs] = cores.each_ref().map(|core| on(core.thread(), Me::new));
    let process = Process { id: me.process.id + 1, ..me.process };
    let theirs = Me { process, id: their_id(&me, process.id), ..theirs };
    let takes = |lock: &RawMutex, owner: &Me| {
        assert!(lock.word.try_take(0, owner.process.id));
        assert_eq!(lock.enter(owner), Ok(Condition::Consistent));
    };
    takes(&guarded.lock, &first);
    let others = spawn_with(Arc::clone(&guarded), move |shared| {
        shared.lock.exit(&first);
        takes(&shared.lock, &theirs);
        shared.lock.exit(&theirs);
        takes(&shared.lock, &second);
    });
    assert!(!guarded.lock.is_mine(&me), "it has never had the lock");
    others.join().unwrap();
}

#[test]
fn a_thread_is_not_taken_for_one_of_another_process() {
    model_within(2, || a_stranger_looks(|me, _| me.id));
}

/// Both threads have one number.
#[test]
#[should_panic(expected = "it has never had the lock")]
fn negative_number_without_the_process() {
    model_within(2, || a_stranger_looks(|me, process| number_of(process, number_of(me.process.id, me.id))));
}
