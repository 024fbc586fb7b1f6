//! The order of events that happened at one time.
//!
//! **Problem.** Each ring has its events in their order. Between two rings, only times tell, and these may be
//! equal. A dispatch has the time of the wake-up before it, if its LWP read an earlier one (`not_before` of
//! an account). And the clocks of some machines advance by 100 ns, in which a thread runs several times.
//!
//! **Solution.** The events of one time are merged, ring by ring: each keeps its own order. Of the events
//! that come next in the rings, the first one that fits what its thread does is taken. A thread that waits is
//! woken first, one that is runnable is dispatched, and one that runs stops where it runs. If none fits,
//! events are missing, and the first one is taken.

use std::collections::{HashMap, VecDeque};

use super::event::Track;
use crate::recorder::event::{Event, Kind};

/// The most events of one time that are put in order. A clock that stands still is none.
const MOST: usize = 64;

/// What a thread does, as far as the order of its events depends on that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Waits,
    IsRunnable,
    Runs(Track),
    /// It runs, and was woken before it has stopped.
    RunsOn(Track),
    HasEnded,
}

/// Sorts events by time. They come ring by ring, each in its own order.
pub(super) fn sort(events: &mut [(Event, Track)]) {
    events.sort_by_key(|(event, _)| event.count);
    let mut threads = Threads::default();
    for same in events.chunk_by_mut(|(one, _), (next, _)| one.count == next.count) {
        if same.len() <= MOST && same.iter().any(|(_, track)| *track != same[0].1) {
            merge(same, &mut threads);
        } else {
            same.iter().for_each(|(event, track)| threads.note(event, *track));
        }
    }
}

/// Puts the events of one time in order.
fn merge(same: &mut [(Event, Track)], threads: &mut Threads) {
    let mut rings: Vec<VecDeque<(Event, Track)>> = Vec::new();
    for &(event, track) in same.iter() {
        match rings.iter_mut().find(|ring| ring[0].1 == track) {
            Some(ring) => ring.push_back((event, track)),
            None => rings.push([(event, track)].into()),
        }
    }
    for place in same {
        let fits = |of: usize| threads.fits(&rings, of);
        let ring = (0..rings.len()).find(|&of| fits(of)).unwrap_or(0);
        let next = rings[ring].pop_front().expect("a ring without events is left out");
        if rings[ring].is_empty() {
            rings.remove(ring);
        }
        threads.note(&next.0, next.1);
        *place = next;
    }
}

/// What threads do after the events so far.
#[derive(Default)]
struct Threads(HashMap<u64, Does>);

fn stops(kind: Kind) -> bool {
    matches!(kind, Kind::Block | Kind::Yield | Kind::Preempt | Kind::Exit)
}

impl Threads {
    /// Returns `true` if the next event of a ring fits what its thread does.
    fn fits(&self, rings: &[VecDeque<(Event, Track)>], ring: usize) -> bool {
        let (event, track) = rings[ring][0];
        // The other events of the thread at this time.
        let others = || {
            let others = rings.iter().enumerate().filter(|&(of, _)| of != ring);
            others.flat_map(|(_, ring)| ring).filter(|(other, _)| other.thread == event.thread)
        };
        let has = |kind: Kind| others().any(|(other, _)| other.kind == kind);
        let does = self.0.get(&event.thread).copied();
        match (event.kind, does) {
            _ if event.thread == 0 => true,
            (Kind::Dispatch, Some(Does::Waits)) => !has(Kind::Ready),
            (Kind::Dispatch, Some(Does::Runs(on) | Does::RunsOn(on))) => on == track,
            (Kind::Dispatch, Some(Does::IsRunnable) | None) => {
                let is_late = does.is_none()
                    && rings.iter().enumerate().any(|(of, its)| {
                        let first = its.iter().find(|(it, _)| it.thread == event.thread);
                        of != ring && first.is_some_and(|(it, _)| it.kind != Kind::Dispatch)
                    });
                // Of two runs, the one that ends at this time is the first.
                let ends = rings[ring].iter().any(|(it, _)| it.thread == event.thread && stops(it.kind));
                !is_late && (ends || !has(Kind::Dispatch))
            }
            // It is woken from a wait that is still to come.
            (Kind::Ready, Some(Does::IsRunnable)) => !others().any(|(other, _)| other.kind == Kind::Block),
            (Kind::Ready, Some(Does::Runs(on))) => {
                !others().any(|(other, of)| *of == on && stops(other.kind))
            }
            (kind, Some(Does::Runs(on) | Does::RunsOn(on))) if stops(kind) => on == track,
            (kind, Some(_)) if stops(kind) => false,
            _ => true,
        }
    }

    fn note(&mut self, event: &Event, track: Track) {
        if event.thread == 0 {
            return;
        }
        let before = self.0.get(&event.thread).copied();
        let now = match event.kind {
            Kind::Spawn | Kind::Yield | Kind::Preempt => Does::IsRunnable,
            Kind::Ready => match before {
                Some(Does::Runs(on) | Does::RunsOn(on)) => Does::RunsOn(on),
                _ => Does::IsRunnable,
            },
            Kind::Dispatch => Does::Runs(track),
            Kind::Block if matches!(before, Some(Does::RunsOn(_))) => Does::IsRunnable,
            Kind::Block => Does::Waits,
            Kind::Exit => Does::HasEnded,
            _ => return,
        };
        self.0.insert(event.thread, now);
    }
}

#[cfg(test)]
mod tests {
    use super::Kind::{Block, Dispatch, Exit, Preempt, Ready, Search, Spawn, Yield};
    use super::*;

    const ONE: Track = Track::Lwp { runtime: 1, lwp: 1 };
    const OTHER: Track = Track::Lwp { runtime: 1, lwp: 2 };
    const WAKER: Track = Track::Kernel(7);

    /// Returns the order of events of one thread. Those of `before` have happened before the others.
    fn order(before: &[(Kind, Track)], same: &[(Kind, Track)]) -> Vec<(Kind, Track)> {
        let at = |count, events: &[(Kind, Track)]| {
            let event = move |&(kind, track): &(Kind, Track)| (Event::new(count, kind, 5), track);
            events.iter().map(event).collect::<Vec<_>>()
        };
        let mut events = [at(1, before), at(2, same)].concat();
        sort(&mut events);
        events[before.len()..].iter().map(|(event, track)| (event.kind, *track)).collect()
    }

    /// Rings may come in any order. In each, events are in theirs.
    #[track_caller]
    fn is_ordered(before: &[(Kind, Track)], right: &[(Kind, Track)]) {
        let tracks = [ONE, OTHER, WAKER];
        for first in 0..3 {
            for second in (0..3).filter(|&second| second != first) {
                let rings = [first, second, 3 - first - second].map(|it| tracks[it]);
                let of = |ring| right.iter().copied().filter(move |&(_, track)| track == ring);
                let given: Vec<_> = rings.into_iter().flat_map(of).collect();
                assert_eq!(order(before, &given), right, "from {given:?}");
            }
        }
    }

    #[test]
    fn a_dispatch_comes_after_the_end_of_the_last_run_and_the_wake_up() {
        is_ordered(&[(Dispatch, ONE)], &[(Block, ONE), (Ready, WAKER), (Dispatch, OTHER)]);
        is_ordered(&[(Dispatch, ONE)], &[(Preempt, ONE), (Dispatch, OTHER)]);
        is_ordered(&[(Block, ONE)], &[(Ready, WAKER), (Dispatch, OTHER)]);
        is_ordered(&[], &[(Spawn, WAKER), (Dispatch, OTHER)]);
        // Nothing tells what it has done before.
        is_ordered(&[], &[(Yield, ONE), (Dispatch, OTHER)]);
        is_ordered(&[], &[(Ready, WAKER), (Dispatch, OTHER)]);
    }

    /// A thread runs for no time, and begins another run at the same time.
    #[test]
    fn of_two_dispatches_the_one_that_ends_comes_first() {
        is_ordered(&[(Yield, ONE)], &[(Dispatch, OTHER), (Yield, OTHER), (Dispatch, ONE)]);
        is_ordered(&[(Block, ONE)], &[(Ready, WAKER), (Dispatch, OTHER), (Preempt, OTHER), (Dispatch, ONE)]);
        is_ordered(&[], &[(Dispatch, OTHER), (Yield, OTHER), (Dispatch, ONE)]);
        is_ordered(&[(Ready, WAKER)], &[(Dispatch, OTHER), (Block, OTHER), (Ready, WAKER), (Dispatch, ONE)]);
    }

    /// A wake-up ends the wait that it comes in, also one that begins at the same time.
    #[test]
    fn a_wake_up_comes_after_the_wait_that_it_ends() {
        is_ordered(&[(Ready, WAKER)], &[(Dispatch, OTHER), (Block, OTHER), (Ready, WAKER)]);
        is_ordered(&[(Block, ONE)], &[(Ready, WAKER), (Dispatch, OTHER), (Block, OTHER)]);
        is_ordered(&[(Dispatch, ONE)], &[(Block, ONE), (Ready, WAKER)]);
    }

    #[test]
    fn a_ring_keeps_its_order() {
        let runs = [(Dispatch, ONE), (Yield, ONE), (Dispatch, ONE), (Exit, ONE)];
        is_ordered(&[(Ready, WAKER)], &runs);
        // Events of other threads and of LWPs stay where they were beside those of the same ring.
        let event = |kind, thread, track| (Event::new(7, kind, thread), track);
        let mut events = [
            event(Dispatch, 5, ONE),
            event(Dispatch, 4, OTHER),
            event(Block, 4, OTHER),
            event(Search, 0, OTHER),
            event(Ready, 5, OTHER),
        ];
        let given = events;
        sort(&mut events);
        assert_eq!(events.map(|it| it.0.kind), [Dispatch, Block, Search, Ready, Dispatch]);
        assert_eq!(events[..4], given[1..]);
    }

    /// Where events are missing, the others are all there.
    #[test]
    fn nothing_is_lost() {
        let given = [(Dispatch, ONE), (Dispatch, OTHER), (Block, WAKER), (Yield, WAKER)];
        let found = order(&[(Block, ONE)], &given);
        assert!(found.len() == 4 && given.iter().all(|it| found.contains(it)), "{found:?}");
    }
}
