use super::*;
use crate::park::priority::Priority;

const LWP: Track = Track::Lwp { runtime: 1, lwp: 0 };

fn id(number: u64) -> ThreadId {
    ThreadId::from_number(number.try_into().unwrap())
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// Returns the timeline of events, each a time in us, a thread, and what happened on `LWP`.
fn timeline(events: &[(u64, u64, EventKind)]) -> Timeline {
    Timeline::of(&recording(events))
}

fn recording(events: &[(u64, u64, EventKind)]) -> Recording {
    let events = events.iter().map(|&(at, thread, kind)| Event {
        at: us(at),
        track: LWP,
        thread: (thread != 0).then(|| id(thread)),
        kind,
    });
    Recording::from_events(events.collect())
}

fn states(line: &ThreadLine) -> Vec<(u64, State)> {
    line.spans.iter().map(|span| (span.length().as_micros() as u64, span.state)).collect()
}

#[test]
fn a_life_is_a_line_of_spans() {
    let mutex = EventKind::Block { reason: WaitReason::Mutex, at: Some(0x10) };
    let timeline = timeline(&[
        (0, 1, EventKind::Spawn { by: None, priority: Priority::Normal }),
        (2, 1, EventKind::Dispatch { cpu: None }),
        (5, 1, EventKind::EnterKernel),
        (6, 1, EventKind::LeaveKernel { cpu: None }),
        (10, 1, mutex),
        (10, 0, EventKind::Search),
        (12, 0, EventKind::Idle),
        (20, 1, EventKind::Ready { by: Some(id(2)), chosen: true }),
        (21, 1, EventKind::Dispatch { cpu: None }),
        (30, 1, EventKind::Preempt),
        (31, 1, EventKind::Dispatch { cpu: None }),
        (33, 1, EventKind::Exit),
        (40, 2, EventKind::Dispatch { cpu: None }),
    ]);
    let line = &timeline.threads()[0];
    assert_eq!(
        states(line),
        [
            (2, State::Runnable),
            (3, State::Running),
            (1, State::InKernel),
            (4, State::Running),
            (10, State::Blocked),
            (1, State::Dispatchable),
            (9, State::Running),
            (1, State::Runnable),
            (2, State::Running),
        ]
    );
    assert!(line.begins && line.ends && line.preemptions == 1);
    assert_eq!(State::ALL.iter().map(|&state| line.time_in(state)).sum::<Duration>(), line.length());
    assert_eq!(line.spans[4].wait, Some((WaitReason::Mutex, Some(0x10))));
    assert_eq!(timeline.wakes()[0].ran, Some((us(21), LWP)));
    let [track] = timeline.tracks() else { panic!("one LWP") };
    let lwp: Vec<_> = track.spans.iter().map(|&(from, to, state)| ((to - from).as_micros(), state)).collect();
    assert_eq!(
        lwp,
        [
            (8, TrackState::Runs(id(1))),
            (2, TrackState::Searches),
            (9, TrackState::Idle),
            (9, TrackState::Runs(id(1))),
            (2, TrackState::Runs(id(1))),
            (0, TrackState::Runs(id(2))),
        ]
    );
}

/// A waker on another LWP comes between a thread's publication and the end of its stop.
#[test]
fn an_early_waker_leaves_no_time_blocked() {
    let timeline = timeline(&[
        (0, 1, EventKind::Dispatch { cpu: None }),
        (5, 1, EventKind::Ready { by: None, chosen: false }),
        (6, 1, EventKind::Block { reason: WaitReason::Park, at: None }),
        (9, 1, EventKind::Dispatch { cpu: None }),
        (9, 1, EventKind::Block { reason: WaitReason::Park, at: None }),
        (15, 0, EventKind::Search),
    ]);
    let line = &timeline.threads()[0];
    assert_eq!(
        states(line),
        [(6, State::Running), (3, State::Runnable), (0, State::Running), (6, State::Blocked)]
    );
    assert!(!line.begins && !line.ends);
    assert_eq!(timeline.wakes()[0].ran, Some((us(9), LWP)));
}

/// A kernel thread may run, and wait again or end, before its waker has told of the wake-up.
#[test]
fn a_waker_that_is_late_does_not_end_the_next_wait_of_a_kernel_thread() {
    let (own, waker) = (Track::Kernel(1), Track::Kernel(2));
    let (runs, ready) = (EventKind::Dispatch { cpu: None }, EventKind::Ready { by: None, chosen: true });
    let park = EventKind::Block { reason: WaitReason::Park, at: None };
    let events = [
        (0, own, runs),
        (2, own, park),
        (3, own, runs),
        (4, waker, ready),
        (5, own, park),
        (50, own, runs),
        (52, own, EventKind::Exit),
        (53, waker, ready),
    ];
    let events = events.map(|(at, track, kind)| Event { at: us(at), track, thread: Some(id(1)), kind });
    let timeline = Timeline::of_events(&events, us(60));
    let (runs, waits) = (State::Running, State::Blocked);
    assert_eq!(states(&timeline.threads()[0]), [(2, runs), (1, waits), (2, runs), (45, waits), (2, runs)]);
}

/// In a sample, an LWP that does nothing that is recorded runs other threads.
#[test]
fn an_lwp_of_a_sample_runs_others() {
    let events = [
        (0, 0, EventKind::Search),
        (3, 0, EventKind::Dispatch { cpu: None }),
        (5, 1, EventKind::Dispatch { cpu: None }),
        (6, 1, EventKind::Yield),
        (8, 1, EventKind::Dispatch { cpu: None }),
        (9, 1, EventKind::Exit),
        (9, 0, EventKind::Search),
        (10, 0, EventKind::Idle),
    ];
    let tracks = |recording: &Recording| {
        let timeline = Timeline::of(recording);
        let [track] = timeline.tracks() else { panic!("one LWP") };
        track.spans.iter().map(|&(from, _, state)| (from.as_micros(), state)).collect::<Vec<_>>()
    };
    let (runs, others) = (TrackState::Runs(id(1)), TrackState::RunsOthers);
    let idle = [(9, TrackState::Searches), (10, TrackState::Idle)];
    let first = [(0, TrackState::Searches), (3, others), (5, runs), (6, others), (8, runs)];
    assert_eq!(tracks(&recording(&events).sampled_by(2)), [&first[..], &idle].concat());
    // If all threads are recorded, there is nothing between two of them.
    let whole =
        [(0, 0, EventKind::Search), (5, 1, EventKind::Dispatch { cpu: None }), (6, 1, EventKind::Yield)];
    let first = [(0, TrackState::Searches), (5, runs)];
    assert_eq!(tracks(&recording(&whole)), first);
}

/// A CPU has the thread that last began to run on it, until that stops or enters the kernel.
#[test]
fn the_line_of_a_cpu_has_one_thread_at_a_time() {
    let [one, other] = [0, 1].map(|lwp| Track::Lwp { runtime: 1, lwp });
    let runs = |cpu| EventKind::Dispatch { cpu: Some(cpu) };
    let events = [
        (0, one, 1, runs(3)),
        (2, other, 2, runs(5)),
        (4, one, 1, EventKind::EnterKernel),
        (6, one, 1, EventKind::LeaveKernel { cpu: Some(5) }),
        // The LWP that has lost the CPU goes on at some time, of which nothing tells.
        (8, other, 2, EventKind::Yield),
        (9, other, 3, runs(3)),
        (10, one, 1, EventKind::Block { reason: WaitReason::Park, at: None }),
        (11, one, 4, EventKind::Dispatch { cpu: None }),
        (12, one, 4, EventKind::Exit),
        (20, one, 5, runs(5)),
    ];
    let events =
        events.map(|(at, track, thread, kind)| Event { at: us(at), track, thread: Some(id(thread)), kind });
    let timeline = Timeline::of_events(&events, us(30));
    let lines = timeline.cpus().iter().map(|line| {
        let spans = line.spans.iter().map(|&(from, to, id, track)| {
            (from.as_micros(), to.as_micros(), id.as_u64().get(), track == one)
        });
        (line.cpu, spans.collect::<Vec<_>>())
    });
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            (3, vec![(0, 4, 1, true), (9, 30, 3, false)]),
            (5, vec![(2, 6, 2, false), (6, 10, 1, true), (20, 30, 5, true)])
        ]
    );
}

/// The monitor's look may be late, and may find a thread that has announced its sleep.
#[test]
fn a_sleep_that_the_monitor_has_found_is_one_of_a_thread_that_runs_there() {
    let asleep = EventKind::FoundAsleep { runtime: 1, lwp: 0 };
    let awake = |cpu| EventKind::FoundRunning { runtime: 1, lwp: 0, cpu };
    let elsewhere = EventKind::FoundAsleep { runtime: 1, lwp: 1 };
    let runs = EventKind::Dispatch { cpu: Some(2) };
    let timeline = timeline(&[
        (0, 1, asleep),
        (1, 1, runs),
        (2, 1, awake(Some(7))),
        (3, 1, elsewhere),
        (4, 1, asleep),
        (6, 1, asleep),
        (9, 1, awake(Some(5))),
        (12, 1, EventKind::Yield),
        (13, 1, asleep),
        (14, 1, runs),
        (15, 1, EventKind::EnterKernel),
        (16, 1, asleep),
        (17, 1, awake(None)),
        (18, 1, EventKind::LeaveKernel { cpu: Some(2) }),
        (19, 1, asleep),
        (21, 1, EventKind::Block { reason: WaitReason::Park, at: None }),
        (22, 1, awake(None)),
        (30, 2, asleep),
    ]);
    let [line] = timeline.threads() else { panic!("nothing is known of the other thread") };
    assert_eq!(
        states(line),
        [
            (3, State::Running),
            (5, State::InKernel),
            (3, State::Running),
            (2, State::Runnable),
            (1, State::Running),
            (3, State::InKernel),
            (1, State::Running),
            (2, State::InKernel),
            (9, State::Blocked),
        ]
    );
    let is_on = |state| matches!(state, State::Running | State::InKernel);
    assert!(line.spans.iter().all(|span| span.track == is_on(span.state).then_some(LWP)), "{line:?}");
    let cpus = timeline.cpus().iter().map(|line| {
        let spans = line.spans.iter().map(|&(from, to, ..)| (from.as_micros(), to.as_micros()));
        (line.cpu, spans.collect::<Vec<_>>())
    });
    assert_eq!(cpus.collect::<Vec<_>>(), [(2, vec![(1, 4), (14, 15), (18, 19)]), (5, vec![(9, 12)])]);
}

/// After its end, an LWP does nothing, until another kernel thread takes its place.
#[test]
fn the_line_of_an_lwp_has_a_gap_after_its_end() {
    let timeline = timeline(&[
        (0, 0, EventKind::LwpStart { tid: 70 }),
        (2, 0, EventKind::Spare),
        (5, 0, EventKind::Search),
        (6, 0, EventKind::LwpEnd),
        (10, 0, EventKind::LwpStart { tid: 71 }),
        (11, 0, EventKind::Search),
        // Its end is missing.
        (20, 0, EventKind::LwpStart { tid: 72 }),
        (30, 1, EventKind::Dispatch { cpu: None }),
    ]);
    let [track] = timeline.tracks() else { panic!("one LWP") };
    let spans = track.spans.iter().map(|&(from, to, state)| (from.as_micros(), to.as_micros(), state));
    assert_eq!(
        spans.collect::<Vec<_>>(),
        [
            (2, 5, TrackState::Spare),
            (5, 6, TrackState::Searches),
            (11, 20, TrackState::Searches),
            (30, 30, TrackState::Runs(id(1)))
        ]
    );
}

#[test]
fn nothing_is_a_timeline_too() {
    let timeline = timeline(&[]);
    assert!(timeline.threads().is_empty() && timeline.tracks().is_empty() && timeline.end().is_zero());
}
