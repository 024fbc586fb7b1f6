//! The heap of deadlines, compared with a sorted list.

use std::cell::RefCell;

use proptest::prelude::*;

use super::{Entry, NEVER, Timers};
use crate::park::backend::Sleep;
use crate::park::current::current;
use crate::park::tests::random;
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

/// Applies `ops` to a heap and to a list, and compares after each.
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
    let mut next = 0;
    for op in ops {
        match *op {
            Op::Arm { at, .. } => {
                let is_first = armed.iter().all(|&(other, _)| at < other);
                // SAFETY: the entries stay where they are; those that are armed at the end are never looked
                // at again.
                assert_eq!(unsafe { timers.arm(&entries[next]) }, is_first, "the earliest");
                armed.push((at, next));
                next += 1;
            }
            Op::Disarm(_) if next == 0 => {}
            Op::Disarm(which) => {
                timers.disarm(&entries[which % next]);
                armed.retain(|&(_, number)| number != which % next);
            }
            Op::Fire(now) => {
                let mut woken = 0;
                let due = timers.fire(now, |_| woken += 1);
                let fired = fired.take();
                assert_eq!(due, fired.len());
                let times: Vec<u64> = fired.iter().map(|&number| naps[number].0).collect();
                assert!(times.is_sorted(), "fired out of order: {times:?}");
                let mut expected: Vec<usize> =
                    armed.iter().filter(|&&(at, _)| at <= now).map(|&(_, number)| number).collect();
                armed.retain(|&(at, _)| at > now);
                assert_eq!(woken, expected.iter().filter(|&&number| !naps[number].1.is_granted).count());
                expected.sort_unstable();
                let mut fired = fired;
                fired.sort_unstable();
                assert_eq!(fired, expected, "fired at {now}");
            }
        }
        assert_eq!(timers.next(), armed.iter().map(|&(at, _)| at).min().unwrap_or(NEVER));
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

/// The entry behind the removed one is linked to the one before.
#[test]
fn neighbours_in_the_heap_leave_one_after_the_other() {
    let arm = |at| Op::Arm { at, is_granted: false };
    compare(&[arm(1), arm(2), arm(3), arm(4), Op::Disarm(2), Op::Disarm(1), Op::Fire(9)]);
}
