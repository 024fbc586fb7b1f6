//! Forms of waits that have what they wait for, or do without: by a deadline. (`interrupt.rs` has those
//! that are interrupted.)

#[cfg(unix)]
mod shared;

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::channel::{Select, unbounded};
use selvedge::sync::Barrier;
use selvedge::{Runtime, Wait, WaitError, thread};

use crate::legs::Leg;

both! {
    parties_do_not_wait_for_ever,
    parties_meet_in_all_forms,
    parks_and_sleeps_end_in_time,
    joins_end_in_time,
    joins_in_a_scope_end_in_time,
    a_panic_is_told_by_every_join_in_a_scope,
    what_is_ready_is_told_in_time,
}

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_millis(3);

/// That `f` takes its time.
fn timed<T>(f: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = f();
    assert!(start.elapsed() >= SHORT, "{:?}", start.elapsed());
    result
}

fn soon() -> Instant {
    Instant::now() + SHORT
}

/// Returns the handle of a join that has timed out.
fn out_of_time<T, H>(joined: Result<T, (H, WaitError)>) -> H {
    let Err((handle, WaitError::TimedOut)) = joined else { panic!("it did not time out") };
    handle
}

fn parties_do_not_wait_for_ever<L: Leg>() {
    L::new().run(|| {
        let two = Barrier::new(2);
        assert!(timed(|| two.wait_for(SHORT)).is_none());
        assert!(timed(|| two.wait_until(soon())).is_none());
        let timed_out = Some(WaitError::TimedOut);
        assert_eq!(timed(|| two.wait_with(Wait::timeout(SHORT).interruptible())).err(), timed_out);
        assert_eq!(timed(|| two.wait_with(Wait::until(soon()).interruptible())).err(), timed_out);
        // No member is counted any more.
        assert!(two.wait_until(Instant::now()).is_none());
        assert!(Barrier::new(1).wait_for(Duration::ZERO).is_some_and(|result| result.is_leader()));
    });
}

fn parties_meet_in_all_forms<L: Leg>() {
    type Meet = fn(&Barrier) -> bool;
    const FORMS: [Meet; 4] = [
        |barrier| barrier.wait_for(LONG).unwrap().is_leader(),
        |barrier| barrier.wait_until(Instant::now() + LONG).unwrap().is_leader(),
        |barrier| barrier.wait_with(Wait::timeout(LONG).interruptible()).unwrap().is_leader(),
        |barrier| barrier.wait_with(Wait::until(Instant::now() + LONG).interruptible()).unwrap().is_leader(),
    ];
    let rt = L::new();
    let barrier = Arc::new(Barrier::new(FORMS.len()));
    for _ in 0..20 {
        let parties = FORMS.map(|meet| {
            let barrier = Arc::clone(&barrier);
            rt.spawn(move || meet(&barrier))
        });
        let leaders = parties.map(|party| party.join().unwrap());
        assert_eq!(leaders.iter().filter(|&&leads| leads).count(), 1);
    }
}

fn parks_and_sleeps_end_in_time<L: Leg>() {
    L::new().run(|| {
        timed(|| thread::sleep_with(Wait::until(soon()).interruptible())).unwrap();
        assert!(thread::sleep_with(Wait::until(Instant::now()).interruptible()).is_ok());
        let parked = timed(|| thread::park_with(Wait::until(soon()).interruptible()));
        assert_eq!(parked, Err(WaitError::TimedOut));
        thread::current().unpark();
        let wait = Wait::until(Instant::now() + LONG).interruptible();
        assert!(thread::park_with(wait).is_ok(), "by the permit");
    });
}

fn joins_end_in_time<L: Leg>() {
    L::new().run(|| {
        let parked = thread::spawn(|| {
            thread::park();
            7
        });
        let parked = out_of_time(timed(|| parked.join_with(Wait::timeout(SHORT).interruptible())));
        let parked = out_of_time(timed(|| parked.join_with(Wait::until(soon()).interruptible())));
        parked.thread().unpark();
        let ended = parked.join_with(Wait::timeout(LONG).interruptible());
        assert_eq!(ended.unwrap().unwrap(), 7);
        // A join of an ended thread says so also to an interrupted caller, after that was told of the
        // interrupt.
        let ended = thread::spawn(|| 8);
        thread::current().interrupt();
        let wait = Wait::until(Instant::now() + LONG).interruptible();
        let (ended, why) = ended.join_with(wait).unwrap_err();
        assert_eq!(why, WaitError::Interrupted);
        assert_eq!(ended.join_with(wait).unwrap().unwrap(), 8);
    });
}

fn joins_in_a_scope_end_in_time<L: Leg>() {
    L::new().run(|| {
        thread::scope(|s| {
            let spawn = |n| {
                s.spawn(move || {
                    thread::park();
                    n
                })
            };
            let parked = timed(|| spawn(1).join_timeout(SHORT)).unwrap_err();
            let parked = timed(|| parked.join_until(soon())).unwrap_err();
            let parked = out_of_time(timed(|| parked.join_with(Wait::timeout(SHORT).interruptible())));
            let parked = out_of_time(timed(|| parked.join_with(Wait::until(soon()).interruptible())));
            thread::current().interrupt();
            let (parked, why) = parked.join_with(Wait::forever().interruptible()).unwrap_err();
            assert_eq!(why, WaitError::Interrupted);
            thread::current().interrupt();
            let wait = Wait::until(Instant::now() + LONG).interruptible();
            let (parked, why) = parked.join_with(wait).unwrap_err();
            assert_eq!(why, WaitError::Interrupted);
            parked.thread().unpark();
            assert_eq!(parked.join_timeout(LONG).unwrap().unwrap(), 1);
            let others = [(); 4].map(|()| spawn(2));
            others.iter().for_each(|other| other.thread().unpark());
            let [one, two, three, four] = others;
            assert_eq!(one.join_until(Instant::now() + LONG).unwrap().unwrap(), 2);
            assert_eq!(two.join_with(Wait::forever().interruptible()).unwrap().unwrap(), 2);
            assert_eq!(three.join_with(Wait::timeout(LONG).interruptible()).unwrap().unwrap(), 2);
            assert_eq!(four.join_with(wait).unwrap().unwrap(), 2);
            // A handle that has come back is as the one that went: the scope waits for its thread.
            let parked = spawn(3).join_timeout(Duration::ZERO).unwrap_err();
            parked.thread().unpark();
        });
    });
}

/// If the joiner is told of the panic, the scope is not.
fn a_panic_is_told_by_every_join_in_a_scope<L: Leg>() {
    L::new().run(|| {
        thread::scope(|s| {
            let failed = [(); 3].map(|()| s.spawn(|| panic!("on purpose")));
            let [one, two, three] = failed;
            assert!(one.join_timeout(LONG).unwrap().is_err());
            assert!(two.join_with(Wait::forever().interruptible()).unwrap().is_err());
            assert!(three.join_with(Wait::timeout(LONG).interruptible()).unwrap().is_err());
        });
    });
}

fn what_is_ready_is_told_in_time<L: Leg>() {
    L::new().run(|| {
        let (s, r) = unbounded();
        let mut select = Select::new();
        let receives = select.recv(&r);
        let endless = Wait::forever().interruptible();
        let late = timed(|| select.ready_with(Wait::timeout(SHORT).interruptible()));
        assert_eq!(late, Err(WaitError::TimedOut));
        let late = timed(|| select.ready_with(Wait::until(soon()).interruptible()));
        assert_eq!(late, Err(WaitError::TimedOut));
        let sender = thread::spawn(move || {
            thread::yield_now();
            s.send(1).unwrap();
            s
        });
        assert_eq!(select.ready_with(endless), Ok(receives));
        assert_eq!(select.ready_with(Wait::timeout(Duration::ZERO).interruptible()), Ok(receives));
        assert_eq!(select.ready_with(Wait::until(Instant::now()).interruptible()), Ok(receives));
        drop(sender.join().unwrap());
        assert_eq!((r.try_recv(), select.ready_with(endless)), (Ok(1), Ok(receives)), "gone is ready");
    });
}
