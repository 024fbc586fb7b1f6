//! Recordings: what is in them, and the two formats for viewers.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use selvedge::sync::{Barrier, Condvar, Mutex};
use selvedge::thread::{ThreadId, ThreadInfo, ThreadState, WaitReason};
use selvedge::trace::{
    EventKind, Level, Recording, Span, State, ThreadLine, Timeline, Track, TrackState, set_level, set_sample,
};
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::waiting::soon;
use super::{compute, live, named, traced};

/// Records five threads that do all sorts of things, and their creator.
fn record<R: Runtime>(rt: &R) -> Recording {
    rt.run(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let threads: Vec<_> = (0..5)
            .map(|n| {
                let shared = Arc::clone(&shared);
                named(&format!("a liver with a long name, {n}"), move || live(&shared, 20))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // A result comes before the end of its thread is recorded.
    soon("all have ended", rt, |stats| stats.threads == 0);
    Recording::take()
}

/// Returns the threads of a recording that have the names of `record`.
fn livers(recording: &Recording, timeline: &Timeline) -> Vec<ThreadId> {
    let is_liver = |id: &ThreadId| recording.name(*id).is_some_and(|name| name.starts_with("a liver with a"));
    let livers: Vec<_> = timeline.threads().iter().map(|line| line.id).filter(is_liver).collect();
    livers
}

/// Every span begins where the one before ended, and tracks have no two spans at once. A thread's line says
/// of an LWP what the LWP's line says.
fn check(recording: &Recording) {
    let timeline = Timeline::of(recording);
    let ids = livers(recording, &timeline);
    assert!(ids.len() >= 5, "{}", ids.len());
    let mut on_tracks: HashMap<Track, Vec<(Duration, Duration, ThreadId)>> = HashMap::new();
    for line in timeline.threads() {
        for pair in line.spans.windows(2) {
            assert_eq!(pair[0].to, pair[1].from, "{pair:?}");
        }
        let sum: Duration = State::ALL.iter().map(|&state| line.time_in(state)).sum();
        assert_eq!(sum, line.length());
        let runs = line.spans.iter().filter(|span| span.state == State::Running);
        runs.for_each(|span| {
            on_tracks.entry(span.track.unwrap()).or_default().push((span.from, span.to, line.id))
        });
    }
    for line in timeline.tracks() {
        for pair in line.spans.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "two at once: {pair:?}");
        }
        let mut of_threads = on_tracks.remove(&line.track).unwrap_or_default();
        of_threads.sort();
        let runs = line.spans.iter().filter_map(|&(from, to, state)| match state {
            TrackState::Runs(id) => Some((from, to, id)),
            _ => None,
        });
        // The announced regions are spans of their own on a thread's line, and none here.
        let (runs, of_threads): (Vec<_>, Vec<_>) = (runs.collect(), of_threads);
        assert_eq!(runs.len(), of_threads.len());
        assert!(runs.iter().zip(&of_threads).all(|(one, other)| one == other), "{runs:?}\n{of_threads:?}");
    }
    for id in ids.iter().rev().take(5) {
        let line = timeline.threads().iter().find(|line| line.id == *id).unwrap();
        assert!(line.begins && line.ends, "{line:?}");
        let in_state = |state| line.spans.iter().filter(|span| span.state == state).count();
        assert!(in_state(State::Sleeping) >= 15, "{line:?}");
        let mut waits = line.spans.iter().filter_map(|span| span.wait);
        assert!(
            waits.any(|(reason, at)| reason == WaitReason::Condvar && at.is_some_and(|at| at != 0)),
            "{line:?}"
        );
    }
    let woken = timeline.wakes().iter().filter(|wake| wake.ran.is_some()).count();
    assert!(woken * 2 > timeline.wakes().len(), "{woken} of {}", timeline.wakes().len());
    assert!(timeline.wakes().iter().all(|wake| wake.ran.is_none_or(|(at, _)| at >= wake.at)));
}

#[test]
fn green_threads_are_recorded() {
    let recording = traced("green_threads_are_recorded", Level::Events, || {
        record(&Mxn::builder().concurrency(2).build().unwrap())
    });
    check(&recording);
    assert!(recording.tracks().iter().any(|track| matches!(track, Track::Lwp { .. })));
    // Timers and threads wake them: a thread that has waited is runnable before it runs.
    let timeline = Timeline::of(&recording);
    let woken_from = |state| {
        let pairs = timeline.threads().iter().flat_map(|line| line.spans.windows(2));
        let pairs = pairs.filter(|pair| pair[0].state == state && pair[1].state != State::Running);
        pairs.count()
    };
    assert!(woken_from(State::Sleeping) >= 50, "{}", woken_from(State::Sleeping));
    assert!(timeline.wakes().iter().any(|wake| wake.by.is_some() && wake.ran.is_some()));
    let is_dispatchable = |line: &ThreadLine| !line.time_in(State::Dispatchable).is_zero();
    assert!(timeline.threads().iter().any(is_dispatchable), "no LWP was chosen for any");
}

#[test]
fn kernel_threads_are_recorded() {
    let recording =
        traced("kernel_threads_are_recorded", Level::Events, || record(&OneToOne::new().unwrap()));
    check(&recording);
}

#[test]
fn a_recording_survives_as_bytes() {
    let recording = traced("a_recording_survives_as_bytes", Level::Events, || {
        record(&Mxn::builder().concurrency(2).build().unwrap())
    });
    let mut bytes = Vec::new();
    recording.write(&mut bytes).unwrap();
    let read = Recording::read(&*bytes).unwrap();
    assert_eq!(read.events(), recording.events());
    check(&read);
    let facts = read.runtimes().last().expect("it was built");
    assert!(facts.has_green_threads && facts.concurrency == 2 && facts.time_slice.is_some(), "{facts:?}");
}

/// Runs `play` with a runtime until the recording shows what is looked for. A busy machine may have done
/// something else.
fn recorded(what: &str, slots: usize, play: fn(), is: impl Fn(&Recording) -> bool) {
    let _watchdog = super::Watchdog::start(what);
    loop {
        let recording = traced(what, Level::Events, || {
            let slice = Duration::from_millis(2);
            let rt = Mxn::builder().concurrency(slots).time_slice(Some(slice)).build().unwrap();
            rt.run(play);
            Recording::take()
        });
        if is(&recording) {
            return;
        }
    }
}

/// A thread whose slice is over is preempted, and is runnable then.
#[test]
fn preemptions_are_recorded() {
    let play = || {
        let others = [(); 2].map(|()| thread::spawn(|| compute(Duration::from_millis(40))));
        others.into_iter().for_each(|thread| thread.join().unwrap());
    };
    recorded("preemptions_are_recorded", 1, play, |recording| {
        let timeline = Timeline::of(recording);
        let count = |of: &Recording| of.events().iter().filter(|it| it.kind == EventKind::Preempt).count();
        let preempted: usize = timeline.threads().iter().map(|line| line.preemptions).sum();
        assert_eq!(preempted, count(recording));
        preempted >= 2
    });
}

/// Plays a thread that waits, and whose wait ends while a hog has the only LWP. It is runnable from then on,
/// and waits no more.
fn wakes_beside_a_hog(what: &str, wait: impl FnOnce() + Send + 'static, wake: impl FnOnce()) {
    let stop = Arc::new(AtomicBool::new(false));
    let (recording, sleeper) = traced(what, Level::Events, || {
        let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
        let (stopped, begun) = (Arc::clone(&stop), Arc::new(AtomicBool::new(false)));
        let begins = Arc::clone(&begun);
        let compute_on = move || {
            begins.store(true, Relaxed);
            while !stopped.load(Relaxed) {
                std::hint::spin_loop();
            }
        };
        // The hog is what the LWP runs next.
        let sleeper = rt.spawn(move || {
            let hog = thread::spawn(compute_on);
            wait();
            hog.join().unwrap();
        });
        let id = sleeper.thread().id();
        let state = || rt.threads().iter().find(|it| it.id() == id).map(|it| it.state());
        let until = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        // From here on the sleeper waits, or its wait is over already.
        until(&|| begun.load(Relaxed));
        wake();
        until(&|| !matches!(state(), Some(ThreadState::Waiting { .. })));
        compute(Duration::from_millis(100));
        stop.store(true, Relaxed);
        sleeper.join().unwrap();
        (Recording::take(), id)
    });
    let timeline = Timeline::of(&recording);
    let line = timeline.threads().iter().find(|line| line.id == sleeper).unwrap();
    assert!(line.time_in(State::Runnable) >= Duration::from_millis(90), "{line:?}");
}

/// The monitor ends a sleep whose LWP computes.
#[test]
fn a_sleep_that_the_monitor_ends_is_recorded() {
    let sleep = || thread::sleep(Duration::from_millis(50));
    wakes_beside_a_hog("a_sleep_that_the_monitor_ends_is_recorded", sleep, || ());
}

/// If no LWP looks at descriptors, the thread that keeps the reserve does.
#[cfg(all(target_os = "linux", feature = "net"))]
#[test]
fn a_wake_up_by_a_descriptor_beside_a_hog_is_recorded() {
    use std::io::{Read, Write};
    let (mut reads, mut writes) = selvedge::os::unix::net::UnixStream::pair().unwrap();
    let read = move || reads.read_exact(&mut [0]).unwrap();
    let write = || writes.write_all(&[1]).unwrap();
    wakes_beside_a_hog("a_wake_up_by_a_descriptor_beside_a_hog_is_recorded", read, write);
}

/// What an LWP does without a thread: it looks for work, sleeps, and takes threads from another.
#[test]
fn what_lwps_do_is_recorded() {
    let play = || {
        thread::sleep(Duration::from_millis(20));
        let others = [(); 6].map(|()| thread::spawn(|| compute(Duration::from_millis(5))));
        compute(Duration::from_millis(20));
        others.into_iter().for_each(|thread| thread.join().unwrap());
    };
    recorded("what_lwps_do_is_recorded", 2, play, |recording| {
        let steals = recording.events().iter().filter_map(|event| match (event.kind, event.track) {
            (EventKind::Steal { from }, Track::Lwp { lwp, .. }) => Some((from, lwp)),
            _ => None,
        });
        let steals: Vec<_> = steals.collect();
        assert!(steals.iter().all(|(from, by)| from != by), "{steals:?}");
        let timeline = Timeline::of(recording);
        // It looks for work before it sleeps, and between two naps.
        let pairs = timeline.tracks().iter().flat_map(|line| line.spans.windows(2));
        let mut sleeps = pairs.filter(|pair| pair[1].2 == TrackState::Idle);
        assert!(sleeps.all(|pair| pair[0].2 == TrackState::Searches), "{:?}", timeline.tracks());
        let spans = timeline.tracks().iter().flat_map(|line| &line.spans);
        let longest = |state| spans.clone().filter(|it| it.2 == state).map(|it| it.1 - it.0).max();
        let is_long = |state| longest(state).is_some_and(|longest| longest >= Duration::from_millis(1));
        !steals.is_empty() && longest(TrackState::Searches).is_some() && is_long(TrackState::Idle)
    });
}

/// Of several threads that are woken at once, each is runnable before it runs.
#[test]
fn each_of_several_wake_ups_is_recorded() {
    let play = || {
        let barrier = Arc::new(Barrier::new(5));
        let waiters = [(); 5].map(|()| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || (0..5).for_each(|_| _ = barrier.wait()))
        });
        waiters.into_iter().for_each(|thread| thread.join().unwrap());
    };
    recorded("each_of_several_wake_ups_is_recorded", 1, play, |recording| {
        let timeline = Timeline::of(recording);
        let pairs = timeline.threads().iter().flat_map(|line| line.spans.windows(2));
        let at_barrier = |pair: &&[Span]| pair[0].wait.is_some_and(|(it, _)| it == WaitReason::Barrier);
        let waits: Vec<_> = pairs.filter(at_barrier).collect();
        assert!(waits.iter().all(|pair| pair[1].state != State::Running), "{waits:?}");
        waits.len() >= 15
    });
}

/// A region that was announced is a span of its own.
#[test]
fn announced_regions_are_recorded() {
    let play = || thread::blocking(|| crate::unseen::sleep(Duration::from_millis(2)));
    recorded("announced_regions_are_recorded", 1, play, |recording| {
        let timeline = Timeline::of(recording);
        let spans = timeline.threads().iter().flat_map(|line| line.spans.windows(2));
        let region =
            spans.filter(|pair| pair[0].state == State::InKernel).map(|pair| (pair[0], pair[1].state));
        let region: Vec<_> = region.collect();
        region.iter().any(|(span, then)| span.length() >= Duration::from_millis(1) && *then == State::Running)
    });
}

/// Several runtimes at once have tracks of their own.
#[test]
fn runtimes_are_told_apart() {
    let recording = traced("runtimes_are_told_apart", Level::Events, || {
        let runtimes = [(); 3].map(|()| Mxn::builder().concurrency(1).build().unwrap());
        for (number, rt) in runtimes.iter().enumerate() {
            let named = thread::Builder::new().name(format!("of runtime {number}"));
            rt.spawn_with(named, || thread::sleep(Duration::from_millis(1))).unwrap().join().unwrap();
        }
        Recording::take()
    });
    let runtime_of = |name: &str| {
        let runs = |event: &&selvedge::trace::Event| {
            matches!(event.kind, EventKind::Dispatch { .. })
                && event.thread.and_then(|id| recording.name(id)) == Some(name)
        };
        match recording.events().iter().rev().find(runs).expect("it ran").track {
            Track::Lwp { runtime, .. } => runtime,
            track => panic!("{track:?}"),
        }
    };
    let of = ["of runtime 0", "of runtime 1", "of runtime 2"].map(runtime_of);
    assert!(of[0] < of[1] && of[1] < of[2], "{of:?}");
}

/// A sample has whole lives of some threads, and nothing of the others. Times are counted of all.
#[test]
fn a_sample_has_whole_lives_of_some_threads() {
    const SIXTEEN: NonZeroU32 = NonZeroU32::new(16).unwrap();
    let record = |play: &dyn Fn()| {
        traced("a_sample_has_whole_lives_of_some_threads", Level::Off, || {
            set_sample(SIXTEEN);
            set_level(Level::Events);
            play();
            set_sample(NonZeroU32::MIN);
            Recording::take()
        })
    };
    fn play<R: Runtime>(rt: &R) {
        rt.run(|| {
            let threads: Vec<_> = (0..320)
                .map(|n| {
                    named(&format!("player {n}"), || {
                        thread::yield_now();
                        thread::sleep(Duration::from_micros(100));
                        thread::park();
                    })
                })
                .collect();
            let is_parked = |info: &&ThreadInfo| {
                matches!(info.state(), ThreadState::Waiting { reason: WaitReason::Park, .. })
            };
            let parked = || rt.threads().into_iter().filter(|info| is_parked(&info)).collect::<Vec<_>>();
            let seen = loop {
                let seen = parked();
                if seen.len() == 320 {
                    break seen;
                }
                thread::sleep(Duration::from_millis(1));
            };
            // Each has run twice: at its start, and when it had slept.
            let counted =
                seen.iter().filter(|info| info.times().is_some_and(|it| it.dispatches >= 2)).count();
            for thread in threads {
                thread.thread().unpark();
                thread.join().unwrap();
            }
            // An LWP may have lost its CPU in the middle of a change of times.
            assert!(counted > 300, "{counted}");
        });
    }
    let green = record(&|| play(&Mxn::builder().concurrency(2).build().unwrap()));
    let kernel = record(&|| play(&OneToOne::new().unwrap()));
    for recording in [green, kernel] {
        let mut bytes = Vec::new();
        recording.write(&mut bytes).unwrap();
        let recording = Recording::read(&*bytes).unwrap();
        assert_eq!(recording.sampled(), SIXTEEN);
        let timeline = Timeline::of(&recording);
        let is_player =
            |line: &&ThreadLine| recording.name(line.id).is_some_and(|name| name.starts_with("player"));
        let players: Vec<_> = timeline.threads().iter().filter(is_player).collect();
        // Identities are mixed, so that of 320 threads there are 20, or nearly.
        assert!((10..=30).contains(&players.len()), "{}", players.len());
        for line in &players {
            assert!(line.begins && line.ends, "{line:?}");
            assert!(line.spans.iter().any(|span| span.state == State::Sleeping), "{line:?}");
        }
        assert!(timeline.threads().len() <= players.len() + 2, "others are in it, too");
    }
    let rest = traced("without a sample", Level::Events, || {
        Mxn::builder().concurrency(1).build().unwrap().run(thread::yield_now);
        Recording::take()
    });
    assert_eq!(rest.sampled(), NonZeroU32::MIN);
}

/// What Chrome's format says, by a parser that is not ours. Bars do not overlap on a line, and arrows have
/// two ends. The bars of a thread add up to its life.
#[test]
fn chrome_reads_it() {
    let recording =
        traced("chrome_reads_it", Level::Events, || record(&Mxn::builder().concurrency(2).build().unwrap()));
    let mut json = Vec::new();
    recording.write_chrome(&mut json).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let (mut lines, mut names, mut arrows) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut begun = Vec::new();
    for event in events {
        let line = (event["pid"].as_u64().unwrap(), event["tid"].as_u64());
        match event["ph"].as_str().unwrap() {
            "X" => {
                let bar = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
                lines.entry(line).or_insert_with(Vec::new).push(bar);
            }
            "M" if event["name"] == "thread_name" => {
                names.insert(line, event["args"]["name"].as_str().unwrap().to_owned());
            }
            "s" => assert!(arrows.insert(event["id"].as_u64(), event["ts"].as_f64()).is_none()),
            "f" => {
                let from = arrows.remove(&event["id"].as_u64()).expect("it has a beginning").unwrap();
                assert!(event["ts"].as_f64().unwrap() >= from);
            }
            "i" if event["name"].as_str().unwrap().starts_with("begins") => begun.push(line),
            "C" | "M" | "i" => {}
            other => panic!("{other}"),
        }
    }
    assert!(arrows.is_empty(), "each has an end");
    assert!(begun.len() >= 2 && begun.iter().all(|line| names.contains_key(line)), "{begun:?}");
    let timeline = Timeline::of(&recording);
    for (line, bars) in &lines {
        for pair in bars.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0 + 0.0005, "{pair:?}");
        }
        assert!(names.contains_key(line));
    }
    let lengths: HashMap<_, _> =
        timeline.threads().iter().map(|line| (recording.name(line.id), line.length())).collect();
    let mut compared = 0;
    for (line, name) in names.iter().filter(|((pid, _), _)| *pid == 2) {
        let Some(length) = lengths.get(&Some(name.as_str())) else { continue };
        let sum: f64 = lines[line].iter().map(|bar| bar.1).sum();
        assert!((sum - length.as_secs_f64() * 1e6).abs() < 1.0, "{name}: {sum} {length:?}");
        compared += 1;
    }
    assert!(compared >= 5, "{compared}");
}

/// With more threads than a viewer can draw, the busiest are drawn.
#[test]
fn a_drawing_is_bounded() {
    let recording = traced("a_drawing_is_bounded", Level::Events, || {
        let rt = Mxn::builder().concurrency(2).build().unwrap();
        let threads: Vec<_> = (0..2_500).map(|_| rt.spawn(thread::yield_now)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        Recording::take()
    });
    let mut json = Vec::new();
    recording.write_chrome(&mut json).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let is_line = |event: &&serde_json::Value| event["name"] == "thread_name" && event["pid"] == 2;
    assert_eq!(events.iter().filter(is_line).count(), 1_000);
    // The others are in groups: here, they are all without a name.
    let threads = Timeline::of(&recording).threads().len();
    let groups: HashSet<_> = events
        .iter()
        .filter(|event| event["ph"] == "C" && event["pid"] == 4)
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    let size = |name: &str| name.rsplit_once('(').unwrap().1.trim_end_matches(')').parse::<usize>().unwrap();
    assert_eq!(groups.iter().map(|name| size(name)).sum::<usize>(), threads - 1_000, "{groups:?}");
    let mut perfetto = Vec::new();
    recording.write_perfetto(&mut perfetto).unwrap();
    for name in groups {
        // One for each state that its threads were in.
        let track = format!("{name}: ");
        assert!(perfetto.windows(track.len()).any(|bytes| bytes == track.as_bytes()), "{track}");
    }
}

/// The events that are overwritten are the oldest, and what is left makes sense.
#[test]
fn the_last_events_are_there() {
    let recording = traced("the_last_events_are_there", Level::Events, || {
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        rt.run(|| {
            let other = named("other", || (0..60_000).for_each(|_| thread::yield_now()));
            (0..60_000).for_each(|_| thread::yield_now());
            other.join().unwrap();
            compute(Duration::from_millis(1));
        });
        Recording::take()
    });
    // If the machine is busy, the slot moves, and the threads run on several LWPs.
    let on = |track: &Track| recording.events().iter().filter(|event| event.track == *track).count();
    let counts: Vec<_> = recording.tracks().iter().map(on).collect();
    assert!(counts.iter().any(|&count| count >= 16_000), "{counts:?}");
    assert!(counts.iter().all(|&count| count <= 33_000), "{counts:?}");
    let ends = recording.events().iter().filter(|event| event.kind == EventKind::Exit).count();
    assert!(ends >= 1, "{ends}");
    assert!(recording.events().is_sorted_by_key(|event| event.at));
}
