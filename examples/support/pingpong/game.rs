//! Ping-Pong: pairs of threads in lock step over four mutexes.
//!
//! A game has two players, and each player has two blocks (mutexes): one for its even moves, one for its
//! odd ones. A player moves when it gets its own block of this move. It then takes the opponent's block of
//! the move after the next, and gives its own back. Last, it lets go of the opponent's block of the next
//! move, which it has held since its last turn. So each player always holds one block of the other, and no
//! player can run ahead. Each move is one hand-off: of a pair, never more than one can run.
//!
//! ```text
//!             player 0 (serves)                 player 1
//! before      holds 1.even, 1.odd               holds 0.even
//! begin       releases 1.even
//!                                               1.even; takes 0.odd; releases 1.even, 0.even
//! move 0      0.even; takes 1.even;
//!             releases 0.even, 1.odd
//!                                               1.odd; takes 0.even; releases 1.odd, 0.odd
//! move 1      0.odd; takes 1.odd; ...
//! ```
//!
//! Every block is released by the thread that took it, so guards will do. A player keeps its last guard
//! until all games are over, as the original never releases it.
//!
//! Three barriers, each made of one mutex and one condition variable, separate making the threads from
//! playing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::crew::Sampler;
use crate::support::library::{Attributes, Library, Lock};

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tournament {
    /// Games played at once, each by two threads.
    pub(crate) games: u32,
    /// Moves that each player makes.
    pub(crate) target: u32,
    /// What a player does after each move.
    pub(crate) rest: Rest,
    /// What the players' threads are.
    pub(crate) attributes: Attributes,
}

/// What a player does after each move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Plays on.
    None,
    /// Sleeps.
    Sleep(Duration),
    /// Takes and releases a mutex that all players of all games share.
    Bottleneck,
}

/// How a tournament ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Played {
    /// From the first serve to the end of the last game.
    pub(crate) elapsed: Duration,
    /// Games of which both players have made all of their moves, and no more.
    pub(crate) completed: u32,
}

impl Played {
    /// The time, of a tournament of so many games.
    ///
    /// # Panics
    /// A player made a wrong number of moves.
    pub(crate) fn all(self, games: u32) -> Duration {
        assert_eq!(self.completed, games, "a player made a wrong number of moves");
        self.elapsed
    }
}

/// Plays a tournament on the calling thread's runtime.
///
/// `ready` learns how long it took until all threads stood at their tables. It also gets something that
/// counts the moves of all players. What it returns is kept until the last game is over.
///
/// # Errors
/// The library cannot make a thread, or there is no memory for the tables. All threads started before
/// have ended.
pub(crate) fn play<L: Library, W>(
    tournament: Tournament,
    ready: impl FnOnce(Duration, Sampler) -> W,
) -> io::Result<Played> {
    let Tournament { games, target, .. } = tournament;
    let start = Instant::now();
    let arena = Arc::new(Arena::<L>::new(tournament)?);
    let mut threads = Vec::new();
    threads.try_reserve_exact(2 * games as usize)?;
    for seat in (0..games).flat_map(|table| [(table, 0), (table, 1)]) {
        let player = Arc::clone(&arena);
        let spawned = L::spawn(tournament.attributes, move || player.play(seat.0 as usize, seat.1));
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                arena.setup.call_off();
                let started = threads.len();
                threads.into_iter().for_each(L::join);
                let wanted = 2 * u64::from(games);
                let message = format!("cannot start thread {} of {wanted}: {error}", started + 1);
                return Err(io::Error::new(error.kind(), message));
            }
        }
    }
    arena.setup.wait();
    let seen = Arc::clone(&arena);
    let watch = ready(start.elapsed(), Box::new(move || seen.moves()));

    let start = Instant::now();
    arena.begin.wait();
    arena.end.wait();
    let elapsed = start.elapsed();

    threads.into_iter().for_each(L::join);
    drop(watch);
    // Relaxed: the players have been joined.
    let done = |player: &Player<L>| player.count.load(Ordering::Relaxed) == target;
    let completed = arena.tables.iter().filter(|table| table.players.iter().all(done)).count();
    Ok(Played { elapsed, completed: completed as u32 })
}

/// All tables, and what the players of all games share.
struct Arena<L: Library> {
    tables: Vec<Table<L>>,
    target: u32,
    rest: Rest,
    bottleneck: L::Mutex<()>,
    setup: Barrier<L>,
    begin: Barrier<L>,
    end: Barrier<L>,
}

struct Table<L: Library> {
    players: [Player<L>; 2],
}

/// Players are apart from each other in memory, as they were in the original.
#[repr(align(64))]
struct Player<L: Library> {
    blocks: [L::Mutex<()>; 2],
    count: AtomicU32,
}

impl<L: Library> Arena<L> {
    fn new(tournament: Tournament) -> io::Result<Self> {
        let player = || Player { blocks: [(); 2].map(L::Mutex::new), count: AtomicU32::new(0) };
        let parties = 2 * u64::from(tournament.games) + 1;
        let mut tables = Vec::new();
        tables.try_reserve_exact(tournament.games as usize)?;
        tables.extend((0..tournament.games).map(|_| Table { players: [player(), player()] }));
        Ok(Self {
            tables,
            target: tournament.target,
            rest: tournament.rest,
            bottleneck: L::Mutex::new(()),
            setup: Barrier::new(parties),
            begin: Barrier::new(parties),
            end: Barrier::new(parties),
        })
    }

    /// Moves made so far.
    fn moves(&self) -> u64 {
        let players = self.tables.iter().flat_map(|table| &table.players);
        // Relaxed: for progress, about right is right.
        players.map(|player| u64::from(player.count.load(Ordering::Relaxed))).sum()
    }

    /// What player `me` of a table does, from sitting down to the end of all games.
    fn play(&self, table: usize, me: usize) {
        let players = &self.tables[table].players;
        let (us, them) = (&players[me], &players[1 - me]);
        if !self.setup.wait() {
            return;
        }
        let mut held = them.blocks[0].lock();
        if me == 0 {
            let serve = std::mem::replace(&mut held, them.blocks[1].lock());
            self.begin.wait();
            drop(serve);
        } else {
            self.begin.wait();
        }

        let mut count = 0;
        while count < self.target {
            let even = count as usize % 2;
            let turn = us.blocks[even].lock();
            let next = them.blocks[(even + me) % 2].lock();
            drop(turn);
            held = next; // drops the block of their next move
            count += 1;
            // Relaxed: read after the join.
            us.count.store(count, Ordering::Relaxed);
            match self.rest {
                Rest::None => {}
                Rest::Sleep(time) => L::sleep(time),
                Rest::Bottleneck => drop(self.bottleneck.lock()),
            }
        }
        self.end.wait();
        drop(held);
    }
}

/// Holds its callers until all parties are there: one mutex, one condition variable, no spinning. For one
/// use.
struct Barrier<L: Library> {
    state: L::Mutex<Arrivals>,
    changed: L::Condvar,
    parties: u64,
}

struct Arrivals {
    count: u64,
    called_off: bool,
}

impl<L: Library> Barrier<L> {
    fn new(parties: u64) -> Self {
        let state = L::Mutex::new(Arrivals { count: 0, called_off: false });
        Self { state, changed: L::Condvar::default(), parties }
    }

    /// Waits for all others. `false`: they will never all come.
    fn wait(&self) -> bool {
        let mut arrivals = self.state.lock();
        arrivals.count += 1;
        if arrivals.count >= self.parties {
            drop(arrivals);
            L::notify_all(&self.changed);
            return true;
        }
        while arrivals.count < self.parties && !arrivals.called_off {
            arrivals = L::wait(&self.changed, arrivals);
        }
        !arrivals.called_off
    }

    /// Releases all threads that wait, and all that will come: not all parties exist.
    fn call_off(&self) {
        self.state.lock().called_off = true;
        L::notify_all(&self.changed);
    }
}
