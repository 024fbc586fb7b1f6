//! The search tree of tours, and a first tour to compare with.
//!
//! A node is a way from city 0 through some others. **Bound.** What is missing to a tour enters each
//! remaining city by one edge and leaves it by another. It has one end at either end of the way. So twice the
//! rest is at least the two shortest edges of each remaining city, and the shortest one of the two ends. That
//! sum changes by a subtraction from node to node.
//!
//! **Rejected.** *The shortest spanning tree* of what is left: on gr17 a fiftieth of the nodes, in a sixth of
//! the time. Nothing would be left for threads to do. With potentials (Held and Karp) there would be some
//! tens of nodes.

use super::tsplib::Instance;

/// The tree over an instance.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    instance: &'a Instance,
    /// Of each city, the others but 0, nearest first.
    nearest: Vec<Vec<u8>>,
    /// The shortest edge of each city, and the sum of the shortest two.
    one: Vec<u32>,
    two: Vec<u32>,
}

/// A way from city 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) city: u8,
    /// A bit for each city that is not on the way.
    left: u64,
    length: u32,
    /// Twice the rest is no less, but for the end of the way.
    twice_rest: u32,
}

impl Node {
    /// Returns `true` if all cities are on it.
    pub(crate) fn is_complete(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Tree<'a> {
    pub(crate) fn over(instance: &'a Instance) -> Self {
        let cities = instance.cities();
        let (mut nearest, mut one, mut two) = (Vec::new(), Vec::new(), Vec::new());
        for city in 0..cities {
            let mut others: Vec<u8> = (0..cities as u8).filter(|&other| usize::from(other) != city).collect();
            others.sort_by_key(|&other| instance.distance(city, other.into()));
            let shortest = [0, 1].map(|at| instance.distance(city, others[at].into()));
            one.push(shortest[0]);
            two.push(shortest[0] + shortest[1]);
            others.retain(|&other| other != 0);
            nearest.push(others);
        }
        Self { instance, nearest, one, two }
    }

    /// The way that has not begun.
    pub(crate) fn root(&self) -> Node {
        let left = (1..self.instance.cities()).fold(0, |set, city| set | 1 << city);
        Node { city: 0, left, length: 0, twice_rest: self.one[0] + self.two[1..].iter().sum::<u32>() }
    }

    /// The ways that are longer by one city, nearest first; each with the least that a tour along it can
    /// have.
    #[inline]
    pub(crate) fn below(&self, node: Node) -> impl Iterator<Item = (Node, u32)> {
        let from = usize::from(node.city);
        let left = self.nearest[from].iter().filter(move |&&city| node.left >> city & 1 == 1);
        left.map(move |&city| {
            let to = usize::from(city);
            let next = Node {
                city,
                left: node.left & !(1 << city),
                length: node.length + self.instance.distance(from, to),
                twice_rest: node.twice_rest - self.two[to],
            };
            (next, next.length + (next.twice_rest + self.one[to]).div_ceil(2))
        })
    }

    /// The length of the tour that a complete way makes.
    pub(crate) fn close(&self, node: Node) -> u32 {
        node.length + self.instance.distance(node.city.into(), 0)
    }
}

/// A good tour, from city 0. One begins at each city, and goes to the nearest that is left. Then parts of it
/// are reversed as long as that makes it shorter. The shortest of these is taken.
pub(crate) fn greedy(instance: &Instance) -> Vec<u8> {
    let tours = (0..instance.cities() as u8).map(|city| {
        let mut tour = nearest_first(instance, city);
        while reverse_a_part(instance, &mut tour) {}
        tour
    });
    let mut tour = tours.min_by_key(|tour| instance.length(tour)).expect("there are cities");
    let start = tour.iter().position(|&city| city == 0).expect("a tour has all cities");
    tour.rotate_left(start);
    tour
}

fn nearest_first(instance: &Instance, start: u8) -> Vec<u8> {
    let mut left: Vec<u8> = (0..instance.cities() as u8).filter(|&city| city != start).collect();
    let mut tour = vec![start];
    let mut here = start;
    while let Some((at, &city)) =
        left.iter().enumerate().min_by_key(|&(_, &city)| instance.distance(here.into(), city.into()))
    {
        tour.push(city);
        left.remove(at);
        here = city;
    }
    tour
}

/// Makes a tour shorter by reversing a part of it, if one does.
fn reverse_a_part(instance: &Instance, tour: &mut [u8]) -> bool {
    let distance = |from: u8, to: u8| instance.distance(from.into(), to.into());
    for first in 1..tour.len() {
        for last in first + 1..tour.len() {
            let (before, after) = (tour[first - 1], tour[(last + 1) % tour.len()]);
            let old = distance(before, tour[first]) + distance(tour[last], after);
            let new = distance(before, tour[last]) + distance(tour[first], after);
            if new < old {
                tour[first..=last].reverse();
                return true;
            }
        }
    }
    false
}
