//! What is measured, by paper.

mod barriers;
mod beyond;
mod creation;
pub(crate) mod finished;
mod java;
mod nt;
mod pingpong;
mod recorded;
mod screens;
mod storms;

use std::time::Duration;

use crate::exhibit::{Exhibit, Paper};
use crate::options::Size;
use crate::support::affinity;
use crate::support::harness::Question;

/// Measurements that are taken together, and the tables and figures that show them.
pub(crate) struct Experiment {
    pub(crate) paper: Paper,
    pub(crate) name: &'static str,
    /// One point for each of their figures.
    pub(crate) questions: Vec<Question>,
    pub(crate) rounds: usize,
    /// After which a sample is given up, where that is not as long as usual.
    pub(crate) patience: Option<Duration>,
    pub(crate) exhibits: Vec<Exhibit>,
}

impl Experiment {
    fn new(
        paper: Paper,
        name: &'static str,
        size: Size,
        questions: Vec<Question>,
        exhibits: Vec<Exhibit>,
    ) -> Self {
        Self { paper, name, questions, rounds: size.rounds(), patience: None, exhibits }
    }

    /// Returns the question of each point, and the number of the figure among those of the question.
    pub(crate) fn points(&self) -> impl Iterator<Item = (&Question, usize)> {
        let of = |question: &'_ Question| 0..question.figures_each();
        self.questions.iter().flat_map(move |question| of(question).map(move |number| (question, number)))
    }

    /// The same, in so many rounds.
    fn rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    /// The same, in enough rounds for a verdict, also if the run is quick: the front page has one of its
    /// claims.
    fn for_the_front(self, size: Size) -> Self {
        self.rounds(size.pick(1, 3, 5))
    }

    /// The same, with samples that are given up after so long.
    fn patience(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }
}

/// All experiments, in the papers' order. The same for the same size, since samples are asked for by number.
pub(crate) fn all(size: Size) -> Vec<Experiment> {
    let papers = [
        pingpong::all(size),
        finished::all(size),
        barriers::all(size),
        screens::all(size),
        creation::all(size),
        nt::all(size),
        java::all(size),
        beyond::all(size),
        storms::all(size),
    ];
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
