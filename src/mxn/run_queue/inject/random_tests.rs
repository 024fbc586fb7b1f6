//! Two shared queues, and the queues by priority, compared with lists.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;

use proptest::prelude::*;

use super::{Inject, Linked, Links};
use crate::mxn::run_queue::by_priority::{ByPriority, TURNS};
use crate::park::priority::Priority;
use crate::park::tests::random;

struct Node {
    key: u64,
    level: Cell<Priority>,
    links: Links<Node>,
}

// SAFETY: a field of the node.
unsafe impl Linked for Node {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

const NODES: usize = 8;

fn nodes(keys: [u64; NODES]) -> Vec<Node> {
    keys.map(|key| Node { key, level: Cell::new(Priority::Normal), links: Links::new() }).into()
}

/// Returns the number of a node that was taken.
fn number(nodes: &[Node], taken: NonNull<Node>) -> usize {
    nodes.iter().position(|node| NonNull::from(node) == taken).expect("one of ours")
}

/// An operation on the queue of this number.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Inserts a node that is in no queue, if it `fits`.
    Push {
        queue: usize,
        node: usize,
        fits: bool,
    },
    Pop {
        queue: usize,
        more: usize,
    },
    Take(usize),
    TakeLeast {
        queue: usize,
        most: usize,
    },
    Remove {
        queue: usize,
        node: usize,
    },
}

fn compare(keys: [u64; NODES], ops: &[Op]) {
    let nodes = nodes(keys);
    let name = |taken: Option<NonNull<Node>>| taken.map(|taken| number(&nodes, taken));
    let queues = [Inject::new(), Inject::new()];
    let mut lists = [VecDeque::new(), VecDeque::new()];
    for &op in ops {
        match op {
            Op::Push { node, .. } if lists.iter().any(|list| list.contains(&node)) => {}
            Op::Push { queue, node, fits } => {
                assert_eq!(queues[queue].push_if(NonNull::from(&nodes[node]), || fits), fits);
                if fits {
                    lists[queue].push_back(node);
                }
            }
            Op::Pop { queue, more } => {
                let mut others = Vec::new();
                let first = name(queues[queue].pop(more, |other| others.push(number(&nodes, other))));
                assert_eq!(first, lists[queue].pop_front());
                let more = more.min(lists[queue].len());
                assert_eq!(others, lists[queue].drain(..more).collect::<Vec<_>>());
            }
            Op::Take(queue) => {
                let mut emptied = 0;
                let taken = name(queues[queue].take(|| emptied += 1));
                assert_eq!(taken, lists[queue].pop_front());
                assert_eq!(emptied == 1, taken.is_some() && lists[queue].is_empty());
            }
            Op::TakeLeast { queue, most } => {
                let mut left = u64::MAX;
                let key = |node| nodes[number(&nodes, node)].key;
                let taken = name(queues[queue].take_least(most, u64::MAX, key, |least| left = least));
                let list = &mut lists[queue];
                // Of equals, `min_by_key` takes the first.
                let least = (0..list.len().min(most.max(1))).min_by_key(|&at| keys[list[at]]);
                assert_eq!(taken, least.and_then(|least| list.remove(least)));
                let next = list.iter().take(most).map(|&node| keys[node]).min();
                assert_eq!(left, next.unwrap_or(u64::MAX), "the least key of the candidates left");
            }
            Op::Remove { queue, node } => {
                let mut emptied = 0;
                let removed = queues[queue].remove(NonNull::from(&nodes[node]), || emptied += 1);
                let before = lists[queue].len();
                lists[queue].retain(|&other| other != node);
                assert_eq!(removed, lists[queue].len() < before);
                assert_eq!(emptied == 1, removed && lists[queue].is_empty());
            }
        }
        for (queue, list) in queues.iter().zip(&lists) {
            assert_eq!(queue.len(), list.len());
        }
    }
}

#[test]
fn any_order_of_pushing_and_removing_gives_what_lists_would() {
    let (queue, node) = (0..2_usize, 0..NODES);
    let op = prop_oneof![
        6 => (queue.clone(), node.clone(), prop::bool::weighted(0.9))
            .prop_map(|(queue, node, fits)| Op::Push { queue, node, fits }),
        1 => (queue.clone(), 0..4_usize).prop_map(|(queue, more)| Op::Pop { queue, more }),
        1 => queue.clone().prop_map(Op::Take),
        1 => (queue.clone(), 1..5_usize).prop_map(|(queue, most)| Op::TakeLeast { queue, most }),
        2 => (queue, node).prop_map(|(queue, node)| Op::Remove { queue, node }),
    ];
    // Few keys, so that some are equal.
    let inputs = (prop::array::uniform(0..4_u64), prop::collection::vec(op, 0..80));
    random::check(500, &inputs, |(keys, ops)| compare(keys, &ops));
}

/// An operation on queues by priority.
#[derive(Clone, Copy, Debug)]
enum Leveled {
    Push {
        node: usize,
        level: Priority,
    },
    /// Takes this many nodes, and puts each back.
    Pop {
        least: Priority,
        times: u32,
    },
    Remove(usize),
    /// Gives a waiting node another priority, which moves it nowhere.
    Change {
        node: usize,
        level: Priority,
    },
}

/// Lists from the highest priority down, and how many were taken while lower ones waited.
#[derive(Default)]
struct Levels {
    lists: [VecDeque<usize>; 3],
    turns: u32,
}

fn index(level: Priority) -> usize {
    [Priority::High, Priority::Normal, Priority::Low].iter().position(|&one| one == level).unwrap()
}

impl Levels {
    fn pop(&mut self, least: Priority) -> Option<usize> {
        let waiting: Vec<usize> = (0..3).filter(|&level| !self.lists[level].is_empty()).collect();
        let (&highest, lower) = waiting.split_first()?;
        if highest > index(least) {
            return None;
        }
        let mut from = highest;
        if let (Some(&next), Some(&lowest)) = (lower.first(), lower.last()) {
            self.turns += 1;
            if self.turns.is_multiple_of(TURNS) {
                from = if self.turns.is_multiple_of(2 * TURNS) { lowest } else { next };
            }
        }
        self.lists[from].pop_front()
    }
}

fn compare_levels(ops: &[Leveled]) {
    let nodes = nodes([0; NODES]);
    let queues = ByPriority::new();
    let mut reference = Levels::default();
    let push = |reference: &mut Levels, node: usize| {
        queues.push(NonNull::from(&nodes[node]), || nodes[node].level.get());
        reference.lists[index(nodes[node].level.get())].push_back(node);
    };
    for &op in ops {
        match op {
            Leveled::Push { node, .. } if reference.lists.iter().any(|list| list.contains(&node)) => {}
            Leveled::Push { node, level } => {
                nodes[node].level.set(level);
                push(&mut reference, node);
            }
            Leveled::Pop { least, times } => {
                for time in 0..times {
                    let taken = queues.pop(least).map(|taken| number(&nodes, taken));
                    assert_eq!(taken, reference.pop(least), "time {time}");
                    if let Some(node) = taken {
                        push(&mut reference, node);
                    }
                }
                assert_eq!(queues.pop(least).map(|taken| number(&nodes, taken)), reference.pop(least));
            }
            Leveled::Remove(node) => {
                let before = reference.lists.iter().map(VecDeque::len).sum::<usize>();
                reference.lists.iter_mut().for_each(|list| list.retain(|&other| other != node));
                let after = reference.lists.iter().map(VecDeque::len).sum::<usize>();
                assert_eq!(queues.remove(NonNull::from(&nodes[node])), after < before);
            }
            Leveled::Change { node, level } => nodes[node].level.set(level),
        }
        assert_eq!(queues.len(), reference.lists.iter().map(VecDeque::len).sum::<usize>());
        assert_eq!(queues.has_high(), !reference.lists[0].is_empty());
    }
}

#[test]
fn any_order_of_priorities_gives_what_lists_would() {
    let level = || prop::sample::select(vec![Priority::High, Priority::Normal, Priority::Low]);
    let op = prop_oneof![
        4 => (0..NODES, level()).prop_map(|(node, level)| Leveled::Push { node, level }),
        3 => (level(), 0..3 * TURNS).prop_map(|(least, times)| Leveled::Pop { least, times }),
        1 => (0..NODES).prop_map(Leveled::Remove),
        1 => (0..NODES, level()).prop_map(|(node, level)| Leveled::Change { node, level }),
    ];
    random::check(300, &prop::collection::vec(op, 0..40), |ops| compare_levels(&ops));
}
