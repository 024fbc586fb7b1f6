//! Models of a mutex that goes with the switch. A green thread that waits at a condition variable passes it
//! to the thread that it has notified.

use std::sync::Arc;

use lock_api::RawMutex as _;
use loom::thread;

use crate::park::tests::loom_model::{Core, Green, Letter, Outcomes, both_outcomes, large_model, on};
use crate::park::wait::Wait;
use crate::shim::MODEL_STRIDE;
use crate::sync::condvar::Condvar;
use crate::sync::mutex::RawMutex;

const PADDING: usize = (MODEL_STRIDE - size_of::<RawMutex>()) / 8;

/// The condition variable and its mutex in different buckets. Without guards, as the negative models of
/// `loom_condvar.rs`.
#[repr(C, align(2048))]
struct Table {
    mutex: RawMutex,
    padding: [u64; PADDING],
    changed: Condvar,
    /// The turn, which the mutex protects.
    turn: Letter,
}

impl Table {
    fn new() -> Arc<Self> {
        let (mutex, changed, turn) = (RawMutex::new(), Condvar::new(), Letter::default());
        let table = Arc::new(Self { mutex, padding: [0; PADDING], changed, turn });
        // Creates all of loom's objects before the threads start.
        table.is_left_alone();
        table
    }

    fn is_left_alone(&self) {
        assert_eq!(self.padding[0], 0);
        assert!(!self.changed.notify_one());
        assert!(self.mutex.try_lock());
        self.unlock();
    }

    fn unlock(&self) {
        // SAFETY: locked by the caller.
        unsafe { self.mutex.unlock() };
    }

    /// Waits for its turn, with the mutex locked, and begins the next turn.
    fn play(&self, mine: u32) {
        while self.turn.read() != mine {
            let woken = self.changed.protocol.wait(&self.mutex, Wait::forever());
            assert_eq!(woken, Ok(()));
        }
        self.turn.add_one();
        self.changed.notify_one();
    }
}

/// Two green threads take turns, the second in the first one's next-slot. A kernel thread takes the mutex
/// too.
fn three_turns(takes: bool, outcomes: &Outcomes) {
    let table = Table::new();
    let (one, other, stranger) = (Green::new(), Green::new(), Core::new());
    one.is_followed_by(&other, takes, outcomes);
    let players = [(&one, &[0, 2][..]), (&other, &[1][..])].map(|(green, turns)| {
        let (table, green) = (table.clone(), green.clone());
        thread::spawn(move || {
            on(green.thread(), || {
                table.mutex.lock();
                turns.iter().for_each(|&turn| table.play(turn));
                table.unlock();
            });
        })
    });
    on(stranger.thread(), || {
        table.mutex.lock();
        assert!(table.turn.read() <= 3);
        table.unlock();
    });
    players.into_iter().for_each(|player| player.join().unwrap());
    table.is_left_alone();
}

#[test]
fn a_mutex_that_is_passed_on_has_one_owner() {
    both_outcomes(large_model, |seen| three_turns(true, seen));
}

/// The mutex goes to a thread that wants it and runs already: it has looked, or takes the mutex as others
/// do.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_passed_on_to_one_that_was_not_taken() {
    large_model(|| three_turns(false, &Outcomes::default()));
}
