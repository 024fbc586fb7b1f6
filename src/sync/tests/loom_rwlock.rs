//! The read-write lock: readers against writers, deadlines, interrupts, upgrade, downgrade, hand-over; each with what goes
//! wrong without a step.

use std::sync::Arc;

use loom::thread::JoinHandle;

use super::super::state::{Mine, Queue, Share, Wish};
use super::{HANDED_OVER, RawRwLock, Until, options, wait_queue};
use crate::park::current::current;
use crate::park::tests::loom_model::{
    Core, Green, Outcomes, deadline, large_model, model, model_within, on, together,
};
use crate::park::wait_queue::Woken;
use crate::park::word_queues;
use crate::shim::atomic::Ordering;
use crate::shim::{UnsafeCell, strike};

/// A lock, and what it guards.
#[repr(C, align(2048))]
struct Guarded {
    lock: RawRwLock,
    count: UnsafeCell<u32>,
}

// SAFETY: what the models are to show: loom reports an access to the count that is not ordered.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        let guarded = Arc::new(Self { lock: RawRwLock::new(), count: UnsafeCell::new(0) });
        // All comes into being before the threads do.
        guarded.lock.write();
        guarded.lock.leave_write();
        guarded.lock.passed.load(Ordering::Relaxed);
        guarded.lock.unlocks.load(Ordering::Relaxed);
        assert_eq!(guarded.look(), 0);
        guarded
    }

    /// By who writes.
    fn count(&self) {
        // SAFETY: checked by loom.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }

    /// By who reads.
    fn look(&self) -> u32 {
        // SAFETY: checked by loom.
        self.count.with(|count| unsafe { *count })
    }

    fn writes(&self) {
        self.lock.write();
        self.count();
        self.lock.leave_write();
    }

    fn reads(&self) {
        self.lock.read();
        self.look();
        self.lock.leave_read();
    }

    /// What is left when all are gone: nothing, and the count that all have made.
    fn ends_with(&self, count: u32) {
        assert_eq!(self.lock.bits(), RawRwLock::new().bits());
        assert_eq!(self.look(), count);
        word_queues::with(self.lock.state.address(), |queues| {
            assert!((0..word_queues::QUEUES).all(|queue| queues.first(queue).is_none()));
        });
    }
}

type Body = Box<dyn FnOnce() + Send>;

fn body(guarded: &Arc<Guarded>, run: impl FnOnce(&Guarded) + Send + 'static) -> Body {
    let guarded = guarded.clone();
    Box::new(move || run(&guarded))
}

#[test]
fn writers_exclude_each_other() {
    model(|| {
        let guarded = Guarded::new();
        together([body(&guarded, Guarded::writes), body(&guarded, Guarded::writes)]);
        guarded.ends_with(2);
    });
}

#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    model(|| {
        let guarded = Guarded::new();
        together([body(&guarded, Guarded::reads), body(&guarded, Guarded::writes)]);
        guarded.ends_with(1);
    });
}

#[test]
fn two_readers_and_a_writer() {
    large_model(|| {
        let guarded = Guarded::new();
        let reads = || body(&guarded, Guarded::reads);
        together([body(&guarded, Guarded::writes), reads(), reads()]);
        guarded.ends_with(1);
    });
}

#[test]
fn two_writers_and_a_reader() {
    large_model(|| {
        let guarded = Guarded::new();
        let writes = || body(&guarded, Guarded::writes);
        together([body(&guarded, Guarded::reads), writes(), writes()]);
        guarded.ends_with(2);
    });
}

#[test]
fn green_threads_and_kernel_threads() {
    large_model(|| {
        let guarded = Guarded::new();
        let greens = [(); 2].map(|()| Green::new());
        let runs: [fn(&Guarded); 2] = [Guarded::reads, Guarded::writes];
        let others = [0, 1].map(|n| {
            let (guarded, green, run) = (guarded.clone(), greens[n].clone(), runs[n]);
            loom::thread::spawn(move || on(green.thread(), || run(&guarded)))
        });
        together([body(&guarded, Guarded::writes)]);
        others.into_iter().for_each(|other| other.join().unwrap());
        guarded.ends_with(2);
    });
}

/// Starts a thread. Its core must outlive all threads of the model.
fn start<R: 'static>(
    guarded: &Arc<Guarded>,
    run: impl FnOnce(&Guarded) -> R + Send + 'static,
) -> (Core, JoinHandle<R>) {
    let (core, guarded) = (Core::new(), guarded.clone());
    let thread = core.thread();
    (core, loom::thread::spawn(move || on(thread, || run(&guarded))))
}

/// Whoever gives up at any moment is not counted, and the other is not forgotten for it.
fn gives_up(other: fn(&Guarded), timed: fn(&Guarded) -> bool, changes: [u32; 2]) {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(move || {
        let guarded = Guarded::new();
        let clock = loom::thread::spawn(strike);
        let (core, timed) = start(&guarded, timed);
        let me = Core::new();
        on(me.thread(), || other(&guarded));
        let expired = !timed.join().unwrap();
        clock.join().unwrap();
        drop(core);
        guarded.ends_with(changes[0] + if expired { 0 } else { changes[1] });
        seen.saw(expired);
    });
    outcomes.are_both();
}

#[test]
fn a_writer_and_a_deadline() {
    let timed = |guarded: &Guarded| {
        let locked = guarded.lock.acquire_until(Wish::Write, deadline());
        if locked {
            guarded.count();
            guarded.lock.leave_write();
        }
        locked
    };
    gives_up(Guarded::writes, timed, [1, 1]);
    gives_up(Guarded::reads, timed, [0, 1]);
}

#[test]
fn a_reader_and_a_deadline() {
    gives_up(
        Guarded::writes,
        |guarded| {
            let locked = guarded.lock.acquire_until(Wish::Read, deadline());
            if locked {
                guarded.look();
                guarded.lock.leave_read();
            }
            locked
        },
        [1, 0],
    );
}

#[test]
fn one_who_upgrades_and_a_deadline() {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(move || {
        let guarded = Guarded::new();
        guarded.lock.upgradable();
        guarded.lock.read();
        let clock = loom::thread::spawn(strike);
        let (core, upgrader) = start(&guarded, |guarded| {
            let upgraded = guarded.lock.upgrade_until(deadline());
            if upgraded {
                guarded.count();
                guarded.lock.leave_write();
            } else {
                guarded.look();
                guarded.lock.leave_upgradable();
            }
            upgraded
        });
        guarded.look();
        guarded.lock.leave_read();
        let expired = !upgrader.join().unwrap();
        clock.join().unwrap();
        drop(core);
        guarded.ends_with(u32::from(!expired));
        seen.saw(expired);
    });
    outcomes.are_both();
}

/// An interrupt and a grant at once: in or not, the lock is left as it should be.
#[test]
fn an_interrupt_forgets_nobody() {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model(move || {
        let guarded = Guarded::new();
        let (core, other) = start(&guarded, |guarded| {
            let me = current();
            let interrupter = loom::thread::spawn(move || me.interrupt());
            let locked = guarded.lock.acquire_interruptible(Wish::Write, None) == Ok(true);
            if locked {
                guarded.count();
                guarded.lock.leave_write();
            }
            interrupter.join().unwrap();
            locked
        });
        let me = Core::new();
        on(me.thread(), || guarded.reads());
        let locked = other.join().unwrap();
        drop(core);
        guarded.ends_with(u32::from(locked));
        seen.saw(!locked);
    });
    outcomes.are_both();
}

/// One that upgrades, while another reads, and leaves like this.
fn upgrade_against(leave: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    // Taken by who is no thread of ours, and leaves no hint: the upgrader does not look twice.
    guarded.lock.upgradable();
    guarded.lock.read();
    let (core, upgrader) = start(&guarded, |guarded| {
        assert!(guarded.lock.upgrade_until(None));
        guarded.count();
        guarded.lock.leave_write();
    });
    guarded.look();
    leave(&guarded.lock);
    upgrader.join().unwrap();
    guarded.ends_with(1);
    drop(core);
}

#[test]
fn an_upgrade_and_a_reader_that_leaves() {
    model(|| upgrade_against(RawRwLock::leave_read));
}

/// A reader that leaves without a look at who upgrades.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_last_reader_hands_nothing_to_who_upgrades() {
    model(|| {
        upgrade_against(|lock| {
            let mut seen = lock.bits();
            while let Err(now) = lock.state.try_leave(seen, seen.minus(Share::READ)) {
                seen = now;
            }
        });
    });
}

#[test]
fn an_upgrade_among_a_writer_and_a_reader() {
    // Two preemptions make millions of orders here.
    model_within(1, || {
        let guarded = Guarded::new();
        let upgrades = |guarded: &Guarded| {
            guarded.lock.upgradable();
            assert!(guarded.lock.upgrade_until(None));
            guarded.count();
            guarded.lock.downgrade_to(Share::UPGRADABLE);
            guarded.look();
            guarded.lock.leave_upgrade();
            guarded.look();
            guarded.lock.leave_read();
        };
        together([body(&guarded, upgrades), body(&guarded, Guarded::reads), body(&guarded, Guarded::writes)]);
        guarded.ends_with(2);
    });
}

/// The one that started them goes on, and stays until the other reader is in.
fn stays_with_a_reader(goes_on: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    guarded.lock.write();
    let (core, reader) = start(&guarded, Guarded::reads);
    guarded.count();
    goes_on(&guarded.lock);
    guarded.look();
    reader.join().unwrap();
    guarded.lock.leave_read();
    guarded.ends_with(1);
    drop(core);
}

#[test]
fn a_downgrade_lets_readers_in() {
    model(|| stays_with_a_reader(|lock| lock.downgrade_to(Share::READ)));
}

/// A downgrade that leaves those in the queue where they are.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_downgrade_wakes_nobody() {
    model(|| {
        stays_with_a_reader(|lock| {
            let mut seen = lock.bits();
            let downgraded = |seen: super::Bits| seen.minus(Share::WRITE).plus(Share::READ).unwrap();
            while let Err(now) = lock.state.try_leave(seen, downgraded(seen)) {
                seen = now;
            }
        });
    });
}

/// A reader stays until another is in, that came while a writer waited, which gives up.
fn a_door_is_opened(gives_up: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    guarded.lock.read();
    let (core, waiter) = start(&guarded, move |guarded| gives_up(&guarded.lock));
    let (other_core, reader) = start(&guarded, Guarded::reads);
    let clock = loom::thread::spawn(strike);
    reader.join().unwrap();
    guarded.lock.leave_read();
    waiter.join().unwrap();
    clock.join().unwrap();
    guarded.ends_with(0);
    drop((core, other_core));
}

#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    // Two preemptions make hundred thousands of orders here; the twin below needs one.
    model_within(1, || {
        a_door_is_opened(|lock| {
            if lock.acquire_until(Wish::Write, deadline()) {
                lock.leave_write();
            }
        });
    });
}

/// A writer that gives up and only clears its bit.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_writer_that_gives_up_says_nothing() {
    model_within(1, || {
        a_door_is_opened(|lock| {
            let options = options(Until::deadline(deadline()));
            let announce = || lock.state.announce(Wish::Write, Mine::NOTHING);
            match wait_queue::wait(lock.key(Queue::Writers), &options, announce, || ()) {
                Ok(Woken::Expired { .. }) => word_queues::with(lock.state.address(), |_| {
                    lock.state.clear_queue(Queue::Writers);
                }),
                Ok(Woken::Granted(token)) => {
                    if token == HANDED_OVER || lock.try_enter(Wish::Write, Mine::WOKEN) {
                        lock.leave_write();
                    } else {
                        lock.state.give_up_way(Mine::WOKEN);
                    }
                }
                _ => {}
            }
        });
    });
}

#[test]
fn one_who_gives_up_upgrading_lets_readers_in() {
    large_model(|| {
        a_door_is_opened(|lock| {
            lock.upgradable();
            if lock.upgrade_until(deadline()) {
                lock.leave_write();
            } else {
                lock.leave_upgradable();
            }
        });
    });
}

/// A reader that was woken stays until the other one that waited is in.
fn a_phase_begins(read: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    guarded.lock.write();
    let (core, second) = start(&guarded, move |guarded| {
        read(&guarded.lock);
        guarded.look();
        guarded.lock.leave_read();
    });
    let (other_core, first) = start(&guarded, move |guarded| {
        read(&guarded.lock);
        guarded.look();
        second.join().unwrap();
        guarded.lock.leave_read();
    });
    guarded.count();
    guarded.lock.leave_write();
    first.join().unwrap();
    guarded.ends_with(1);
    drop((core, other_core));
}

#[test]
fn who_is_woken_to_read_lets_the_others_in() {
    large_model(|| a_phase_begins(RawRwLock::read));
}

/// A reader that was woken and comes in by itself.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_who_is_woken_to_read_comes_in_alone() {
    model(|| {
        a_phase_begins(|lock| {
            let mut mine = Mine::NOTHING;
            loop {
                let seen = lock.bits();
                if seen.lets_in(Wish::Read, mine.is_woken()) {
                    if lock.state.try_take(seen, seen.without(mine).plus(Share::READ).unwrap()) {
                        return;
                    }
                    continue;
                }
                let announce = || lock.state.announce(Wish::Read, mine);
                match wait_queue::wait(lock.key(Queue::Readers), &options(Until::NEVER), announce, || ()) {
                    Ok(Woken::Granted(token)) if token == HANDED_OVER => return,
                    Ok(_) => mine = Mine::WOKEN,
                    Err(_) => {}
                }
            }
        });
    });
}

#[test]
fn fair_unlocks_hand_over() {
    large_model(|| {
        let guarded = Guarded::new();
        let writes = |guarded: &Guarded| {
            guarded.lock.write();
            guarded.count();
            guarded.lock.leave_write_fair();
        };
        let reads = |guarded: &Guarded| {
            guarded.lock.read();
            guarded.look();
            guarded.lock.leave_read_fair();
        };
        together([body(&guarded, writes), body(&guarded, reads), body(&guarded, writes)]);
        guarded.ends_with(2);
    });
}

/// Two readers leave, the last one hands the lock to a writer.
fn handed_over_after_both(leave: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    guarded.lock.read();
    guarded.lock.read();
    let (core, writer) = start(&guarded, Guarded::writes);
    let (other_core, reader) = start(&guarded, |guarded| {
        guarded.look();
        guarded.lock.leave_read();
    });
    leave(&guarded.lock);
    writer.join().unwrap();
    reader.join().unwrap();
    guarded.ends_with(1);
    drop((core, other_core));
}

#[test]
fn a_writer_that_is_handed_the_lock_comes_after_all_readers() {
    model(|| handed_over_after_both(RawRwLock::leave_read_fair));
}

/// The last reader does not acquire what the one before it has released: the writer it hands the lock to may come before that one.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_handed_over_without_acquire() {
    model(|| {
        handed_over_after_both(|lock| {
            let handed = word_queues::with(lock.state.address(), |queues| {
                let seen = lock.bits();
                if seen.readers() > 1 || queues.first(Queue::Writers as usize).is_none() {
                    return None;
                }
                let passed = seen.minus(Share::READ).plus(Share::WRITE)?.with_queue(Queue::Writers, false);
                lock.state.try_leave(seen, passed).ok()?;
                queues.grant_one(Queue::Writers as usize, HANDED_OVER)
            });
            match handed {
                Some(grant) => grant.wake(),
                None => lock.leave_read(),
            }
        });
    });
}

/// A writer that announces itself without the queue lock, and queues later: who leaves between finds nobody.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_announced_before_the_lock() {
    model(|| {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| {
            let lock = &guarded.lock;
            while !lock.try_enter(Wish::Write, Mine::NOTHING) {
                if lock.state.announce(Wish::Write, Mine::NOTHING) {
                    let options = options(Until::NEVER);
                    let ended = wait_queue::wait(lock.key(Queue::Writers), &options, || true, || ());
                    assert!(matches!(ended, Ok(Woken::Granted(_))));
                    lock.state.give_up_way(Mine::WOKEN);
                }
            }
            guarded.count();
            lock.leave_write();
        };
        together([body(&guarded, Guarded::reads), body(&guarded, wrong)]);
    });
}

/// A woken waiter that does not give `WOKEN` up when it comes in: those who leave believe for ever that it is on its way. (Or as long
/// as it takes to be late, which no model lasts.)
#[test]
#[should_panic(expected = "deadlock")]
fn negative_woken_for_ever() {
    model(|| {
        let guarded = Guarded::new();
        let wrong = |guarded: &Guarded| {
            let lock = &guarded.lock;
            while !lock.try_enter(Wish::Write, Mine::NOTHING) {
                let announce = || lock.state.announce(Wish::Write, Mine::NOTHING);
                let options = options(Until::NEVER);
                if let Ok(Woken::Granted(token)) =
                    wait_queue::wait(lock.key(Queue::Writers), &options, announce, || ())
                {
                    assert_ne!(token, HANDED_OVER);
                }
            }
            guarded.count();
            lock.leave_write();
        };
        together([(); 3].map(|()| body(&guarded, wrong)));
    });
}

/// Those who read again come in while a writer waits.
#[test]
fn a_reader_reads_again() {
    model(|| {
        let guarded = Guarded::new();
        let twice = |guarded: &Guarded| {
            guarded.lock.read();
            let before = guarded.look();
            guarded.lock.read_again();
            assert_eq!(guarded.look(), before);
            guarded.lock.leave_read();
            guarded.lock.leave_read();
        };
        together([body(&guarded, twice), body(&guarded, Guarded::writes)]);
        guarded.ends_with(1);
    });
}

/// A reader that reads again by the plain form waits for the writer that waits for it.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_reader_reads_again_by_the_plain_form() {
    model(|| {
        let guarded = Guarded::new();
        let twice = |guarded: &Guarded| {
            guarded.lock.read();
            guarded.lock.read();
            guarded.lock.leave_read();
            guarded.lock.leave_read();
        };
        together([body(&guarded, twice), body(&guarded, Guarded::writes)]);
    });
}

#[test]
fn upgradable_readers_follow_each_other() {
    model(|| {
        let guarded = Guarded::new();
        guarded.lock.read();
        // Nobody is ever alone: the lock is not free in between.
        let upgradable = |guarded: &Guarded| {
            guarded.lock.upgradable();
            guarded.look();
            guarded.lock.leave_upgradable();
        };
        let (core, other) = start(&guarded, upgradable);
        let me = Core::new();
        on(me.thread(), || upgradable(&guarded));
        other.join().unwrap();
        guarded.lock.leave_read();
        guarded.ends_with(0);
        drop(core);
    });
}
