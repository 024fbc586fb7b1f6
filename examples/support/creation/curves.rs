//! A table of times with two dimensions, and what is left when one of them is flattened.
//!
//! As in the paper: for each number of creators the least time of all numbers of children at a time, and
//! the other way round.

use std::time::Duration;

/// How long a number of creations took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) creators: u32,
    pub(crate) at_a_time: u32,
    pub(crate) elapsed: Duration,
}

/// The fastest of each number of creators, from few to many.
pub(crate) fn by_creators(cells: &[Cell]) -> Vec<Cell> {
    flatten(cells, |cell| cell.creators)
}

/// The fastest of each number of children at a time, from few to many.
pub(crate) fn by_at_a_time(cells: &[Cell]) -> Vec<Cell> {
    flatten(cells, |cell| cell.at_a_time)
}

fn flatten(cells: &[Cell], kept: fn(&Cell) -> u32) -> Vec<Cell> {
    let mut curve: Vec<Cell> = cells.to_vec();
    curve.sort_by_key(|cell| (kept(cell), cell.elapsed));
    curve.dedup_by_key(|cell| kept(cell));
    curve
}
