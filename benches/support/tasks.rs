//! Ping-Pong once more, for tasks: the game of `examples/support/pingpong.rs` with tokio's locks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};

/// Plays `games` games of `target` moves. Gives the time to get all players to their tables, and the time
/// to play.
pub(crate) async fn play(games: u32, target: u32) -> (Duration, Duration) {
    let start = Instant::now();
    let parties = 2 * u64::from(games) + 1;
    let arena = Arc::new(Arena {
        tables: (0..games).map(|_| Default::default()).collect(),
        target,
        setup: Barrier::new(parties),
        begin: Barrier::new(parties),
        end: Barrier::new(parties),
    });
    let seats = (0..games as usize).flat_map(|table| [(table, 0), (table, 1)]);
    let spawn = |(table, me)| {
        let arena = Arc::clone(&arena);
        tokio::spawn(async move { arena.play(table, me).await })
    };
    let players: Vec<_> = seats.map(spawn).collect();
    arena.setup.wait().await;
    let setup = start.elapsed();

    let start = Instant::now();
    arena.begin.wait().await;
    arena.end.wait().await;
    let elapsed = start.elapsed();
    for player in players {
        assert_eq!(player.await.unwrap(), target);
    }
    (setup, elapsed)
}

struct Arena {
    tables: Vec<[Player; 2]>,
    target: u32,
    setup: Barrier,
    begin: Barrier,
    end: Barrier,
}

#[derive(Default)]
#[repr(align(64))]
struct Player {
    blocks: [Mutex<()>; 2],
}

impl Arena {
    async fn play(&self, table: usize, me: usize) -> u32 {
        let players = &self.tables[table];
        let (us, them) = (&players[me], &players[1 - me]);
        self.setup.wait().await;
        let mut held = them.blocks[0].lock().await;
        if me == 0 {
            let serve = std::mem::replace(&mut held, them.blocks[1].lock().await);
            self.begin.wait().await;
            drop(serve);
        } else {
            self.begin.wait().await;
        }

        let mut count = 0;
        while count < self.target {
            let even = count as usize % 2;
            let turn = us.blocks[even].lock().await;
            let next = them.blocks[(even + me) % 2].lock().await;
            drop(turn);
            held = next;
            count += 1;
        }
        self.end.wait().await;
        drop(held);
        count
    }
}

struct Barrier {
    count: Mutex<u64>,
    changed: Notify,
    parties: u64,
}

impl Barrier {
    fn new(parties: u64) -> Self {
        Self { count: Mutex::new(0), changed: Notify::new(), parties }
    }

    async fn wait(&self) {
        let mut count = self.count.lock().await;
        *count += 1;
        if *count == self.parties {
            drop(count);
            self.changed.notify_waiters();
            return;
        }
        // Made before the lock is released, it hears every notification after that.
        let notified = self.changed.notified();
        drop(count);
        notified.await;
    }
}
