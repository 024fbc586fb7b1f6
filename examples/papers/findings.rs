//! What was measured, without regard to how: figures by point, contender and round.

use crate::strip::Strip;
use crate::support::harness::Failure;
pub(crate) use crate::support::harness::Summary;

/// The figures of one experiment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) contenders: Vec<Contender>,
    /// A cell for each point and each contender, in this order.
    pub(crate) cells: Vec<Vec<Cell>>,
    /// How many rounds there were to be.
    pub(crate) rounds: usize,
    /// What was seen of threads, where that is shown: in the first round.
    pub(crate) seen: Vec<Seen>,
    /// What a contender's first sample at a point said in words.
    pub(crate) said: Vec<Said>,
}

/// What a contender's sample said at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) point: usize,
    pub(crate) contender: &'static str,
    pub(crate) words: String,
}

/// What a contender's threads did at a point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) point: usize,
    pub(crate) contender: &'static str,
    pub(crate) strip: Strip,
}

/// The contenders that were measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) ours: bool,
}

/// One contender's figures at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    /// `true` if this contender takes part at this point.
    pub(crate) asked: bool,
    /// One from each round. Where a round has none, no later one has.
    pub(crate) samples: Vec<f64>,
    /// Why there are no more.
    pub(crate) failure: Option<Failure>,
    /// `true` if its figures come from the samples of another point.
    pub(crate) further: bool,
}

impl Findings {
    /// Adds the figures of one sample of a contender, at the points from this one on, and what was seen.
    pub(crate) fn add(
        &mut self,
        point: usize,
        contender: &'static str,
        figures: impl Iterator<Item = Option<f64>>,
        seen: &str,
    ) {
        for (point, figure) in (point..).zip(figures) {
            let cell = self.cell(point, contender);
            cell.asked &= figure.is_some();
            cell.samples.extend(figure);
        }
        let here = (point, contender);
        let known = self.seen.iter().any(|it| (it.point, it.contender) == here)
            || self.said.iter().any(|it| (it.point, it.contender) == here);
        match Strip::parse(seen) {
            _ if known || seen.is_empty() => {}
            Some(strip) => self.seen.push(Seen { point, contender, strip }),
            None => self.said.push(Said { point, contender, words: seen.trim_end().to_owned() }),
        }
    }

    /// Notes that a sample of a contender has failed, which would have had so many figures.
    pub(crate) fn fail(&mut self, point: usize, figures: usize, contender: &str, reason: Failure) {
        self.cell(point, contender).failure = Some(reason);
        (point + 1..point + figures).for_each(|further| self.cell(further, contender).samples.clear());
    }

    /// Returns `true` if a contender has failed at this point.
    pub(crate) fn has_failed(&self, point: usize, contender: &str) -> bool {
        self.failure(contender, &[point]).is_some()
    }

    /// Returns what was seen of each contender at the points from the first to the last.
    pub(crate) fn seen_at(&self, first: usize, last: usize) -> Vec<&Seen> {
        self.seen.iter().filter(|seen| (first..=last).contains(&seen.point)).collect()
    }

    fn cell(&mut self, point: usize, contender: &str) -> &mut Cell {
        let number = self.contenders.iter().position(|known| known.name == contender);
        &mut self.cells[point][number.expect("all contenders are in the list")]
    }

    /// The contender's figures of each round: the least over these points, of those that it got through.
    pub(crate) fn figures(&self, contender: &str, points: &[usize]) -> Vec<f64> {
        let cells: Vec<&Cell> =
            self.cells_of(contender, points).filter(|cell| cell.failure.is_none()).collect();
        let rounds = cells.iter().map(|cell| cell.samples.len()).min().unwrap_or(0);
        let least =
            |round| cells.iter().map(|cell: &&Cell| cell.samples[round]).fold(f64::INFINITY, f64::min);
        (0..rounds).map(least).collect()
    }

    /// Why the contender has no figure at some of these points.
    pub(crate) fn failure<'a>(&'a self, contender: &str, points: &'a [usize]) -> Option<&'a Failure> {
        self.cells_of(contender, points).find_map(|cell| cell.failure.as_ref())
    }

    /// Returns `true` if the contender takes part at any of these points.
    pub(crate) fn asked(&self, contender: &str, points: &[usize]) -> bool {
        self.cells_of(contender, points).next().is_some()
    }

    /// What went wrong with ours: wrong results, crashes, and contenders that have not ended a single
    /// sample in time.
    pub(crate) fn failures_of_ours(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for (name, cells) in self.ours() {
            if never(&cells) {
                failures.push(format!("{name}: no sample ended in time"));
                continue;
            }
            let reasons = cells.iter().filter_map(|cell| cell.failure.as_ref());
            let wrong = reasons.filter(|reason| **reason != Failure::Late);
            failures.extend(wrong.map(|reason| format!("{name}: {reason}")));
        }
        failures
    }

    /// Ours that have not ended some samples in time, but others.
    pub(crate) fn late_ones_of_ours(&self) -> Vec<String> {
        let mut late = Vec::new();
        for (name, cells) in self.ours().filter(|(_, cells)| !never(cells)) {
            let points = cells.iter().filter(|cell| cell.failure == Some(Failure::Late)).count();
            if points > 0 {
                late.push(format!("{name} at {points} of {} points", cells.len()));
            }
        }
        late
    }

    /// Each of ours, with the cells that it was asked for.
    fn ours(&self) -> impl Iterator<Item = (&'static str, Vec<&Cell>)> {
        self.contenders.iter().enumerate().filter(|(_, who)| who.ours).map(|(number, who)| {
            let asked = |cell: &&Cell| cell.asked && !cell.further;
            (who.name, self.cells.iter().map(|point| &point[number]).filter(asked).collect())
        })
    }

    /// How many samples there are.
    pub(crate) fn taken(&self) -> usize {
        let cells = self.cells.iter().flatten().filter(|cell| !cell.further);
        cells.map(|cell| cell.samples.len()).sum()
    }

    /// The fewest rounds of a contender that did not fail.
    pub(crate) fn complete_rounds(&self) -> usize {
        let cells = self.cells.iter().flatten();
        let asked = cells.filter(|cell| cell.asked && cell.failure.is_none());
        asked.map(|cell| cell.samples.len()).min().unwrap_or(0)
    }

    fn cells_of<'a>(
        &'a self,
        contender: &str,
        points: &'a [usize],
    ) -> impl Iterator<Item = &'a Cell> + use<'a> {
        let number = self.contenders.iter().position(|known| known.name == contender);
        let cells = points.iter().filter_map(move |&point| self.cells.get(point)?.get(number?));
        cells.filter(|cell| cell.asked)
    }
}

/// Returns `true` if there are cells, and all their samples were given up.
fn never(cells: &[&Cell]) -> bool {
    !cells.is_empty()
        && cells.iter().all(|cell| cell.samples.is_empty() && cell.failure == Some(Failure::Late))
}
