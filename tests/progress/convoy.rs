//! A lock of the loader is held by a thread that has lost its slice, and forty others want it: each sleeps in the kernel, on an
//! LWP of its own, until somebody runs the holder.

use std::ffi::CString;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::mxn::Builder;
use selvedge::{Runtime, thread};

use crate::calls::Scratch;
use crate::ladder::{ALL, Rung, on, report, sized};

/// How long the holder computes: many slices.
const HELD: Duration = Duration::from_millis(100);
const THREADS: usize = 40;

/// A library whose constructor computes; the loader's lock is held meanwhile. `None`, with words, where there is no C compiler.
fn library() -> Option<Scratch> {
    let (source, library) = (Scratch::new("hold.c"), Scratch::new("hold.so"));
    let text = format!(
        "#include <time.h>
         static long now(void) {{
             struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec;
         }}
         __attribute__((constructor)) static void hold(void) {{ long end = now() + {}L; while (now() < end); }}",
        HELD.as_nanos()
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
    /// Threads that got the lock, and steps of one that does not want it, when the holder had it for half of its time.
    through: usize,
    steps: usize,
    /// Until all had got it.
    took: Duration,
}

fn convoy(builder: Builder, library: &Scratch) -> Convoy {
    let rt = builder.build().unwrap();
    let name = CString::new(library.0.to_str().unwrap()).unwrap();
    let held = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let holder = {
        let held = Arc::clone(&held);
        rt.spawn(move || {
            held.store(true, Ordering::Relaxed);
            // SAFETY: the constructor computes and does nothing else.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
            assert!(!handle.is_null());
            // SAFETY: opened above, and nothing of it is used.
            assert_eq!(unsafe { libc::dlclose(handle) }, 0);
        })
    };
    while !held.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    // By now it is in the constructor; if not, too many come through below.
    std::thread::sleep(HELD / 20);
    let through = Arc::new(AtomicUsize::new(0));
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
    let steps = Arc::new(AtomicUsize::new(0));
    let other = {
        let steps = Arc::clone(&steps);
        rt.spawn(move || {
            for _ in 0..20 {
                thread::sleep(Duration::from_millis(1));
                steps.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    std::thread::sleep((HELD / 2).saturating_sub(start.elapsed()));
    let seen = (through.load(Ordering::Relaxed), steps.load(Ordering::Relaxed));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let took = start.elapsed();
    holder.join().unwrap();
    other.join().unwrap();
    Convoy { through: seen.0, steps: seen.1, took }
}

/// All get through, and meanwhile who wants nothing of the loader goes on.
#[test]
fn forty_behind_a_preempted_holder_get_through() {
    let Some(library) = library() else { return };
    on(ALL, "a convoy behind the loader's lock", |rung| {
        for _ in 0..sized(3, 100) {
            let convoy = convoy(rung.builder().concurrency(2), &library);
            report(format_args!("{rung:?}: {convoy:?}"));
            assert_eq!(convoy.through, 0, "the lock did not exclude, or its holder was through too early");
            if rung != Rung::Pinned {
                assert!(convoy.steps > 0, "nobody ran beside the convoy");
            }
            assert!(convoy.took < Duration::from_secs(5), "{convoy:?}");
        }
    });
}

/// The control: two LWPs, one with the holder and one that sleeps; nobody else runs.
#[test]
fn without_spares_the_convoy_stops_everybody() {
    let Some(library) = library() else { return };
    on(ALL, "a convoy, no spare", |rung| {
        let convoy = convoy(rung.builder().concurrency(2).max_lwps(2).time_slice(None), &library);
        assert_eq!((convoy.through, convoy.steps), (0, 0), "somebody ran without an LWP");
    });
}
