//! Forms of waits that have what they wait for, or do without: by a deadline. (`interrupt.rs` has those that are interrupted.)

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::channel::{Select, unbounded};
use selvedge::sync::{Barrier, shared};
use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    parties_do_not_wait_for_ever,
    parties_meet_in_all_forms,
    parks_and_sleeps_end_in_time,
    joins_end_in_time,
    joins_in_a_scope_end_in_time,
    a_panic_is_told_by_every_join_in_a_scope,
    what_is_ready_is_told_in_time,
    shared_conditions_are_waited_for_so_long,
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

fn parties_do_not_wait_for_ever<L: Leg>() {
    L::new().run(|| {
        let two = Barrier::new(2);
        assert!(timed(|| two.wait_for(SHORT)).is_none());
        assert!(timed(|| two.wait_until(soon())).is_none());
        assert!(timed(|| two.wait_interruptible_for(SHORT)).unwrap().is_none());
        assert!(timed(|| two.wait_interruptible_until(soon())).unwrap().is_none());
        // Nobody is counted any more.
        assert!(two.wait_until(Instant::now()).is_none());
        assert!(Barrier::new(1).wait_for(Duration::ZERO).is_some_and(|result| result.is_leader()));
    });
}

fn parties_meet_in_all_forms<L: Leg>() {
    type Meet = fn(&Barrier) -> bool;
    const FORMS: [Meet; 4] = [
        |barrier| barrier.wait_for(LONG).unwrap().is_leader(),
        |barrier| barrier.wait_until(Instant::now() + LONG).unwrap().is_leader(),
        |barrier| barrier.wait_interruptible_for(LONG).unwrap().unwrap().is_leader(),
        |barrier| barrier.wait_interruptible_until(Instant::now() + LONG).unwrap().unwrap().is_leader(),
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
        timed(|| thread::sleep_interruptible_until(soon())).unwrap();
        assert!(thread::sleep_interruptible_until(Instant::now()).is_ok());
        timed(|| thread::park_interruptible_until(soon())).unwrap();
        thread::current().unpark();
        assert!(thread::park_interruptible_until(Instant::now() + LONG).is_ok(), "by the permit");
    });
}

fn joins_end_in_time<L: Leg>() {
    L::new().run(|| {
        let parked = thread::spawn(|| {
            thread::park();
            7
        });
        let parked = timed(|| parked.join_interruptible_timeout(SHORT)).unwrap().unwrap_err();
        let parked = timed(|| parked.join_interruptible_until(soon())).unwrap().unwrap_err();
        parked.thread().unpark();
        let ended = parked.join_interruptible_timeout(LONG).unwrap();
        assert_eq!(ended.unwrap().unwrap(), 7);
        // Whose thread has ended says so also to one that is interrupted, but not before that is told.
        let ended = thread::spawn(|| 8);
        thread::current().interrupt();
        let (ended, _) = ended.join_interruptible_until(Instant::now() + LONG).unwrap_err();
        assert_eq!(ended.join_interruptible_until(Instant::now() + LONG).unwrap().unwrap().unwrap(), 8);
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
            let parked = timed(|| parked.join_interruptible_timeout(SHORT)).unwrap().unwrap_err();
            let parked = timed(|| parked.join_interruptible_until(soon())).unwrap().unwrap_err();
            thread::current().interrupt();
            let parked = parked.join_interruptible().unwrap_err();
            thread::current().interrupt();
            let (parked, _) = parked.join_interruptible_until(Instant::now() + LONG).unwrap_err();
            parked.thread().unpark();
            assert_eq!(parked.join_timeout(LONG).unwrap().unwrap(), 1);
            let others = [(); 4].map(|()| spawn(2));
            others.iter().for_each(|other| other.thread().unpark());
            let [one, two, three, four] = others;
            assert_eq!(one.join_until(Instant::now() + LONG).unwrap().unwrap(), 2);
            assert_eq!(two.join_interruptible().unwrap().unwrap(), 2);
            assert_eq!(three.join_interruptible_timeout(LONG).unwrap().unwrap().unwrap(), 2);
            assert_eq!(four.join_interruptible_until(Instant::now() + LONG).unwrap().unwrap().unwrap(), 2);
            // A handle that has come back is as the one that went: the scope waits for its thread.
            let parked = spawn(3).join_timeout(Duration::ZERO).unwrap_err();
            parked.thread().unpark();
        });
    });
}

/// Told to whoever joins, it is not the scope's.
fn a_panic_is_told_by_every_join_in_a_scope<L: Leg>() {
    L::new().run(|| {
        thread::scope(|s| {
            let failed = [(); 3].map(|()| s.spawn(|| panic!("on purpose")));
            let [one, two, three] = failed;
            assert!(one.join_timeout(LONG).unwrap().is_err());
            assert!(two.join_interruptible().unwrap().is_err());
            assert!(three.join_interruptible_timeout(LONG).unwrap().unwrap().is_err());
        });
    });
}

fn what_is_ready_is_told_in_time<L: Leg>() {
    L::new().run(|| {
        let (s, r) = unbounded();
        let mut select = Select::new();
        let receives = select.recv(&r);
        assert_eq!(timed(|| select.ready_interruptible_timeout(SHORT)), Ok(None));
        assert_eq!(timed(|| select.ready_interruptible_until(soon())), Ok(None));
        let sender = thread::spawn(move || {
            thread::yield_now();
            s.send(1).unwrap();
            s
        });
        assert_eq!(select.ready_interruptible(), Ok(receives));
        assert_eq!(select.ready_interruptible_timeout(Duration::ZERO), Ok(Some(receives)));
        assert_eq!(select.ready_interruptible_until(Instant::now()), Ok(Some(receives)));
        drop(sender.join().unwrap());
        assert_eq!((r.try_recv(), select.ready_interruptible()), (Ok(1), Ok(receives)), "gone is ready");
    });
}

fn shared_conditions_are_waited_for_so_long<L: Leg>() {
    let rt = L::new();
    let both = Arc::new((shared::Mutex::new(0), shared::Condvar::new()));
    rt.run(|| {
        let (count, changed) = &*both;
        let guard = count.lock().unwrap().unwrap();
        let (guard, result) = timed(|| changed.wait_while_for(guard, |count| *count == 0, SHORT)).unwrap();
        assert!(result.timed_out());
        let guard = guard.unwrap();
        let (guard, result) = timed(|| changed.wait_while_until(guard, |count| *count == 0, soon())).unwrap();
        assert!(result.timed_out());
        // What is so already is not waited for, whatever the time.
        let (guard, result) =
            changed.wait_while_for(guard.unwrap(), |count| *count > 0, Duration::ZERO).unwrap();
        assert!(!result.timed_out() && *guard.unwrap() == 0);
    });
    let theirs = Arc::clone(&both);
    let counts = rt.spawn(move || {
        for _ in 0..3 {
            *theirs.0.lock().unwrap().unwrap() += 1;
            theirs.1.notify_all();
        }
    });
    let (count, changed) = &*both;
    let guard = count.lock().unwrap().unwrap();
    let (guard, result) = changed.wait_while_for(guard, |count| *count < 3, LONG).unwrap();
    assert!(!result.timed_out() && *guard.unwrap() == 3);
    counts.join().unwrap();
}
