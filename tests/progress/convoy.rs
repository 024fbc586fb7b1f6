//! A lock of the loader is held by a thread that has lost its slice, and forty others want it: each sleeps in the kernel, on an
//! LWP of its own, until somebody runs the holder.

use std::ffi::CString;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::mxn::Builder;
use selvedge::{Runtime, thread};

use crate::calls::Scratch;
use crate::hogs::Hogs;
use crate::ladder::{ALL, Rung, full, on, report, sized};

/// How often the holder looks at the clock, for some 40 ms of computing: several slices.
const LOOKS: u32 = 1_000_000;
const THREADS: usize = 40;

/// A library whose constructor computes; the loader's lock is held meanwhile. `None`, with words, where there is no C compiler.
fn library() -> Option<Scratch> {
    let (source, library) = (Scratch::new("hold.c"), Scratch::new("hold.so"));
    let text = format!(
        "#include <time.h>
         __attribute__((constructor)) static void hold(void) {{
             struct timespec t; for (int i = 0; i < {LOOKS}; i++) clock_gettime(CLOCK_MONOTONIC, &t);
         }}"
    );
    std::fs::write(&source.0, text).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut cc = Command::new(compiler);
    match cc.args(["-x", "c", "-shared", "-fPIC", "-o"]).args([&library.0, &source.0]).output() {
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            Some(library)
        }
        Err(error) => {
            println!("skipped: no C compiler to make a library with: {error}");
            None
        }
    }
}

/// What happened.
#[derive(Debug)]
struct Convoy {
    /// Steps of one that does not want the lock, before anybody got it.
    steps: usize,
    /// Until all had got it.
    took: Duration,
    /// How slots moved meanwhile.
    slots: [(&'static str, u64); 3],
}

fn convoy(builder: Builder, library: &Scratch) -> Convoy {
    let rt = builder.build().unwrap();
    let name = CString::new(library.0.to_str().unwrap()).unwrap();
    // They want what slices there are.
    let hogs = rt.stats().max_lwps.is_some_and(|most| most > 2).then(|| Hogs::start(&rt));
    let [begun, through, steps] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let start = Instant::now();
    let holder = {
        let begun = Arc::clone(&begun);
        rt.spawn(move || {
            begun.store(1, Ordering::Relaxed);
            // SAFETY: the constructor computes and does nothing else.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
            assert!(!handle.is_null());
            // SAFETY: opened above, and nothing of it is used.
            assert_eq!(unsafe { libc::dlclose(handle) }, 0);
        })
    };
    while begun.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    // By now it is in the constructor.
    std::thread::sleep(Duration::from_millis(1));
    let other = {
        let (steps, through) = (Arc::clone(&steps), Arc::clone(&through));
        rt.spawn(move || {
            while through.load(Ordering::Relaxed) == 0 {
                thread::sleep(Duration::from_millis(1));
                steps.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let wanting = |_| {
        let through = Arc::clone(&through);
        rt.spawn(move || {
            // SAFETY: a name that ends; the loader takes its lock to look for it.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) };
            assert!(!found.is_null());
            through.fetch_add(1, Ordering::Relaxed);
        })
    };
    let threads: Vec<_> = (0..THREADS).map(wanting).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let took = start.elapsed();
    holder.join().unwrap();
    other.join().unwrap();
    drop(hogs);
    let stats = rt.stats();
    let slots =
        [("preempted", stats.preempted), ("handed off", stats.handed_off), ("blocked", stats.compensated)];
    Convoy { steps: steps.load(Ordering::Relaxed), took, slots }
}

/// All get through, and meanwhile who wants nothing of the loader goes on.
#[test]
fn forty_behind_a_preempted_holder_get_through() {
    let Some(library) = library() else { return };
    on(ALL, "a convoy behind the loader's lock", |rung| {
        let rounds = sized(3, 100);
        let (mut steps, mut took) = (0, Vec::new());
        for _ in 0..rounds {
            let convoy = convoy(rung.builder().concurrency(2), &library);
            if !full() {
                report(format_args!("{rung:?}: {convoy:?}"));
            }
            let [(_, preempted), (_, handed_off), (_, blocked)] = convoy.slots;
            assert!(preempted + handed_off + blocked > 0, "all kept their slots");
            assert!(convoy.took < Duration::from_secs(20), "{convoy:?}");
            steps += convoy.steps;
            took.push(convoy.took);
        }
        took.sort();
        let (half, most) = (took[took.len() / 2], took[took.len() - 1]);
        report(format_args!("{rung:?}: {rounds} convoys: half within {half:.0?}, all within {most:.0?}"));
        // In one or the other it may stand behind all forty.
        assert!(rung == Rung::Pinned || steps > 5 * rounds, "only {steps} steps beside {rounds} convoys");
    });
}

/// The control: two LWPs, one with the holder and one that sleeps behind it; nobody else runs before that is through.
#[test]
fn without_spares_the_convoy_stops_everybody() {
    let Some(library) = library() else { return };
    on(ALL, "a convoy, no spare", |rung| {
        let convoy = convoy(rung.builder().concurrency(2).max_lwps(2).time_slice(None), &library);
        report(format_args!("{rung:?}: {convoy:?}"));
        assert!(convoy.steps <= 1, "somebody ran without an LWP: {convoy:?}");
    });
}
