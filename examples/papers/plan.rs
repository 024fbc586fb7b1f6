//! What is measured, by paper.

mod barriers;
mod beyond;
mod creation;
mod java;
mod pingpong;

use crate::exhibit::{Exhibit, Paper};
use crate::options::Size;
use crate::support::affinity;
use crate::support::harness::Question;

/// Measurements that are taken together, and the tables and figures that show them.
pub(crate) struct Experiment {
    pub(crate) paper: Paper,
    pub(crate) name: &'static str,
    /// A point each.
    pub(crate) questions: Vec<Question>,
    pub(crate) rounds: usize,
    pub(crate) exhibits: Vec<Exhibit>,
}

/// All experiments, in the papers' order. The same for the same size, since samples are asked for by number.
pub(crate) fn all(size: Size) -> Vec<Experiment> {
    let papers =
        [pingpong::all(size), barriers::all(size), creation::all(size), java::all(size), beyond::all(size)];
    papers.into_iter().flatten().collect()
}

/// The CPUs there are, as thread counts go.
fn cpus() -> u32 {
    affinity::allowed().len() as u32
}

/// Keeps the process on one CPU.
fn on_one_cpu() {
    affinity::pin(affinity::allowed()[0]);
}
