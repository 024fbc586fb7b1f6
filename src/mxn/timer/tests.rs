//! Deadlines that end sleeps, compared with a sorted list.

use std::cell::RefCell;
use std::time::Duration;

use proptest::prelude::*;

use super::{BATCH, Clock, Entry, NEVER, Timers};
use crate::park::backend::Sleep;
use crate::park::current::current;
use crate::park::tests::random;
use crate::shim;
use crate::shim::atomic::AtomicU32;

/// A sleep that notes when its deadline ends it.
struct Nap<'a> {
    number: usize,
    /// It was granted before, so its deadline comes too late.
    is_granted: bool,
    fired: &'a RefCell<Vec<usize>>,
}

impl Sleep for Nap<'_> {
    fn word(&self) -> &AtomicU32 {
        unreachable!("no thread waits on it")
    }

    fn is_asleep(&self) -> bool {
        unreachable!("no thread sleeps on it")
    }

    fn commit_kernel(&self) -> Option<u32> {
        unreachable!("no thread sleeps on it")
    }

    fn expire(&self) -> bool {
        self.fired.borrow_mut().push(self.number);
        !self.is_granted
    }

    fn interrupt(&self) -> bool {
        unreachable!("no thread sleeps on it")
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A new entry.
    Arm {
        at: u64,
        is_granted: bool,
    },
    /// Any entry, even one that was disarmed or has fired.
    Disarm(usize),
    Fire(u64),
}

/// Applies `ops` to timers and to a list, and compares after each.
fn compare(ops: &[Op]) {
    let timers = Timers::new();
    let fired = RefCell::new(Vec::new());
    let armings = ops.iter().filter_map(|op| match *op {
        Op::Arm { at, is_granted } => Some((at, is_granted)),
        _ => None,
    });
    let naps: Vec<(u64, Nap<'_>)> = armings
        .enumerate()
        .map(|(number, (at, is_granted))| (at, Nap { number, is_granted, fired: &fired }))
        .collect();
    let entries: Vec<Entry<'_>> = naps.iter().map(|(at, nap)| Entry::new(*at, current(), nap)).collect();
    // The reference: the armed entries, as (deadline, number).
    let mut armed: Vec<(u64, usize)> = Vec::new();
    let (mut next, mut now) = (0, 0);
    for op in ops {
        match *op {
            Op::Arm { at, .. } => {
                // SAFETY: the entries stay where they are; those that are armed at the end are never looked
                // at again.
                unsafe { timers.arm(&entries[next]) };
                armed.push((at, next));
                next += 1;
            }
            Op::Disarm(_) if next == 0 => {}
            Op::Disarm(which) => {
                timers.disarm(&entries[which % next]);
                armed.retain(|&(_, number)| number != which % next);
            }
            Op::Fire(at) => {
                now = at.max(now);
                let (mut due, mut woken) = (0, 0);
                while timers.next() <= now {
                    due += timers.fire(now, BATCH, BATCH, |_| woken += 1);
                }
                let mut fired = fired.take();
                assert_eq!(due, fired.len());
                let mut expected: Vec<usize> =
                    armed.iter().filter(|&&(at, _)| at <= now).map(|&(_, number)| number).collect();
                armed.retain(|&(at, _)| at > now);
                assert_eq!(woken, expected.iter().filter(|&&number| !naps[number].1.is_granted).count());
                expected.sort_unstable();
                fired.sort_unstable();
                assert_eq!(fired, expected, "fired at {now}");
            }
        }
        let earliest = armed.iter().map(|&(at, _)| at).min().unwrap_or(NEVER);
        assert!(timers.next() <= earliest && (timers.next() == NEVER) == armed.is_empty());
    }
}

#[test]
fn any_order_of_arming_and_disarming_fires_what_a_sorted_list_would() {
    // Few deadlines, so that many are equal.
    let op = prop_oneof![
        4 => (0..20_u64, any::<bool>()).prop_map(|(at, is_granted)| Op::Arm { at, is_granted }),
        2 => any::<usize>().prop_map(Op::Disarm),
        1 => (0..22_u64).prop_map(Op::Fire),
    ];
    random::check(1000, &prop::collection::vec(op, 0..80), |ops| compare(&ops));
}

/// What a call leaves can still be disarmed.
#[test]
fn a_call_ends_as_many_sleeps_as_a_batch_has() {
    let (timers, fired) = (Timers::new(), RefCell::new(Vec::new()));
    let naps: Vec<_> = (0..1000).map(|number| Nap { number, is_granted: false, fired: &fired }).collect();
    let entries: Vec<Entry<'_>> = naps.iter().map(|nap| Entry::new(7, current(), nap)).collect();
    // SAFETY: the entries stay where they are, and are disarmed or fired below.
    entries.iter().for_each(|entry| unsafe { timers.arm(entry) });
    assert_eq!(timers.fire(6, BATCH, BATCH, |_| ()), 0);
    let mut count = 0;
    for _ in 0..3 {
        let due = timers.fire(7, BATCH, BATCH, |_| ());
        assert!((1..=BATCH).contains(&due));
        assert!(timers.next() <= 7, "there is more");
        count += due;
    }
    assert_eq!(timers.fire(7, BATCH, 3, |_| ()), 3, "there is no room for more");
    assert!(fired.take().into_iter().eq(0..count + 3));
    entries.iter().rev().for_each(|entry| timers.disarm(entry));
    assert_eq!((timers.next(), timers.fire(7, BATCH, BATCH, |_| ())), (NEVER, 0));
    assert!(fired.take().is_empty());
}

/// A clock's last tick stands for all that is later.
#[test]
fn what_is_years_ahead_has_a_deadline() {
    let clock = Clock::new();
    let year = Duration::from_secs(365 * 24 * 3600);
    let soon = clock.at(shim::now() + year);
    assert!((soon as i128 - (clock.now() as i128 + year.as_nanos() as i128)).abs() < 10_000_000_000);
    let latest = shim::now() + 1_000 * year;
    assert!((clock.at(shim::now() + 500 * year)..NEVER).contains(&clock.at(latest)));
    assert_eq!(clock.moment(clock.at(latest)), Some(latest));
    assert_eq!(clock.moment(NEVER), None);
}
