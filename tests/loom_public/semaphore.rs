//! Permits: as seats, and as signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use loom::sync::atomic::AtomicU32;
use selvedge::Wait;
use selvedge::sync::Semaphore;

use super::{SOON, count, start};

/// Something that few may use at once.
struct Seats {
    free: Semaphore,
    taken: AtomicU32,
}

impl Seats {
    fn new(seats: usize) -> Arc<Self> {
        Arc::new(Self { free: Semaphore::new(seats), taken: AtomicU32::new(0) })
    }

    /// Returns how many seats are taken, and for how many more there is room.
    fn sit(&self, seats: u32) -> u32 {
        let _permits = self.free.acquire_many(seats as usize);
        let taken = self.taken.fetch_add(seats, SeqCst) + seats;
        self.taken.fetch_sub(seats, SeqCst);
        taken
    }

    /// A mistake: two threads that do this have one seat each, and wait for each other's.
    fn sit_one_by_one(&self) {
        let _one = self.free.acquire();
        let _other = self.free.acquire();
    }
}

#[test]
fn no_more_sit_than_there_are_seats() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    count(move || {
        let seats = Seats::new(2);
        let others = [1, 2].map(|wanted| start(&seats, move |seats| seats.sit(wanted)));
        let mut taken = vec![seats.sit(1)];
        taken.extend(others.map(|other| other.join().unwrap()));
        assert!(taken.iter().all(|&taken| taken <= 2), "{taken:?}");
        assert_eq!(seats.free.available_permits(), 2);
        seen.fetch_max(taken.into_iter().max().unwrap() as usize, SeqCst);
    });
    assert_eq!(most.load(SeqCst), 2, "two sit at once");
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_seats_taken_one_by_one() {
    loom::model(|| {
        let seats = Seats::new(2);
        let other = start(&seats, Seats::sit_one_by_one);
        seats.sit_one_by_one();
        other.join().unwrap();
    });
}

/// A permit as a signal, with a deadline that passes in some orders and not in others.
#[test]
fn a_permit_comes_in_time_and_too_late() {
    let seen = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let theirs = Arc::clone(&seen);
    count(move || {
        let ready = Arc::new(Semaphore::new(0));
        let other = start(&ready, |ready| ready.add_permits(1));
        let came = ready.try_acquire_for(SOON).map(|permit| permit.forget()).is_some();
        theirs[usize::from(came)].store(true, SeqCst);
        other.join().unwrap();
        assert_eq!(ready.try_acquire().is_some(), !came);
    });
    assert!(seen.iter().all(|seen| seen.load(SeqCst)));
}

/// A thread that wants few does not pass one that came before and wants many.
#[test]
fn permits_are_given_in_order_and_in_all_forms() {
    count(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let first = start(&semaphore, |semaphore| drop(semaphore.acquire_many(2)));
        let owned = semaphore.try_acquire_many_owned(1);
        let passed = semaphore.try_acquire().is_some();
        assert!(!(passed && owned.is_some()));
        semaphore.add_permits(1);
        drop(owned);
        first.join().unwrap();
        drop(semaphore.acquire_with(Wait::forever().interruptible()).expect("it is not interrupted"));
        let timed = semaphore.acquire_many_owned_with(2, Wait::timeout(SOON).interruptible());
        assert_eq!(timed.expect("no other thread wants them").num_permits(), 2);
        assert!(semaphore.try_add_permits(Semaphore::MAX_PERMITS).is_err());
        assert_eq!(semaphore.available_permits(), 2);
    });
}
