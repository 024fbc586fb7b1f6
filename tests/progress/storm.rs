//! Many threads block in the kernel at once, unannounced; the others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, thread};

use crate::calls::{Pipe, nanosleep};
use crate::ladder::{ALL, CONTROL, Rung, best_of, on, report, sized};

/// A thread that makes one step a millisecond, and can be asked how far it is.
struct Ticker {
    ticks: Arc<AtomicUsize>,
    handle: thread::JoinHandle<()>,
}

impl Ticker {
    fn start(rt: &Mxn, steps: usize) -> Self {
        let ticks = Arc::new(AtomicUsize::new(0));
        let mine = Arc::clone(&ticks);
        let handle = rt.spawn(move || {
            for _ in 0..steps {
                thread::sleep(Duration::from_millis(1));
                mine.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { ticks, handle }
    }

    fn ticks(&self) -> usize {
        self.ticks.load(Ordering::Relaxed)
    }
}

fn readers(rt: &Mxn, pipe: &Arc<Pipe>, count: usize) -> Vec<thread::JoinHandle<()>> {
    let read = |_| {
        let pipe = Arc::clone(pipe);
        rt.spawn(move || pipe.read())
    };
    (0..count).map(read).collect()
}

#[test]
fn threads_that_read_do_not_stop_one_that_ticks() {
    const READERS: usize = 64;
    on(ALL, "64 threads in read(2)", |rung| {
        let steps = sized(300, 2_000);
        let rt = rung.builder().concurrency(2).build().unwrap();
        let pipe = Arc::new(Pipe::new());
        let readers = readers(&rt, &pipe, READERS);
        let start = Instant::now();
        if rung == Rung::Pinned {
            // A thread stays with its LWP, even if another comes and blocks that: each step is a thread of its own.
            for _ in 0..steps {
                std::thread::sleep(Duration::from_millis(1));
                rt.spawn(|| ()).join().unwrap();
            }
        } else {
            let ticker = Ticker::start(&rt, steps);
            ticker.handle.join().unwrap();
        }
        let each = start.elapsed() / u32::try_from(steps).unwrap();
        report(format_args!("{rung:?}: {steps} steps beside {READERS} blocked readers, {each:?} each"));
        assert!(rt.info().threads >= READERS, "a reader has returned from an empty pipe");
        assert!(rt.info().lwps > READERS, "{:?}", rt.info());
        // One of them may have the other slot still: nobody waits for it.
        assert!(rt.stats().compensated >= READERS as u64 - 1, "{}", rt.stats());
        assert!(each < Duration::from_millis(10), "a millisecond takes {each:?}");
        (0..READERS).for_each(|_| pipe.write());
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// The control: no LWP to move the slot to.
#[test]
fn without_spares_a_thread_that_reads_stops_the_others() {
    on(ALL, "a thread in read(2), no spare", |rung| {
        let rt = rung.builder().concurrency(1).max_lwps(1).build().unwrap();
        let pipe = Arc::new(Pipe::new());
        let readers = readers(&rt, &pipe, 1);
        let ticker = Ticker::start(&rt, 5);
        std::thread::sleep(CONTROL);
        assert_eq!(ticker.ticks(), 0, "the other thread ran without an LWP");
        pipe.write();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        ticker.handle.join().unwrap();
    });
}

/// Starts threads that sleep in the kernel all at once; gives the time until the last has ended.
fn sleepers(rt: &Mxn, count: usize, time: Duration) -> Duration {
    let start = Instant::now();
    let sleepers: Vec<_> = (0..count).map(|_| rt.spawn(move || nanosleep(time))).collect();
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    start.elapsed()
}

#[test]
fn a_thousand_sleep_in_the_kernel_at_once() {
    on(ALL, "1,000 threads in nanosleep", |rung| {
        best_of(
            4,
            &format!("{rung:?}: 1,000 times nanosleep(1 s)"),
            |took| *took < sized(Duration::from_secs(10), Duration::from_secs(2)),
            || {
                let rt = rung.builder().build().unwrap();
                let took = sleepers(&rt, 1_000, Duration::from_secs(1));
                let stats = rt.stats();
                assert!(stats.compensated + stats.concurrency as u64 >= 1_000, "{stats}");
                assert_eq!(stats.bound_reached, 0, "{stats}");
                took
            },
        );
    });
}

/// The control: with two LWPs, two sleep at a time.
#[test]
fn without_spares_sleeps_add_up() {
    on(ALL, "sleeps, no spare", |rung| {
        let time = Duration::from_millis(10);
        let rt = rung.builder().concurrency(2).max_lwps(2).build().unwrap();
        let took = sleepers(&rt, 20, time);
        assert!(took >= 10 * time, "20 threads on 2 LWPs slept {time:?} each in {took:?}");
        assert_eq!(rt.stats().compensated, 0, "{}", rt.stats());
    });
}
