//! How long does a hand-off take between two threads in lock step? And with thousands of such pairs?
//!
//! The game of `examples/pingpong.rs`, with all defaults. A hand-off is half an iteration. Time to play only: from the
//! first serve to the end of the last game. The first question compares M:N with time slices, which never end here, to
//! M:N without.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use support::contender::{Contender, Workload, all, some};
use support::game::{Rest, Tournament, play};
use support::harness::{Question, Unit, answer};
use support::library::Attributes;
use support::tasks;

fn main() -> ExitCode {
    let hand_off = Unit::NanosEach("a hand-off");
    let crowd = Crowd { games: 5_000 };
    let slices = ["mxn, 1 slot", "mxn, 1 slot, cooperative", "mxn", "mxn, cooperative"];
    answer(vec![
        Question::new("slices, 1 game", hand_off, some(&slices, Games { games: 1 })).per_operation(2),
        Question::new("ping-pong, 1 game", hand_off, all(Games { games: 1 })).per_operation(2),
        Question::new("ping-pong, 4 games", hand_off, all(Games { games: 4 })).per_operation(8),
        Question::new("ping-pong, 5000 games of 100, play", Unit::MillisInAll, all(crowd)).fixed(100),
    ])
}

/// A few games of many moves. An operation is one move of each player.
#[derive(Clone, Copy)]
struct Games {
    games: u32,
}

impl Workload for Games {
    fn threads<C: Contender>(self, moves: u64) -> Duration {
        playing::<C>(self.games, moves, None)
    }

    async fn tasks(self, moves: u64) -> Duration {
        tasks::play(self.games, moves as u32).await.1
    }
}

/// Many games of few moves, on small stacks.
#[derive(Clone, Copy)]
struct Crowd {
    games: u32,
}

impl Workload for Crowd {
    fn threads<C: Contender>(self, moves: u64) -> Duration {
        playing::<C>(self.games, moves, Some(32 << 10))
    }

    async fn tasks(self, moves: u64) -> Duration {
        tasks::play(self.games, moves as u32).await.1
    }
}

fn playing<C: Contender>(games: u32, moves: u64, stack_size: Option<usize>) -> Duration {
    let attributes = Attributes { stack_size, bound: false };
    let tournament = Tournament { games, target: moves as u32, rest: Rest::None, attributes };
    play::<C, _>(tournament, |_, _| ()).unwrap().all(games)
}
