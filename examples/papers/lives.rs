//! What all threads of a recorded run did, from when to when; and the figures and the strip of that.

use std::time::Duration;

use crate::strip::{Doing, MOMENTS, Strip};

/// The figures of a recorded run, in their order. Shares are percents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// The time of the whole run, ms.
    Time,
    /// Shares of the threads' time in each state.
    OnLwp,
    Dispatchable,
    RunQueue,
    Blocked,
    /// The share of the run in which a thread waits for an LWP.
    OneWaits,
    /// The share of the run in which one thread computes, and all others are blocked.
    LastAlone,
    /// The LWPs on which the threads ran.
    Lwps,
    /// How often a thread came onto an LWP in a round, on average.
    Turns,
}

impl Figure {
    /// How many there are besides the first.
    pub(crate) const FURTHER: usize = Self::Turns as usize;
}

/// A thread did this, from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) doing: Doing,
}

/// What all threads did between two moments.
pub(crate) struct Lives {
    from: Duration,
    to: Duration,
    threads: Vec<Vec<Piece>>,
}

impl Lives {
    /// Keeps what lies between the two, and counts LWPs anew: in the order in which they are used there.
    pub(crate) fn between(from: Duration, to: Duration, mut threads: Vec<Vec<Piece>>) -> Self {
        for pieces in &mut threads {
            pieces.retain_mut(|piece| {
                (piece.from, piece.to) = (piece.from.max(from), piece.to.min(to));
                piece.from < piece.to
            });
        }
        // One that was never on an LWP only waits for the others.
        threads.retain(|pieces| pieces.iter().any(|piece| matches!(piece.doing, Doing::OnLwp(_))));
        // The last event is the caller's.
        let ends = threads.iter().filter_map(|pieces| pieces.last()).map(|piece| piece.to);
        let to = ends.max().unwrap_or(to);
        let mut used: Vec<(Duration, usize)> = Vec::new();
        for piece in threads.iter().flatten() {
            if let Doing::OnLwp(lwp) = piece.doing {
                used.push((piece.from, lwp));
            }
        }
        used.sort();
        let mut order: Vec<usize> = Vec::new();
        for (_, lwp) in used {
            if !order.contains(&lwp) {
                order.push(lwp);
            }
        }
        for piece in threads.iter_mut().flatten() {
            if let Doing::OnLwp(lwp) = &mut piece.doing {
                *lwp = order.iter().position(|known| known == lwp).expect("it was used");
            }
        }
        Self { from, to, threads }
    }

    pub(crate) fn length(&self) -> Duration {
        self.to.saturating_sub(self.from)
    }

    /// Returns the further figures, in the order of [`Figure`].
    pub(crate) fn figures(&self, rounds: u32) -> Vec<f64> {
        let pieces = || self.threads.iter().flatten();
        let time = |is: fn(Doing) -> bool| -> f64 {
            let lengths = pieces().filter(|piece| is(piece.doing)).map(|piece| piece.to - piece.from);
            lengths.sum::<Duration>().as_secs_f64()
        };
        let all = time(|_| true).max(f64::MIN_POSITIVE);
        let share = |is| 100.0 * time(is) / all;
        let (one_waits, last_alone) = self.shares_of_the_run();
        let lwps = pieces().filter_map(|piece| match piece.doing {
            Doing::OnLwp(lwp) => Some(lwp + 1),
            _ => None,
        });
        let turns = pieces().filter(|piece| matches!(piece.doing, Doing::OnLwp(_))).count();
        vec![
            share(|doing| matches!(doing, Doing::OnLwp(_))),
            share(|doing| doing == Doing::Dispatchable),
            share(|doing| doing == Doing::RunQueue),
            share(|doing| doing == Doing::Blocked),
            one_waits,
            last_alone,
            lwps.max().unwrap_or(0) as f64,
            turns as f64 / (self.threads.len().max(1) as f64 * f64::from(rounds.max(1))),
        ]
    }

    /// Returns in which share of the run a thread waits for an LWP, and in which one computes while all
    /// others are blocked.
    fn shares_of_the_run(&self) -> (f64, f64) {
        // When, and by how much the threads on LWPs and the threads that wait for one change then.
        let mut changes: Vec<(Duration, i64, i64)> = Vec::new();
        for piece in self.threads.iter().flatten() {
            let (on, waits) = match piece.doing {
                Doing::OnLwp(_) => (1, 0),
                Doing::Dispatchable | Doing::RunQueue => (0, 1),
                Doing::Blocked => continue,
            };
            changes.extend([(piece.from, on, waits), (piece.to, -on, -waits)]);
        }
        changes.sort();
        let (mut on, mut waiting, mut since) = (0, 0, self.from);
        let (mut one_waits, mut last_alone) = (Duration::ZERO, Duration::ZERO);
        for (at, more_on, more_waiting) in changes {
            let passed = at.saturating_sub(since);
            if waiting > 0 {
                one_waits += passed;
            } else if on == 1 {
                last_alone += passed;
            }
            (on, waiting, since) = (on + more_on, waiting + more_waiting, at);
        }
        let share =
            |time: Duration| 100.0 * time.as_secs_f64() / self.length().as_secs_f64().max(f64::MIN_POSITIVE);
        (share(one_waits), share(last_alone))
    }

    /// Returns the marks of so long a stretch, from the middle.
    pub(crate) fn strip(&self, length: Duration) -> Strip {
        let length = length.min(self.length());
        let from = self.from + (self.length() - length) / 2;
        let edge = |moment: u32| from + length * moment / MOMENTS;
        let mark = |pieces: &[Piece], moment| {
            let (begin, end) = (edge(moment), edge(moment + 1));
            // What it did for most of the moment.
            let mut most: Vec<(char, Duration)> = Vec::new();
            for piece in pieces.iter().filter(|piece| piece.from < end && piece.to > begin) {
                let time = piece.to.min(end) - piece.from.max(begin);
                let mark = piece.doing.mark();
                match most.iter_mut().find(|(known, _)| *known == mark) {
                    Some((_, sum)) => *sum += time,
                    None => most.push((mark, time)),
                }
            }
            most.into_iter().max_by_key(|&(_, time)| time).map_or(' ', |(mark, _)| mark)
        };
        let line = |pieces: &Vec<Piece>| (0..MOMENTS).map(|moment| mark(pieces, moment)).collect();
        Strip { length, threads: self.threads.iter().map(line).collect() }
    }
}
