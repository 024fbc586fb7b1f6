//! On which CPUs threads begin to run, and of which runtimes they are.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use selvedge::thread::{Builder, ThreadId, ThreadState};
use selvedge::trace::{EventKind, Level, Recording, Span, State, Timeline, Track, set_level};
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::{allowed, named, traced};

/// Returns what the events should say of a CPU: nothing, where the system does not.
fn known(cpu: usize) -> Option<u32> {
    cfg!(all(target_os = "linux", target_arch = "x86_64")).then_some(cpu as u32)
}

/// Returns the CPUs of the dispatches of a thread.
fn dispatches(recording: &Recording, thread: ThreadId) -> Vec<Option<u32>> {
    let events = recording.events().iter().filter(|event| event.thread == Some(thread));
    let cpus = events.filter_map(|event| match event.kind {
        EventKind::Dispatch { cpu } => Some(cpu),
        _ => None,
    });
    cpus.collect()
}

/// Green threads run where their LWPs do: after a switch to another thread, after a search, and when they
/// leave the kernel.
#[cfg(target_os = "linux")]
#[test]
fn the_cpus_of_green_threads_are_recorded() {
    for cpu in allowed::mine() {
        let (recording, ids, last) = traced("the_cpus_of_green_threads_are_recorded", Level::Events, || {
            let rt = Mxn::builder().concurrency(1).cpus([cpu]).time_slice(None).build().unwrap();
            let lives = || {
                (0..5).for_each(|_| thread::yield_now());
                thread::sleep(Duration::from_millis(2));
                thread::blocking(|| ());
                thread::park();
            };
            // By a thread of the one slot, so that both are there before one of them yields.
            let threads = rt.run(|| [thread::spawn(lives), thread::spawn(lives)]);
            let ids = threads.each_ref().map(|thread| thread.thread().id());
            let parked = || {
                let threads = rt.threads();
                let is_parked = |id: &ThreadId| {
                    let info = threads.iter().find(|info| info.id() == *id);
                    info.is_some_and(|it| {
                        matches!(it.state(), ThreadState::Waiting { reason, .. }
                        if reason == thread::WaitReason::Park)
                    })
                };
                ids.iter().all(is_parked)
            };
            while !parked() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let last = rt.threads().iter().find(|info| info.id() == ids[0]).and_then(|it| it.times()?.cpu);
            for thread in threads {
                thread.thread().unpark();
                thread.join().unwrap();
            }
            (Recording::take(), ids, last)
        });
        for id in ids {
            let found = dispatches(&recording, id);
            assert!(found.len() >= 6 && found.iter().all(|it| *it == known(cpu)), "{cpu}: {found:?}");
        }
        assert_eq!(last, known(cpu));
        let left = recording.events().iter().filter_map(|event| match event.kind {
            EventKind::LeaveKernel { cpu } => Some(cpu),
            _ => None,
        });
        assert_eq!(left.collect::<Vec<_>>(), [known(cpu); 2]);
        // A span on the CPU is one of the thread's, or its beginning: the test's own thread may cut it.
        let timeline = Timeline::of(&recording);
        let line = timeline.cpus().iter().find(|line| Some(line.cpu) == known(cpu));
        let spans: Vec<_> =
            line.iter().flat_map(|line| &line.spans).filter(|it| ids.contains(&it.2)).collect();
        for &&(from, to, id, track) in &spans {
            let line = timeline.threads().iter().find(|line| line.id == id).unwrap();
            let runs = |it: &&Span| it.state == State::Running && it.track == Some(track) && it.from == from;
            assert!(line.spans.iter().filter(runs).any(|it| it.to >= to), "{from:?} {to:?} {line:?}");
        }
        if known(cpu).is_some() {
            assert!(spans.len() >= 12, "{spans:?}");
            let mut json = Vec::new();
            recording.write_chrome(&mut json).unwrap();
            assert!(String::from_utf8(json).unwrap().contains(&format!("\"CPU {cpu}\"")));
            let mut perfetto = Vec::new();
            recording.write_perfetto(&mut perfetto).unwrap();
            let name = format!("CPU {cpu}");
            assert!(perfetto.windows(name.len()).any(|bytes| bytes == name.as_bytes()));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_cpus_of_kernel_threads_are_recorded() {
    for cpu in allowed::mine() {
        let (recording, id) = traced("the_cpus_of_kernel_threads_are_recorded", Level::Events, || {
            let rt = OneToOne::new().unwrap();
            let sleeps = || (0..5).for_each(|_| thread::sleep(Duration::from_millis(1)));
            let thread = rt.spawn_with(Builder::new().affinity([cpu]), sleeps).unwrap();
            let id = thread.thread().id();
            thread.join().unwrap();
            (Recording::take(), id)
        });
        let found = dispatches(&recording, id);
        // It may begin before its affinity is set.
        assert!(found.len() == 6 && found[1..].iter().all(|it| *it == known(cpu)), "{cpu}: {found:?}");
    }
}

/// A thread is of a runtime also if it has not run: its start says so, or its wake-up.
#[test]
fn threads_are_of_their_runtimes() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let hog = || {
        while !STOP.load(Relaxed) {
            std::hint::spin_loop();
        }
    };
    let parks = || {
        let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
        let parked = rt.spawn(thread::park);
        while !matches!(rt.threads()[0].state(), ThreadState::Waiting { .. }) {
            std::thread::sleep(Duration::from_millis(1));
        }
        (rt, parked)
    };
    // They park before anything is recorded.
    let runtimes = [parks(), parks()];
    let one = OneToOne::new().unwrap();
    let recording = traced("threads_are_of_their_runtimes", Level::Off, || {
        set_level(Level::Events);
        let mut woken_and_new = Vec::new();
        let mut threads = Vec::new();
        for (rt, parked) in runtimes {
            let hog = rt.spawn_with(Builder::new().name("hog".into()), hog).unwrap();
            let id = hog.thread().id();
            let runs = || {
                rt.threads()
                    .iter()
                    .any(|it| it.id() == id && matches!(it.state(), ThreadState::Running { .. }))
            };
            while !runs() {
                std::thread::sleep(Duration::from_millis(1));
            }
            parked.thread().unpark();
            let new = rt.spawn(|| ());
            woken_and_new.push((id, parked.thread().id(), new.thread().id()));
            threads.push((rt, [hog, parked, new]));
        }
        let own = one.run(|| named("kernel", || thread::current().id()).join().unwrap());
        let recording = Recording::take();
        STOP.store(true, Relaxed);
        threads.into_iter().for_each(|(_, threads)| threads.into_iter().for_each(|it| it.join().unwrap()));
        let of = woken_and_new.iter().map(|&(hog, woken, new)| {
            for id in [woken, new] {
                assert_eq!(dispatches(&recording, id), [], "the hog has the LWP");
            }
            let of = [hog, woken, new].map(|id| recording.runtime_of(id));
            assert!(of[0].is_some() && of.iter().all(|it| *it == of[0]), "{of:?}");
            of[0].unwrap()
        });
        let of: Vec<_> = of.collect();
        assert!(of[0] < of[1], "{of:?}");
        assert_eq!(recording.runtime_of(own), None);
        let on_lwp = recording.events().iter().filter_map(|it| Some((it.thread?, it.track)));
        let hog_of = |id| woken_and_new.iter().find(|it| it.0 == id).map(|_| recording.runtime_of(id));
        for (id, track) in on_lwp {
            if let (Some(of), Track::Lwp { runtime, .. }) = (hog_of(id), track) {
                assert_eq!(of, Some(runtime));
            }
        }
        // Two threads are queued in each, from the wake-up on.
        let mut json = Vec::new();
        recording.write_chrome(&mut json).unwrap();
        (json, of)
    });
    let (json, of) = recording;
    let trace: serde_json::Value = serde_json::from_slice(&json).unwrap();
    for runtime in of {
        let name = format!("runnable threads of runtime {runtime}");
        let counts = trace["traceEvents"].as_array().unwrap().iter().filter(|it| it["name"] == name.as_str());
        let most = counts.map(|it| it["args"]["threads"].as_u64().unwrap()).max();
        assert_eq!(most, Some(2), "{name}");
    }
}
