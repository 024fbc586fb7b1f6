//! Wait groups: what crossbeam promises of its own, with deadlines and interrupts.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use selvedge::sync::WaitGroup;
use selvedge::{OneToOne, Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::waiting::until_waits;

both! {
    the_wait_ends_when_all_have_left,
    all_members_may_wait_for_each_other,
    members_make_members,
    a_member_that_panics_has_left,
    a_member_that_gives_up_is_a_member_again,
    an_interrupted_member_is_a_member_again,
    a_last_member_and_a_timeout_agree,
}

const LONG: Duration = Duration::from_secs(1000);

fn the_wait_ends_when_all_have_left<L: Leg>() {
    let (rt, kernel) = (L::new(), OneToOne::new().unwrap());
    for round in 0..20 {
        let group = WaitGroup::new();
        let done = Arc::new(AtomicUsize::new(0));
        let work = |n: usize| {
            let (member, done) = (group.clone(), Arc::clone(&done));
            move || {
                if (n + round).is_multiple_of(4) {
                    thread::sleep(Duration::from_micros(200));
                }
                // Relaxed: the group orders it.
                done.fetch_add(1, Relaxed);
                drop(member);
            }
        };
        for n in 0..4 {
            drop(rt.spawn(work(n)));
            drop(rt.spawn_with(thread::Builder::new().bound(true), work(n + 1)).unwrap());
            drop(kernel.spawn(work(n + 2)));
            drop(std::thread::spawn(work(n + 3)));
        }
        match round % 3 {
            0 => group.wait(),
            1 => rt.spawn(|| group.wait()).join().unwrap(),
            _ => assert!(group.wait_for(LONG).is_ok()),
        }
        assert_eq!(done.load(Relaxed), 16);
    }
}

fn all_members_may_wait_for_each_other<L: Leg>() {
    let rt = L::new();
    let group = WaitGroup::new();
    let came = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (group, came) = (group.clone(), Arc::clone(&came));
            rt.spawn(move || {
                came.fetch_add(1, Relaxed);
                group.wait();
                came.load(Relaxed)
            })
        })
        .collect();
    group.wait();
    assert_eq!(came.load(Relaxed), 8);
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 8));
}

fn members_make_members<L: Leg>() {
    fn divide(member: WaitGroup, depth: usize, leaves: Arc<AtomicUsize>) {
        if depth == 0 {
            leaves.fetch_add(1, Relaxed);
            return drop(member);
        }
        for _ in 0..2 {
            let (member, leaves) = (member.clone(), Arc::clone(&leaves));
            drop(thread::spawn(move || divide(member, depth - 1, leaves)));
        }
    }
    L::new().run(|| {
        let (group, leaves) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
        let (member, theirs) = (group.clone(), Arc::clone(&leaves));
        drop(thread::spawn(move || divide(member, 7, theirs)));
        group.wait();
        assert_eq!(leaves.load(Relaxed), 128);
    });
}

fn a_member_that_panics_has_left<L: Leg>() {
    let rt = L::new();
    let group = WaitGroup::new();
    let member = group.clone();
    let panics = rt.spawn(move || {
        let _member = member;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    group.wait();
    assert!(panics.join().is_err());
}

fn a_member_that_gives_up_is_a_member_again<L: Leg>() {
    const WAIT: Duration = Duration::from_millis(3);
    let rt = L::new();
    rt.run(|| {
        let group = WaitGroup::new();
        let other = group.clone();
        let start = Instant::now();
        let group = group.wait_for(WAIT).unwrap_err();
        let group = group.wait_until(Instant::now() + WAIT).unwrap_err();
        let (group, why) = group.wait_with(Wait::timeout(WAIT).interruptible()).unwrap_err();
        assert_eq!(why, WaitError::TimedOut);
        let until = Wait::until(Instant::now() + WAIT).interruptible();
        let (group, why) = group.wait_with(until).unwrap_err();
        assert_eq!(why, WaitError::TimedOut);
        assert!(start.elapsed() >= 4 * WAIT);
        assert_eq!(format!("{group:?}"), "WaitGroup { count: 2 }");
        // The other waits for it.
        let waits = thread::spawn(move || other.wait());
        until_waits(&rt, &waits);
        assert!(!waits.is_finished());
        drop(group);
        waits.join().unwrap();
        let alone = WaitGroup::default();
        assert!(alone.clone().wait_for(Duration::ZERO).is_err());
        assert!(alone.wait_for(Duration::ZERO).is_ok());
    });
}

fn an_interrupted_member_is_a_member_again<L: Leg>() {
    let rt = L::new();
    for round in 0..8 {
        let group = WaitGroup::new();
        let member = group.clone();
        let waiter = rt.spawn(move || {
            let wait = match round % 3 {
                0 => Wait::forever(),
                1 => Wait::timeout(LONG),
                _ => Wait::until(Instant::now() + LONG),
            };
            let (group, why) = member.wait_with(wait.interruptible()).unwrap_err();
            assert_eq!(why, WaitError::Interrupted);
            assert!(!thread::take_interrupt(), "the wait has reported it");
            group
        });
        if round % 2 == 0 {
            until_waits(&rt, &waiter);
        }
        waiter.thread().interrupt();
        let member = waiter.join().unwrap();
        let group = group.wait_for(Duration::from_millis(1)).expect_err("it is a member");
        drop(member);
        group.wait();
    }
}

fn a_last_member_and_a_timeout_agree<L: Leg>() {
    L::new().run(|| {
        for round in 0..300 {
            let group = WaitGroup::new();
            let (member, left) = (group.clone(), Arc::new(AtomicBool::new(false)));
            let theirs = Arc::clone(&left);
            let other = thread::spawn(move || {
                thread::yield_now();
                theirs.store(true, Relaxed);
                drop(member);
            });
            if let Err(group) = group.wait_for(Duration::from_micros(round % 30)) {
                group.wait();
            }
            assert!(left.load(Relaxed), "the wait was over before");
            other.join().unwrap();
        }
    });
}
