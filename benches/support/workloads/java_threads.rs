//! The turns of `examples/java_threads.rs`.

use std::time::Duration;

use crate::support::contender::{Contender, Scene};
use crate::support::harness::{Effort, Run};
use crate::support::java_threads::{Plan, Shares, Until, work};
use crate::support::library::{Attributes, Library};

/// Equal work for each of so many threads, a part of it under a lock that all want.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    pub(crate) threads: u32,
    /// Steps of computing in a turn without the lock; with it, there are 100.
    outside: u32,
    /// What an operation is.
    until: fn(u64) -> Until,
    read: fn(&Shares) -> Run,
    attributes: Attributes,
}

impl Turns {
    /// A fifth of it under the lock, for so many milliseconds: by how much the least served falls behind
    /// the most served.
    pub(crate) fn gap(threads: u32) -> Self {
        let read = |shares: &Shares| Run::part(shares.most() - shares.least(), shares.most());
        let attributes = Attributes::default();
        Self { threads, outside: 400, until: |ms| Until::Time(Duration::from_millis(ms)), read, attributes }
    }

    /// The same by the turn.
    pub(crate) fn contended(threads: u32) -> Self {
        Self { read: by_the_turn, ..Self::gap(threads) }
    }

    /// The same by threads that own a kernel thread each.
    pub(crate) fn bound(self) -> Self {
        Self { attributes: Attributes { bound: true, ..self.attributes }, ..self }
    }

    /// So many turns of each, of which a fiftieth is under the lock.
    pub(crate) fn throughput(threads: u32) -> Self {
        Self { outside: 5_000, until: Until::Turns, read: by_the_turn, ..Self::gap(threads) }
    }
}

fn by_the_turn(shares: &Shares) -> Run {
    Run::took(shares.total(), shares.elapsed)
}

impl Turns {
    /// Lets threads of a library take them, which need be no contender.
    pub(crate) fn play_on<L: Library>(self, effort: Effort) -> Run {
        let Self { threads, outside, until, read, attributes } = self;
        let until = until(effort.operations());
        let plan = Plan { threads, outside, inside: 100, until, attributes };
        read(&work::<L, _>(plan, |_| ()).expect("threads").exact())
    }
}

impl Scene for Turns {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        self.play_on::<C>(effort)
    }
}
