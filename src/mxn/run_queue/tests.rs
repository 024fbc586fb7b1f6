//! Two rings, each of which steals from the other, compared with two lists.

use std::collections::VecDeque;
use std::ptr::NonNull;

use proptest::prelude::*;

use super::{CAPACITY, LocalQueue};
use crate::park::tests::random;
use crate::shim::atomic::AtomicU32;

/// An operation on the ring of this number, by its owner, or by a thief if the name says so.
#[derive(Clone, Copy, Debug)]
enum Op {
    Push(usize, u32),
    Pop(usize),
    Claim(usize),
    /// Moves half of this ring to the other, if that is empty.
    StealFrom(usize),
    Look(usize),
}

fn ring(start: u32) -> LocalQueue<usize> {
    LocalQueue { head: AtomicU32::new(start), tail: AtomicU32::new(start), ..LocalQueue::new() }
}

/// Applies `ops` to lists, and to rings with counters that begin at `start`.
fn compare(start: u32, ops: &[Op]) {
    let rings = [ring(start), ring(start.wrapping_add(7))];
    let mut lists = [VecDeque::<usize>::new(), VecDeque::new()];
    // The rings hold addresses that are never followed.
    let address = |number: usize| NonNull::new(std::ptr::without_provenance_mut::<usize>(number)).unwrap();
    let number = |taken: Option<NonNull<usize>>| taken.map(|taken| taken.addr().get());
    let mut pushed = 0;
    // What was seen of a ring, and its last thread at that time.
    let mut seen = [None, None];
    for &op in ops {
        match op {
            Op::Push(r, count) => {
                for _ in 0..count {
                    pushed += 1;
                    let fits = lists[r].len() < CAPACITY as usize;
                    assert_eq!(rings[r].push(address(pushed)).is_ok(), fits);
                    if fits {
                        lists[r].push_back(pushed);
                    }
                }
            }
            Op::Pop(r) => assert_eq!(number(rings[r].pop()), lists[r].pop_front()),
            Op::Claim(r) => assert_eq!(number(rings[r].claim()), lists[r].pop_front()),
            Op::StealFrom(r) if lists[1 - r].is_empty() => {
                let half = lists[r].len().div_ceil(2);
                let first = lists[r].pop_front();
                let stolen: Vec<usize> = lists[r].drain(..half.saturating_sub(1)).collect();
                lists[1 - r].extend(stolen);
                assert_eq!(number(rings[r].steal_into(&rings[1 - r])), first);
            }
            Op::StealFrom(_) => {}
            Op::Look(r) => seen[r] = Some((rings[r].look(), lists[r].back().copied())),
        }
        for ((ring, list), seen) in rings.iter().zip(&lists).zip(seen) {
            assert_eq!((ring.len(), ring.is_empty()), (list.len(), list.is_empty()));
            assert_eq!(number(ring.first()), list.front().copied());
            if let Some(last) = list.back() {
                assert!(ring.contains(address(*last)));
            }
            assert!(!ring.contains(address(pushed + 1)));
            if let Some((seen, last)) = seen {
                let waits = last.is_some_and(|last| list.contains(&last));
                assert_eq!(ring.still_waits(seen), waits, "of what was seen");
            }
        }
    }
}

#[test]
fn any_order_of_pushing_and_stealing_gives_what_lists_would() {
    let op = prop_oneof![
        4 => (0..2_usize, 1..4_u32).prop_map(|(r, count)| Op::Push(r, count)),
        1 => (0..2_usize, 0..CAPACITY + 2).prop_map(|(r, count)| Op::Push(r, count)),
        3 => (0..2_usize).prop_map(Op::Pop),
        2 => (0..2_usize).prop_map(Op::Claim),
        2 => (0..2_usize).prop_map(Op::StealFrom),
        1 => (0..2_usize).prop_map(Op::Look),
    ];
    let start = prop_oneof![Just(0), Just(u32::MAX - CAPACITY), any::<u32>()];
    let inputs = (start, prop::collection::vec(op, 0..60));
    random::check(300, &inputs, |(start, ops)| compare(start, &ops));
}
