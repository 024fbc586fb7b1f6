//! How many of M:N's threads run at once, and on which CPUs.

use std::fmt;

use selvedge::{Mxn, mxn};

use super::outcome::Outcome;

/// What `-c` and `--cpus` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Concurrency {
    /// Threads that may run at once. Zero: the runtime's default.
    pub(crate) slots: usize,
    /// The CPUs that the runtime runs on, if they were named.
    pub(crate) cpus: Option<Cpus>,
}

impl Concurrency {
    /// So many threads at once, on all CPUs.
    pub(crate) const fn of(slots: usize) -> Self {
        Self { slots, cpus: None }
    }

    /// A runtime's builder with both.
    pub(crate) fn builder(self) -> mxn::Builder {
        let mut builder = Mxn::builder();
        if let Some(cpus) = self.cpus {
            builder = builder.cpus(cpus.numbers());
        }
        if self.slots > 0 { builder.concurrency(self.slots) } else { builder }
    }

    /// How many CPUs there are for the threads.
    pub(crate) fn available(self) -> usize {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        self.cpus.map_or(all, |cpus| cpus.numbers().count().min(all))
    }

    /// The options that say the same.
    pub(crate) fn to_options(self) -> Vec<String> {
        let mut options = vec!["-c".to_owned(), self.slots.to_string()];
        options.extend(self.cpus.into_iter().flat_map(|cpus| ["--cpus".to_owned(), cpus.to_string()]));
        options
    }

    /// Says it in what a program found out.
    pub(crate) fn tell(self, outcome: &mut Outcome) {
        outcome.set("concurrency", self.slots);
        if let Some(cpus) = self.cpus {
            outcome.set("cpus", cpus.to_string());
        }
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slots, cpus } = self;
        write!(f, "{slots}")?;
        cpus.map_or(Ok(()), |cpus| write!(f, " (--cpus {cpus})"))
    }
}

/// A set of CPUs with numbers below [`MOST_CPUS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus([u64; MOST_CPUS / 64]);

pub(crate) const MOST_CPUS: usize = 1024;

impl Cpus {
    /// Reads `0-3,8`.
    pub(crate) fn parse(list: &str) -> Option<Self> {
        let mut set = Self::default();
        for range in list.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= MOST_CPUS {
                return None;
            }
            (first..=last).for_each(|cpu| set.0[cpu / 64] |= 1 << (cpu % 64));
        }
        Some(set)
    }

    /// The CPUs, in ascending order.
    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..MOST_CPUS).filter(move |cpu| self.0[cpu / 64] >> (cpu % 64) & 1 == 1)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.numbers().map(|cpu| cpu.to_string()).collect();
        f.write_str(&numbers.join(","))
    }
}
