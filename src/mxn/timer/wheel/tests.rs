//! The wheel, compared with a sorted map; the edges of its levels; what a call may do at most.

use std::collections::BTreeMap;
use std::ptr::NonNull;

use proptest::prelude::*;

use super::{AT_ONCE, BUCKETS, DIGIT, LEVELS, NEVER, Node, Wheel};
use crate::park::tests::random;

/// A wheel with all its nodes, by number.
struct Nodes {
    wheel: Wheel<usize>,
    nodes: Vec<Node<usize>>,
}

impl Nodes {
    fn new(deadlines: impl IntoIterator<Item = u64>) -> Self {
        let nodes = deadlines.into_iter().enumerate().map(|(number, at)| Node::new(at, number)).collect();
        Self { wheel: Wheel::new(), nodes }
    }

    /// All inserted, in order, while it is `now`.
    fn inserted(deadlines: impl IntoIterator<Item = u64>, now: u64) -> Self {
        let mut all = Self::new(deadlines);
        (0..all.nodes.len()).for_each(|number| all.insert(number, now));
        all
    }

    /// Inserts a node while it is `now`.
    fn insert(&mut self, number: usize, now: u64) {
        if self.wheel.next() == NEVER {
            // An empty wheel learns the time when it is looked at.
            assert_eq!(self.wheel.expire(now, 1, 1, |_| None), 0);
        }
        // SAFETY: the nodes stay where they are, and each is inserted once.
        unsafe { self.wheel.insert(NonNull::from(&self.nodes[number])) };
    }

    fn remove(&mut self, number: usize) {
        // SAFETY: there is no other wheel.
        unsafe { self.wheel.remove(NonNull::from(&self.nodes[number])) };
    }

    /// Returns the numbers of what is handed out by one call.
    fn expire(&mut self, now: u64, steps: usize) -> Vec<usize> {
        self.expire_most(now, steps, usize::MAX)
    }

    fn expire_most(&mut self, now: u64, steps: usize, most: usize) -> Vec<usize> {
        let mut numbers = Vec::new();
        let count = self.wheel.expire(now, steps, most, |&number| {
            numbers.push(number);
            None
        });
        assert_eq!(count, numbers.len());
        numbers
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Inserts a new node.
    Insert(Delay),
    /// Removes any node, even one that is not there any more.
    Remove(usize),
    /// Lets time pass, and takes so many steps, for so many nodes at most.
    Expire(Delay, usize, usize),
}

/// A distance from now.
#[derive(Clone, Copy, Debug)]
enum Delay {
    Past(u64),
    Ahead(u64),
}

impl Delay {
    fn from(self, now: u64) -> u64 {
        match self {
            Self::Past(by) => now.saturating_sub(by),
            Self::Ahead(by) => now.saturating_add(by).min(NEVER - 1),
        }
    }
}

/// Any distance; those near the edges of levels are as probable as the others.
fn delay() -> impl Strategy<Value = Delay> {
    let width = |level: u32| 1_u64 << (DIGIT * level);
    let near = (0..LEVELS as u32, 1..4_u64, 0..3_u64)
        .prop_map(move |(level, times, less)| (times * width(level)).saturating_sub(less));
    prop_oneof![
        1 => (0..70_u64).prop_map(Delay::Past),
        6 => near.prop_map(Delay::Ahead),
        2 => any::<u64>().prop_map(|by| Delay::Ahead(by >> (by % 64))),
    ]
}

/// Applies `ops` to a wheel and to a map, and compares after each.
fn compare(ops: &[Op]) {
    let mut now = 0;
    let mut times = Vec::new();
    for op in ops {
        match op {
            Op::Insert(delay) => times.push(delay.from(now)),
            // Time only goes on.
            Op::Expire(delay, ..) => now = delay.from(now).max(now),
            Op::Remove(_) => {}
        }
    }
    let mut all = Nodes::new(times.iter().copied());
    let mut reference: BTreeMap<(u64, usize), ()> = BTreeMap::new();
    let (mut inserted, mut now, mut removed_any) = (0, 0, false);
    for op in ops {
        match *op {
            Op::Insert(_) => {
                all.insert(inserted, now);
                reference.insert((times[inserted], inserted), ());
                inserted += 1;
            }
            Op::Remove(_) if inserted == 0 => {}
            Op::Remove(which) => {
                let which = which % inserted;
                all.remove(which);
                removed_any |= reference.remove(&(times[which], which)).is_some();
            }
            Op::Expire(delay, steps, most) => {
                now = delay.from(now).max(now);
                let handed_out = all.expire_most(now, steps, most);
                assert!(handed_out.len() <= steps.min(most));
                for number in handed_out {
                    assert!(times[number] <= now, "{} at {now}", times[number]);
                    assert!(reference.remove(&(times[number], number)).is_some(), "it was not there");
                }
            }
        }
        let earliest = reference.first_key_value().map_or(NEVER, |(&(at, _), ())| at);
        let next = all.wheel.next();
        assert!(next <= earliest.max(now), "{next} is later than {earliest}");
        assert_eq!(next == NEVER, reference.is_empty());
        if !removed_any && next > now {
            assert_eq!(next, earliest);
        }
    }
    // At the end of time, all are handed out, and each has moved from level to level at most.
    let mut steps = 0;
    while all.wheel.next() != NEVER {
        for number in all.expire(NEVER - 1, 1) {
            assert!(reference.remove(&(times[number], number)).is_some());
        }
        steps += 1;
        assert!(steps <= times.len() * (LEVELS + 1), "it does not come to an end");
    }
    assert!(reference.is_empty());
}

#[test]
fn any_order_of_calls_hands_out_what_a_sorted_map_would() {
    let op = prop_oneof![
        4 => delay().prop_map(Op::Insert),
        2 => any::<usize>().prop_map(Op::Remove),
        2 => (delay(), 0..6_usize, 0..6_usize).prop_map(|(delay, steps, most)| Op::Expire(delay, steps, most)),
        1 => delay().prop_map(|delay| Op::Expire(delay, usize::MAX, usize::MAX)),
    ];
    random::check(500, &prop::collection::vec(op, 0..120), |ops| compare(&ops));
}

/// Deadlines at the edges of all levels, seen from times at the edges of all levels.
#[test]
fn each_node_is_due_at_its_own_deadline() {
    let edges: Vec<u64> = (0..LEVELS as u32)
        .flat_map(|level| {
            let width = 1_u64 << (DIGIT * level);
            [width - 1, width, width + 1, (width * 15).saturating_add(width / 3)]
        })
        .chain([NEVER - 1, NEVER - 2, 1 << 63, (1 << 63) - 1])
        .collect();
    for &now in &edges {
        let times = edges.iter().map(|edge| now.saturating_add(*edge).min(NEVER - 1));
        let mut all = Nodes::inserted(times, now);
        let mut left: Vec<u64> = all.nodes.iter().map(|node| node.at.get()).collect();
        left.sort_unstable();
        left.dedup();
        for at in left {
            assert_eq!(all.wheel.next(), at, "from {now}");
            if at > now {
                assert_eq!(all.expire(at - 1, usize::MAX), [] as [usize; 0]);
            }
            assert_eq!(all.wheel.next(), at, "from {now}");
            let due = all.expire(at, usize::MAX);
            assert!(!due.is_empty() && due.iter().all(|&number| all.nodes[number].at.get() == at));
        }
        assert_eq!(all.wheel.next(), NEVER);
    }
}

#[test]
fn a_deadline_in_the_past_is_due_at_once() {
    let mut all = Nodes::new([5, 1_000_000, 999_999, 0]);
    all.insert(1, 999_990);
    assert_eq!(all.expire(999_995, 8), [] as [usize; 0]);
    for late in [0, 3] {
        all.insert(late, 999_995);
    }
    all.insert(2, 999_995);
    assert_eq!(all.wheel.next(), 0);
    assert_eq!(all.expire(999_995, 8), [3, 0], "the earlier of two goes first");
    assert_eq!(all.wheel.next(), 999_999);
    assert_eq!(all.expire(1_000_000, 8), [2, 1]);
}

/// None is moved, so each costs one step, and the bucket one.
#[test]
fn equal_deadlines_are_handed_out_from_where_they_are() {
    const MANY: usize = 100_000;
    const AT: u64 = 3_000_000_000;
    let mut all = Nodes::inserted(std::iter::repeat_n(AT, MANY), 17);
    assert_eq!(all.wheel.next(), AT);
    let mut order = Vec::new();
    for _ in 0..(MANY + 1).div_ceil(128) {
        let batch = all.expire(AT, 128);
        assert!((127..=128).contains(&batch.len()) || order.len() + batch.len() == MANY);
        order.extend(batch);
    }
    assert!(order.iter().copied().eq(0..MANY), "in the order of insertion");
    assert_eq!(all.wheel.next(), NEVER);
}

/// Many deadlines of one bucket fall while others come due.
#[test]
fn what_comes_due_while_others_fall_goes_first() {
    const MANY: u64 = 10_000;
    const AT: u64 = 1 << 30;
    // The earliest is the last in the bucket.
    let mut all = Nodes::inserted((0..MANY).rev().map(|n| AT + 1000 * n).chain([AT + 7]), 0);
    let late = all.nodes.len() - 1;
    all.remove(late);
    assert_eq!(all.wheel.next(), AT);
    assert_eq!(all.expire(AT, 128), [late - 1], "the one for which the bucket is opened");
    assert_eq!(all.wheel.next(), AT_ONCE, "nodes fall");
    all.insert(late, AT);
    assert_eq!(all.expire(AT + 7, 2), [late]);
    let mut steps = 128 + 2;
    while all.wheel.next() <= AT + 7 {
        assert_eq!(all.expire(AT + 7, 1), [] as [usize; 0]);
        steps += 1;
    }
    assert_eq!(steps, MANY as usize + 2, "the bucket is opened, each node falls once, and one is handed out");
    assert_eq!(all.wheel.next(), AT + 1000);
}

/// A flood of deadlines does not keep a node from falling, and nor does a caller that has no room.
#[test]
fn nodes_fall_in_turn_with_what_is_handed_out() {
    const AT: u64 = 1 << 30;
    // The last two fall behind the first.
    let mut all = Nodes::new([AT, AT + 30_000, AT + 20_000].into_iter().chain([AT + 10; 64]));
    (0..3).for_each(|number| all.insert(number, 0));
    assert_eq!(all.expire(AT, 2), [0]);
    (3..67).for_each(|number| all.insert(number, AT));
    let handed_out = all.expire(AT + 20_000, 16);
    assert!(handed_out.contains(&2) && !handed_out.contains(&1) && handed_out.len() < 16, "{handed_out:?}");
    assert!((AT_ONCE + 1..=AT + 10).contains(&all.wheel.next()), "none falls any more");
    // Where there is no room, what is due goes back into the wheel.
    let mut all = Nodes::inserted([AT, AT + 2, AT + 1], 0);
    assert_eq!(all.expire(AT, 2), [0]);
    assert_eq!(all.expire_most(AT + 9, 8, 0), [] as [usize; 0]);
    assert!((AT_ONCE + 1..=AT + 9).contains(&all.wheel.next()), "none falls any more");
    assert_eq!(all.expire(AT + 9, 8), [2, 1]);
}

/// Nodes that fall have the places of a bucket in which others may lie by then.
#[test]
fn nodes_that_fall_can_be_removed() {
    let at = |n: u64| 64 * 64 + n;
    for removed in [vec![2], vec![3], vec![5], vec![2, 3, 4, 5], vec![5, 4, 3, 2], vec![3, 2]] {
        let mut all = Nodes::inserted((0..6).map(|n| at(64 * n)), 0);
        // One step opens the bucket, one hands out the first, one moves the second.
        assert_eq!(all.expire(at(0), 3), [0]);
        for &number in &removed {
            all.remove(number);
            all.remove(number);
        }
        let mut due = all.expire(at(64 * 6), usize::MAX);
        due.sort_unstable();
        let expected: Vec<_> = (1..6).filter(|number| !removed.contains(number)).collect();
        assert_eq!(due, expected);
        assert_eq!(all.wheel.next(), NEVER);
    }
}

/// The same place is used again while nodes that had it fall.
#[test]
fn a_place_may_be_filled_again_while_its_nodes_fall() {
    let round = BUCKETS as u64 * BUCKETS as u64;
    // All in the second bucket of level 1; the later ones a round later.
    let times = [64, 64 + 9, 64 + 10, round + 64, round + 65];
    let mut all = Nodes::new(times);
    (0..3).for_each(|number| all.insert(number, 0));
    assert_eq!(all.expire(64, 2), [0]);
    // Time goes on, a step at a time, while two still fall.
    all.insert(3, 64);
    assert_eq!(all.expire(round + 1, 1), [1]);
    all.insert(4, round + 1);
    all.remove(2);
    assert_eq!(all.expire(round + 64, usize::MAX), [3]);
    assert_eq!(all.wheel.next(), round + 65);
    all.remove(4);
    assert_eq!(all.wheel.next(), NEVER);
}

/// The wheel is asked to be looked at too early at worst, and knows better then.
#[test]
fn a_removed_deadline_is_forgotten_at_the_next_look() {
    let mut all = Nodes::inserted([1 << 20, (1 << 20) + 100_000], 0);
    all.remove(0);
    assert_eq!(all.wheel.next(), 1 << 20, "that of the bucket");
    assert_eq!(all.expire(1 << 20, 8), [] as [usize; 0]);
    assert_eq!(all.wheel.next(), (1 << 20) + 100_000);
}

/// The wheel follows the time while it is empty, and while nothing is due: what is near has a bucket of its
/// own.
#[test]
fn what_is_near_is_handed_out_in_order() {
    const NOW: u64 = 1 << (7 * DIGIT);
    const LATER: u64 = NOW + 4096;
    let near = |now| (1..64).rev().map(move |n| now + n);
    let in_order: Vec<_> = (0..63).rev().collect();
    assert_eq!(Nodes::inserted(near(LATER), LATER).expire(LATER + 63, 63), in_order);
    let mut all = Nodes::new(near(LATER).chain([NOW + 5 * 4096]));
    all.insert(63, NOW);
    assert_eq!(all.expire(LATER, 1), [] as [usize; 0]);
    (0..63).for_each(|number| all.insert(number, LATER));
    assert_eq!(all.expire(LATER + 63, 63), in_order);
}
