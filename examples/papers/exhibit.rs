//! What a table or figure of a paper is to us: its claim, its numbers, and how ours are to be shown and
//! judged.

use crate::findings::Findings;
use crate::machine;
use crate::verdict::Claim;

/// A paper; the sixth is what the papers did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Paper {
    Harman,
    Cantrill,
    Nptl,
    Nt,
    Java,
    Beyond,
}

impl Paper {
    /// As `--only` calls it.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::Harman => "P1",
            Self::Cantrill => "P2",
            Self::Nptl => "P3",
            Self::Nt => "P4",
            Self::Java => "P5",
            Self::Beyond => "P6",
        }
    }

    /// What it is, for a heading.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Harman => "Ping-Pong",
            Self::Cantrill => "Barriers",
            Self::Nptl => "Creation and contention",
            Self::Nt => "Windows NT against Solaris",
            Self::Java => "Java on Solaris",
            Self::Beyond => "What the papers did not have",
        }
    }

    /// The title of the paper. The sixth has none.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Harman => "Multithreading in the Solaris Operating Environment",
            Self::Cantrill => "Runtime Performance Analysis of the M-to-N Scheduling Model",
            Self::Nptl => "The Native POSIX Thread Library for Linux",
            Self::Nt => {
                "A Thread Performance Comparison: Windows NT and Solaris on a Symmetric Multiprocessor"
            }
            Self::Java => "Java Threading",
            Self::Beyond => "",
        }
    }

    /// The authors, the publisher and the year.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Harman => "Phil Harman, Sun Microsystems, 2002 (the copy used here: copyright 2004)",
            Self::Cantrill => "Bryan M. Cantrill, Brown University, CS-96-19, 1996",
            Self::Nptl => "Ulrich Drepper and Ingo Molnar, Red Hat, 2003",
            Self::Nt => "Fabian Zabatta and Kevin Ying, 2nd USENIX Windows NT Symposium, 1998",
            Self::Java => {
                "Java Performance Group, Sun Microsystems, about 2002 (it names no author and no year)"
            }
            Self::Beyond => "",
        }
    }

    /// What it argued, in one or two sentences.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Harman => {
                "It explains why Solaris 9 gave up its M:N threads for 1:1 ones. It shows it with a game: \
                 pairs of threads that can only move in turn."
            }
            Self::Cantrill => {
                "Its threads wait for each other at barriers. It finds that M:N threads run slower than 1:1 \
                 ones where one would not expect it."
            }
            Self::Nptl => {
                "It chose 1:1 for Linux, against M:N, and measured creation of threads and contention for \
                 locks."
            }
            Self::Nt => "Bound threads, unbound threads and NT's threads do the same work on four CPUs.",
            Self::Java => {
                "It tells which of Solaris's thread models suits a Java program with many threads. It found \
                 threads that starve in the M:N one."
            }
            Self::Beyond => {
                "No claims to check, but what one asks of a threads library today, with the answers of its \
                 peers beside it."
            }
        }
    }
}

/// A table or figure.
#[derive(Clone, Debug)]
pub(crate) struct Exhibit {
    /// Short and unique: the name of its file.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// What the paper says with it, in one sentence.
    pub(crate) claim: &'static str,
    /// The paper's own numbers.
    pub(crate) then: Then,
    /// How it was measured here.
    pub(crate) here: String,
    /// What the figures are, with their unit: the label of the axis.
    pub(crate) quantity: &'static str,
    /// What distinguishes the columns: the label of the other axis.
    pub(crate) over: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) chart: Chart,
    pub(crate) claims: Vec<Claim>,
}

/// The paper's numbers.
#[derive(Clone, Debug)]
pub(crate) enum Then {
    /// A heading and lines.
    Table(&'static [&'static str], &'static [&'static [&'static str]]),
    /// In words, where the paper only draws them or has none.
    Words(&'static str),
}

/// What is shown under one heading.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) label: String,
    /// Where it stands on an axis of numbers.
    pub(crate) at: f64,
    /// The points of the experiment; of several, the least counts.
    pub(crate) points: Vec<usize>,
    /// `true` if nanoseconds are shown as ticks of the processor's counter.
    pub(crate) ticks: bool,
    /// If there are pairs, only their first contenders are shown: in percent of their second ones.
    pub(crate) pairs: &'static [(&'static str, &'static str)],
}

impl Column {
    /// The point of this number.
    pub(crate) fn of(point: usize, label: impl Into<String>) -> Self {
        Self { label: label.into(), at: point as f64, points: vec![point], ticks: false, pairs: &[] }
    }

    /// The same in ticks, where there are such.
    pub(crate) fn in_ticks(point: usize, label: &str) -> Option<Self> {
        machine::HAS_TICKS.then(|| Self { ticks: true, ..Self::of(point, label) })
    }

    /// A contender's figures of each round, as they are shown.
    pub(crate) fn figures(&self, findings: &Findings, contender: &str) -> Vec<f64> {
        let mut figures = findings.figures(contender, &self.points);
        if !self.pairs.is_empty() {
            let Some(whole) = self.whole_of(contender) else { return Vec::new() };
            let wholes = findings.figures(whole, &self.points);
            return figures.iter().zip(wholes).map(|(figure, whole)| 100.0 * figure / whole).collect();
        }
        if self.ticks {
            let ticks = machine::ticks_per_nanosecond().unwrap_or(f64::NAN);
            figures.iter_mut().for_each(|figure| *figure *= ticks);
        }
        figures
    }

    /// The same as percentages, of these contenders by those.
    pub(crate) fn percent(self, pairs: &'static [(&'static str, &'static str)]) -> Self {
        Self { pairs, ..self }
    }

    /// Returns `true` if the contender has figures here, or should have.
    pub(crate) fn shows(&self, findings: &Findings, contender: &str) -> bool {
        let is_shown = self.pairs.is_empty() || self.whole_of(contender).is_some();
        is_shown && findings.asked(contender, &self.points)
    }

    fn whole_of(&self, contender: &str) -> Option<&'static str> {
        self.pairs.iter().find(|(part, _)| *part == contender).map(|(_, whole)| *whole)
    }

    /// One for each of these, at the points from `first` on.
    pub(crate) fn each(first: usize, values: &[u32]) -> Vec<Self> {
        Self::every(first, 1, values)
    }

    /// The same, at every such point.
    pub(crate) fn every(first: usize, step: usize, values: &[u32]) -> Vec<Self> {
        let column = |(number, &value): (usize, &u32)| Self {
            label: crate::numbers::grouped(f64::from(value)),
            at: f64::from(value),
            ..Self::of(first + step * number, "")
        };
        values.iter().enumerate().map(column).collect()
    }
}

/// How it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chart {
    /// A group of bars for each column.
    Bars,
    /// A line for each contender.
    Lines { x: Scale, y: Scale },
    /// A line for each round, of this contender and of the one that it is compared to.
    Rounds { of: &'static str, beside: &'static str },
    /// What the threads did in one run, at each of the points of this range that has such.
    Strips { first: usize, last: usize },
}

/// The divisions of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Log,
}
