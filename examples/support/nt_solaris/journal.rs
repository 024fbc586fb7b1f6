//! What is said while the program runs, and kept for its end: a table for each experiment.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use super::parts::ms;
use crate::support::command_line::Text;
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;

/// Takes down what each trial gave.
pub(crate) struct Journal<'a, 'b> {
    text: &'a mut Text<'b>,
    pub(crate) outcome: Outcome,
    /// Of the part that goes on.
    bar: Bar,
    title: String,
}

/// The figures of some trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trials(Vec<f64>);

impl Trials {
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// The standard deviation of all such trials, as these few show it; zero of a single one.
    pub(crate) fn deviation(&self) -> f64 {
        let (mean, count) = (self.mean(), self.0.len());
        let squares: f64 = self.0.iter().map(|figure| (figure - mean).powi(2)).sum();
        (squares / count.saturating_sub(1).max(1) as f64).sqrt()
    }
}

impl FromIterator<f64> for Trials {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Self {
        Self(figures.into_iter().collect())
    }
}

impl<'a, 'b> Journal<'a, 'b> {
    pub(crate) fn new(text: &'a mut Text<'b>, outcome: Outcome) -> Self {
        Self { text, outcome, bar: Bar::new("", 0), title: String::new() }
    }

    /// Begins a part of so many steps.
    pub(crate) fn begin(&mut self, part: &'static str, steps: u64) {
        self.bar = Bar::new(part, steps);
    }

    /// Begins a table of these columns. Its figures are called by its title and their row.
    pub(crate) fn table(&mut self, title: &str, columns: &[&str]) -> io::Result<()> {
        title.clone_into(&mut self.title);
        self.say(&format!("\n{title}"))?;
        self.row(columns, "")
    }

    /// A row of cells, and a remark behind them.
    pub(crate) fn row(&mut self, cells: &[impl Display], remark: &str) -> io::Result<()> {
        let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
        self.say(&format!("{cells}  {remark}"))
    }

    pub(crate) fn say(&mut self, line: &str) -> io::Result<()> {
        self.bar.aside(|| writeln!(self.text, "{}", line.trim_end()))
    }

    pub(crate) fn advance(&self, steps: u64) {
        self.bar.advance(steps);
    }

    /// The times of a row, in milliseconds: kept here, told by the caller.
    pub(crate) fn times(&mut self, row: &str, times: &[Duration]) -> Trials {
        let trials: Trials = times.iter().map(|&time| ms(time)).collect();
        self.figure(row, "ms", trials.mean());
        self.figure(&format!("{row}, deviation"), "ms", trials.deviation());
        trials
    }

    pub(crate) fn figure(&mut self, row: &str, unit: &str, value: f64) {
        self.outcome.figure(&format!("{}, {row}", self.title), unit, value);
    }

    pub(crate) fn check(&mut self, row: &str, claim: &str, held: bool) {
        self.outcome.check(format!("{}, {row}: {claim}", self.title), held);
    }
}
