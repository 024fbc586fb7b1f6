//! Takes all samples, one at a time: round by round, and in each round all contenders in turn, beginning
//! with another one each time.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::findings::{Cell, Contender, Findings};
use crate::options::Size;
use crate::plan::Experiment;
use crate::plot::style::label;
use crate::support::harness::sample::{Sample, Taker};
use crate::support::harness::{Question, Side};

/// Measures experiments of a plan.
pub(crate) struct Runner<'a> {
    pub(crate) taker: &'a Taker,
    pub(crate) size: Size,
    pub(crate) progress: Progress,
}

impl Runner<'_> {
    /// Measures all points of an experiment. `first` is the number of its first question among those of
    /// all experiments.
    pub(crate) fn measure(&mut self, experiment: &Experiment, first: usize) -> Findings {
        let mut findings = blank(experiment);
        for round in 0..experiment.rounds {
            let mut point = 0;
            for (place, question) in experiment.questions.iter().enumerate() {
                for number in turns(question.cases.len(), round) {
                    let case = &question.cases[number];
                    // A contender that has failed once is not asked again.
                    if findings.has_failed(point, case.name) || self.taker.is_stopped() {
                        self.progress.skip();
                        continue;
                    }
                    self.progress.begin(experiment, question, case.name, round);
                    let sample = Sample {
                        question: first + place,
                        case: number,
                        effort: question.effort().enough(self.size.enough()),
                        patience: experiment.patience.unwrap_or(self.size.patience()),
                    };
                    let start = Instant::now();
                    match self.taker.take(&sample) {
                        Ok(run) => findings.add(point, case.name, question.figures(&run), &run.seen),
                        // A process that was called off has not failed.
                        Err(_) if self.taker.is_stopped() => {}
                        Err(reason) => findings.fail(point, question.figures_each(), case.name, reason),
                    }
                    self.progress.end(start.elapsed());
                }
                point += question.figures_each();
            }
        }
        findings
    }
}

/// The order of so many in a round: none is always the first, or always comes after the same load.
fn turns(all: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..all).map(move |turn| (turn + round) % all)
}

/// An experiment without figures.
pub(crate) fn blank(experiment: &Experiment) -> Findings {
    let mut contenders: Vec<Contender> = Vec::new();
    for case in experiment.questions.iter().flat_map(|question| &question.cases) {
        if contenders.iter().all(|known| known.name != case.name) {
            contenders.push(Contender { name: case.name, ours: case.side == Side::Ours });
        }
    }
    let cells = |(question, number): (&Question, usize)| {
        let asked = |who: &Contender| question.cases.iter().any(|case| case.name == who.name);
        let cell = |who: &Contender| Cell { asked: asked(who), further: number > 0, ..Cell::default() };
        contenders.iter().map(cell).collect()
    };
    let cells = experiment.points().map(cells).collect();
    Findings { cells, contenders, rounds: experiment.rounds, ..Findings::default() }
}

/// What runs now, and how long it will be; for a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    all: usize,
    done: usize,
    /// Spent on samples so far.
    spent: Duration,
    measured: u32,
}

impl Progress {
    /// Of so many samples.
    pub(crate) fn new(all: usize) -> Self {
        let bar = ProgressBar::new(all as u64);
        let style =
            ProgressStyle::with_template("[{bar:30}] {pos}/{len}, {elapsed_precise} + {prefix}  {wide_msg}");
        bar.set_style(style.expect("a valid template").progress_chars("=> "));
        Self { bar, all, done: 0, spent: Duration::ZERO, measured: 0 }
    }

    fn begin(&self, experiment: &Experiment, question: &Question, contender: &str, round: usize) {
        let mean = self.spent / self.measured.max(1);
        let left = mean * (self.all - self.done) as u32;
        self.bar.set_prefix(format!("{}:{:02}", left.as_secs() / 60, left.as_secs() % 60));
        let (tag, name, who) = (experiment.paper.tag(), &question.name, label(contender));
        self.bar.set_message(format!("{tag} {name}: {who}, round {}", round + 1));
    }

    fn end(&mut self, took: Duration) {
        self.spent += took;
        self.measured += 1;
        self.skip();
    }

    fn skip(&mut self) {
        self.done += 1;
        self.bar.set_position(self.done as u64);
    }

    /// Takes it off the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
