//! Branch and bound by many threads, over a work pile.
//!
//! The pile holds all ways of a few cities, as far as they may lead to a better tour than the first. They are
//! *branches* of the tree, all equally deep. A thread takes one, searches what is below it, and comes back
//! until there are none. Pile and best tour have a lock each. The best length is also there to be read
//! without.
//!
//! **One answer.** Tours of equal length could be found in any order. So a tour's *rank* is its length, then
//! the number of its branch (0: the tour that was there before). A branch is searched for tours of a better
//! rank than the best so far. In the end the best of all ranks has been found, by whichever thread, and
//! within a branch the first in order. How many nodes that takes depends on when which bound is found. If the
//! first tour is already the best, and only that is to be proven, it is always the same number.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::tour::{Node, Tree, greedy};
use super::tsplib::Instance;
use crate::support::crew::work_together;
use crate::support::library::{Attributes, Library, Lock};

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// Cities of the branches in the pile, after the first; all, if there are fewer.
    pub(crate) depth: u32,
    pub(crate) first: First,
    pub(crate) attributes: Attributes,
}

/// What tours are compared with first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// A good tour.
    Greedy,
    /// The cities in the file's order.
    Given,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) length: u32,
    /// From city 0; one of the best.
    pub(crate) tour: Vec<u8>,
    /// Of the tour that was compared with first.
    pub(crate) first: u32,
    /// Ways that were looked at.
    pub(crate) nodes: u64,
    /// In the pile, and how many of them were searched.
    pub(crate) branches: u32,
    pub(crate) searched: u32,
    pub(crate) elapsed: Duration,
}

/// Searches on the threads of the calling thread's runtime.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn search<L: Library>(instance: &Arc<Instance>, plan: Plan) -> io::Result<Found> {
    let tour = match plan.first {
        First::Greedy => greedy(instance),
        First::Given => (0..instance.cities() as u8).collect(),
    };
    let first = instance.length(&tour);
    let best = Best::<L>::new(Rank::new(first, 0), tour);
    let depth = plan.depth.min(instance.cities() as u32 - 1);
    let (pile, nodes) = branches(&Tree::over(instance), depth, Rank::new(first, 0));
    let branches = pile.len() as u32;
    let shared = Arc::new(Shared::<L> {
        instance: Arc::clone(instance),
        pile: L::Mutex::new(pile.into_iter()),
        best,
        total: L::Mutex::new(Total { nodes, branches: 0 }),
    });
    let worker = {
        let shared = Arc::clone(&shared);
        move |_| shared.work()
    };
    let elapsed = work_together::<L>(plan.threads, plan.attributes, worker, || ())?;
    let total = shared.total.lock();
    let tour = shared.best.tour.lock().clone();
    let (nodes, searched) = (total.nodes, total.branches);
    Ok(Found { length: shared.best.rank().length(), tour, first, nodes, branches, searched, elapsed })
}

/// The order of tours: of two, the lower is kept.
///
/// | bits | meaning |
/// |---|---|
/// | 32 to 63 | its length |
/// | 0 to 31 | the branch that it was found in, from one; 0: it was there before |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u64);

impl Rank {
    fn new(length: u32, branch: u32) -> Self {
        Self(u64::from(length) << 32 | u64::from(branch))
    }

    fn length(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A part of the tree.
struct Branch {
    number: u32,
    way: Vec<u8>,
    end: Node,
}

/// The pile, and how many nodes it took to make it.
fn branches(tree: &Tree<'_>, depth: u32, first: Rank) -> (Vec<Branch>, u64) {
    let root = tree.root();
    let mut level = vec![Branch { number: 1, way: vec![root.city], end: root }];
    let mut nodes = 1;
    for _ in 0..depth {
        let mut deeper = Vec::new();
        for branch in level {
            for (node, least) in tree.below(branch.end) {
                if Rank::new(least, 0) < first {
                    let way = branch.way.iter().copied().chain([node.city]).collect();
                    deeper.push(Branch { number: deeper.len() as u32 + 1, way, end: node });
                    nodes += 1;
                }
            }
        }
        level = deeper;
    }
    (level, nodes)
}

/// What all searching threads use.
struct Shared<L: Library> {
    instance: Arc<Instance>,
    pile: L::Mutex<std::vec::IntoIter<Branch>>,
    best: Best<L>,
    total: L::Mutex<Total>,
}

struct Total {
    nodes: u64,
    branches: u32,
}

impl<L: Library> Shared<L> {
    /// One thread's life.
    fn work(&self) {
        let tree = Tree::over(&self.instance);
        let mut mine = Total { nodes: 0, branches: 0 };
        loop {
            // Not in the head of a `while let`, which would keep the lock.
            let branch = self.pile.lock().next();
            let Some(branch) = branch else { break };
            let mut searcher =
                Searcher { tree: &tree, best: &self.best, branch: branch.number, way: branch.way, nodes: 0 };
            searcher.search_below(branch.end);
            mine.nodes += searcher.nodes;
            mine.branches += 1;
        }
        let mut total = self.total.lock();
        total.nodes += mine.nodes;
        total.branches += mine.branches;
    }
}

/// The best tour so far.
struct Best<L: Library> {
    /// Of `tour`; changed with its lock held.
    rank: AtomicU64,
    tour: L::Mutex<Vec<u8>>,
}

impl<L: Library> Best<L> {
    fn new(rank: Rank, tour: Vec<u8>) -> Self {
        Self { rank: AtomicU64::new(rank.0), tour: L::Mutex::new(tour) }
    }

    /// What a tour must do better than. It may be out of date: then more is searched than need be.
    #[inline]
    fn rank(&self) -> Rank {
        // Relaxed: the number is all that is read of it.
        Rank(self.rank.load(Ordering::Relaxed))
    }

    fn offer(&self, rank: Rank, tour: &[u8]) {
        let mut best = self.tour.lock();
        if rank < self.rank() {
            // Relaxed: a thread that needs the tour, too, takes the lock.
            self.rank.store(rank.0, Ordering::Relaxed);
            best.clear();
            best.extend_from_slice(tour);
        }
    }
}

/// Depth first, through one branch.
struct Searcher<'a, L: Library> {
    tree: &'a Tree<'a>,
    best: &'a Best<L>,
    branch: u32,
    /// To the node that is looked at.
    way: Vec<u8>,
    nodes: u64,
}

impl<L: Library> Searcher<'_, L> {
    fn search_below(&mut self, node: Node) {
        if node.is_complete() {
            let rank = Rank::new(self.tree.close(node), self.branch);
            if rank < self.best.rank() {
                self.best.offer(rank, &self.way);
            }
            return;
        }
        let tree = self.tree;
        for (next, least) in tree.below(node) {
            if Rank::new(least, self.branch) < self.best.rank() {
                self.nodes += 1;
                self.way.push(next.city);
                self.search_below(next);
                self.way.pop();
            }
        }
    }
}
