//! The game of `examples/pingpong.rs`: to play it, to start it, and to play it split over two CPUs.

use std::time::Duration;

use crate::support::contender::{Contender, Scene, Workload};
use crate::support::game::{Rest, Tournament, play};
use crate::support::harness::{Effort, Run};
use crate::support::library::{Attributes, Library};
use crate::support::selvedge::Shared;
use crate::support::split::Split;
use crate::support::tasks;

/// Time to play. An operation is one move of each player.
#[derive(Clone, Copy)]
pub(crate) struct Games {
    pub(crate) games: u32,
    pub(crate) attributes: Attributes,
}

/// Time until all players stand at their tables. An operation is a move that is not counted.
#[derive(Clone, Copy)]
pub(crate) struct Setup(pub(crate) Games);

/// One game, of players that are kept on different CPUs.
#[derive(Clone, Copy)]
pub(crate) struct SplitPair;

/// Games of Selvedge's threads over mutexes that processes can share. An operation is a move of each player.
#[derive(Clone, Copy)]
pub(crate) struct SharedGames {
    pub(crate) games: Games,
    /// Which time counts: to start, or to play.
    pub(crate) time: fn((Duration, Duration)) -> Duration,
}

impl Games {
    /// On threads with all defaults.
    pub(crate) fn few(games: u32) -> Self {
        Self { games, attributes: Attributes::default() }
    }

    /// On the paper's small stacks.
    pub(crate) fn many(games: u32) -> Self {
        Self { games, attributes: Attributes { stack_size: Some(32 << 10), bound: false } }
    }

    /// Time to start, and to play.
    fn playing<L: Library>(self, moves: u64) -> (Duration, Duration) {
        let Self { games, attributes } = self;
        let mut ready = Duration::ZERO;
        let tournament = Tournament { games, target: moves as u32, rest: Rest::None, attributes };
        let played = play::<L, _>(tournament, |time, _| ready = time).unwrap();
        (ready, played.all(games))
    }
}

impl Workload for Games {
    fn threads<C: Contender>(self, moves: u64) -> Duration {
        self.playing::<C>(moves).1
    }

    async fn tasks(self, moves: u64) -> Duration {
        tasks::play(self.games, moves as u32).await.1
    }
}

impl Workload for Setup {
    fn threads<C: Contender>(self, moves: u64) -> Duration {
        self.0.playing::<C>(moves).0
    }

    async fn tasks(self, moves: u64) -> Duration {
        tasks::play(self.0.games, moves as u32).await.0
    }
}

impl Scene for SharedGames {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(|moves| (self.time)(self.games.playing::<Shared>(moves)))
    }
}

impl Scene for SplitPair {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(|moves| Games::few(1).playing::<Split<C>>(moves).1)
    }
}
