//! Slots that move from LWP to LWP, and LWPs that come and go, in recordings.

use std::collections::HashSet;
use std::hint;
use std::io::{PipeReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::mxn::Builder;
use selvedge::thread::{self, ThreadId};
use selvedge::trace::{Event, EventKind, Level, Recording, SlotCause, Timeline, Track, TrackState};
use selvedge::{Mxn, Runtime};

use super::traced;
use crate::unseen::{self, Meeting};
use crate::waiting::soon;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(40);

fn builder() -> Builder {
    Mxn::builder().concurrency(1).time_slice(None)
}

/// A slot that moved, and where that happened.
#[derive(Debug)]
struct Move {
    on: Track,
    from: Option<u32>,
    to: Option<u32>,
}

/// Returns the moves of this cause, and checks that they are moves.
fn moves(recording: &Recording, of: SlotCause) -> Vec<Move> {
    let moves = recording.events().iter().filter_map(|event| match event.kind {
        EventKind::SlotMove { runtime, from, to, cause } if cause == of => {
            assert!(recording.runtimes().any(|it| it.number == runtime) && event.thread.is_none());
            assert_ne!(from, to);
            Some(Move { on: event.track, from, to })
        }
        _ => None,
    });
    moves.collect()
}

/// Returns the LWPs on which a thread was dispatched.
fn lwps_of(recording: &Recording, id: ThreadId) -> Vec<u32> {
    let dispatches = recording.events().iter().filter(|it| matches!(it.kind, EventKind::Dispatch { .. }));
    let of_it = dispatches.filter(|it| it.thread == Some(id));
    let lwps = of_it.filter_map(|it| if let Track::Lwp { lwp, .. } = it.track { Some(lwp) } else { None });
    lwps.collect()
}

/// What another thread does to end that a thread keeps its LWP: it says that it runs, and writes a byte.
struct Other {
    runs: AtomicBool,
    byte: PipeReader,
}

/// With one slot, a thread keeps its LWP by `keep` until another thread has run. Returns the identities of
/// both, and what was recorded.
fn one_keeps_the_lwp(
    builder: Builder,
    keep: impl FnOnce(&AtomicBool, &Other) + Send + 'static,
) -> (ThreadId, ThreadId, Recording) {
    let rt = builder.build().unwrap();
    let (byte, mut sender) = std::io::pipe().unwrap();
    let both = Arc::new((AtomicBool::new(false), Other { runs: AtomicBool::new(false), byte }));
    let keeps = &both.0;
    let theirs = Arc::clone(&both);
    let first = rt.spawn(move || keep(&theirs.0, &theirs.1));
    let start = Instant::now();
    while !keeps.load(Ordering::Acquire) {
        assert!(start.elapsed() < PATIENCE, "it does not run");
        std::thread::yield_now();
    }
    let theirs = Arc::clone(&both);
    let second = rt.spawn(move || {
        theirs.1.runs.store(true, Ordering::Relaxed);
        sender.write_all(&[0]).unwrap();
    });
    let ids = (first.thread().id(), second.thread().id());
    first.join().unwrap();
    second.join().unwrap();
    (ids.0, ids.1, Recording::take())
}

/// Plays until the slot of the first thread's LWP goes to that of the second for this cause. If the machine
/// is busy, it may go for another one. Returns where that happened.
#[track_caller]
fn moved(play: impl Fn() -> (ThreadId, ThreadId, Recording), cause: SlotCause) -> Track {
    let mut seen = Vec::new();
    for _ in 0..20 {
        let (first, second, recording) = play();
        let (had, got) = (lwps_of(&recording, first), lwps_of(&recording, second));
        let moves = moves(&recording, cause);
        let it = moves.iter().find(|it| it.from == had.first().copied() && got.first().copied() == it.to);
        if let Some(it) = it {
            return it.on;
        }
        seen.push((had, got, moves));
    }
    panic!("no move because {cause}: {seen:?}");
}

/// The monitor moves the slot of an LWP that sleeps, and of one with a thread that computes. It does so on a
/// kernel thread that is no LWP.
#[test]
fn the_monitors_moves_are_recorded() {
    traced("the_monitors_moves_are_recorded", Level::Events, || {
        let asleep = || {
            one_keeps_the_lwp(builder(), |keeps, other| {
                keeps.store(true, Ordering::Release);
                unseen::read(&other.byte);
            })
        };
        assert!(matches!(moved(asleep, SlotCause::InKernel), Track::Kernel(_)));
        let busy = || {
            let slices = builder().time_slice(Some(Duration::from_millis(1))).preemption_signal(None);
            one_keeps_the_lwp(slices, |keeps, other| {
                keeps.store(true, Ordering::Release);
                while !other.runs.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            })
        };
        assert!(matches!(moved(busy, SlotCause::Computes), Track::Kernel(_)));
    });
}

/// A thread that finds work for the slot of an LWP that has announced blocking takes that slot itself.
#[test]
fn the_move_of_a_slot_that_was_left_open_is_recorded() {
    traced("the_move_of_a_slot_that_was_left_open_is_recorded", Level::Events, || {
        let open = || {
            one_keeps_the_lwp(builder(), |keeps, other| {
                thread::blocking(|| {
                    keeps.store(true, Ordering::Release);
                    unseen::read(&other.byte);
                });
            })
        };
        moved(open, SlotCause::Open);
        // The thread itself gives the slot away, because another one is queued there. If there is no spare
        // yet, the monitor does so later.
        let rt = builder().build().unwrap();
        let by_itself = |it: &Move| matches!(it.on, Track::Lwp { lwp, .. } if it.from == Some(lwp));
        let start = Instant::now();
        while !moves(&Recording::take(), SlotCause::Open).iter().any(by_itself) {
            assert!(start.elapsed() < PATIENCE, "{:?}", moves(&Recording::take(), SlotCause::Open));
            rt.run(|| {
                let (byte, mut sender) = std::io::pipe().unwrap();
                let other = thread::spawn(move || sender.write_all(&[0]).unwrap());
                thread::blocking(|| unseen::read(&byte));
                other.join().unwrap();
            });
        }
    });
}

/// A thread that may run on one LWP only comes back to it after that has lost its slot.
#[test]
fn a_slot_that_is_lent_is_recorded() {
    traced("a_slot_that_is_lent_is_recorded", Level::Events, || {
        // SAFETY: the threads have no thread-locals that threads on other LWPs could reach.
        let pinned = unsafe { builder().pinned() };
        let (first, _, recording) = one_keeps_the_lwp(pinned, |keeps, other| {
            thread::blocking(|| {
                keeps.store(true, Ordering::Release);
                unseen::read(&other.byte);
            });
            (0..3).for_each(|_| thread::yield_now());
        });
        let home = lwps_of(&recording, first)[0];
        let moves = moves(&recording, SlotCause::Home);
        assert!(moves.iter().any(|it| it.from.is_none() && it.to == Some(home)), "{home}: {moves:?}");
    });
}

/// Slots that are made and retired are moves with one end.
#[test]
fn a_change_of_the_concurrency_is_recorded() {
    traced("a_change_of_the_concurrency_is_recorded", Level::Events, || {
        let rt = builder().build().unwrap();
        let (mut more, mut fewer, mut now) = (0, 0, 1_usize);
        for slots in [4_usize, 2, 7, 1] {
            more += slots.saturating_sub(now);
            fewer += now.saturating_sub(slots);
            now = slots;
            rt.set_concurrency(slots).unwrap();
            let start = Instant::now();
            loop {
                let moves = moves(&Recording::take(), SlotCause::Concurrency);
                assert!(moves.iter().all(|it| matches!(it.on, Track::Kernel(_))), "{moves:?}");
                let made = moves.iter().filter(|it| it.from.is_none()).count();
                if (made, moves.len() - made) == (more, fewer) {
                    break;
                }
                assert!(start.elapsed() < PATIENCE, "{more} more, {fewer} fewer: {moves:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// Makes `n` LWPs be needed at once.
fn need(rt: &Mxn, n: usize) {
    let all = Arc::new(Meeting::of(n));
    let threads: Vec<_> = (0..n)
        .map(|_| {
            let all = Arc::clone(&all);
            rt.spawn(move || all.meet())
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Checks that an LWP does nothing between its end and its next start, and that starts and ends take turns.
/// Returns how many starts and ends there were.
fn check_lives(recording: &Recording) -> (usize, usize) {
    let timeline = Timeline::of(recording);
    let (mut starts, mut ends) = (0, 0);
    for line in timeline.tracks() {
        let on_it = |event: &&Event| event.track == line.track;
        let mut ended = None;
        for event in recording.events().iter().filter(on_it) {
            match event.kind {
                EventKind::LwpStart { tid } => {
                    assert!(tid > 0 && event.thread.is_none());
                    starts += 1;
                    let idle = ended.take().unwrap_or_default()..event.at;
                    let is_in = |span: &&(Duration, Duration, TrackState)| idle.contains(&span.0);
                    assert_eq!(line.spans.iter().find(is_in), None, "{:?}", line.track);
                }
                EventKind::LwpEnd => {
                    assert_eq!(ended.replace(event.at), None, "{:?}", line.track);
                    ends += 1;
                }
                _ => assert_eq!(ended, None, "{event:?} after the end"),
            }
        }
        if let Some(ended) = ended {
            let last = line.spans.last().expect("it has slept");
            assert!(last.1 <= ended, "{:?} ended at {ended:?}, and {last:?}", line.track);
        }
    }
    (starts, ends)
}

#[test]
fn lwps_begin_and_end() {
    traced("lwps_begin_and_end", Level::Events, || {
        let rt = builder().lwp_age(Some(Duration::from_millis(20))).build().unwrap();
        let mut aged = 0;
        for _ in 0..2 {
            need(&rt, 8);
            // 1 with a slot, 2 in reserve.
            soon("the reserve", &rt, |stats| stats.lwps.len() == 3 && stats.aged > aged);
            aged = rt.stats().aged;
        }
        // An LWP counts as there before its start is recorded, and as aged after its end is.
        let start = Instant::now();
        let (recording, starts) = loop {
            let recording = Recording::take();
            let (starts, ends) = check_lives(&recording);
            if (starts - ends, ends as u64) == (3, rt.stats().aged) {
                break (recording, starts);
            }
            assert!(start.elapsed() < PATIENCE, "{starts} starts, {ends} ends, {}", rt.stats());
            std::thread::sleep(Duration::from_millis(2));
        };
        let tids = recording.events().iter().filter_map(|event| match event.kind {
            EventKind::LwpStart { tid } => Some(tid),
            _ => None,
        });
        // The kernel may use a number again, but not while its thread runs.
        let tids: HashSet<u32> = tids.collect();
        assert!(rt.stats().lwps.iter().all(|lwp| tids.contains(&lwp.tid)), "{tids:?}");
        // Some have begun again.
        let lwps: HashSet<Track> = recording.tracks().iter().copied().collect();
        assert!(starts > lwps.iter().filter(|it| matches!(it, Track::Lwp { .. })).count());
        drop(rt);
        let (starts, ends) = check_lives(&Recording::take());
        assert_eq!(starts, ends, "all LWPs end with their runtime");
    });
}
