//! A thread that has lost its slice holds a lock of the loader, and forty others want it. Each of these
//! sleeps in the kernel, on an LWP of its own, until the holder runs.

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::mxn::Builder;
use selvedge::{Runtime, thread};

use crate::calls::{Scratch, check};
use crate::hogs::Hogs;
use crate::ladder::{ALL, MIGRATING, ThreadRegister, builder, full, on, report, sized};
use crate::waiting::soon;

/// How often the holder looks at the clock, for some 100 ms of computing: many slices.
const LOOKS: u32 = 3_000_000;
const THREADS: usize = 40;

/// A library with this constructor, which the loader runs with its lock held. `None`, with words, where
/// there is no C compiler.
fn library(constructor: &str) -> Option<Scratch> {
    let (source, library) = (Scratch::new("hold.c"), Scratch::new("hold.so"));
    let text = format!(
        "#include <fcntl.h>
         #include <time.h>
         #include <unistd.h>
         __attribute__((constructor)) static void hold(void) {{ {constructor} }}"
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

/// A library with a constructor that computes.
fn that_computes() -> Option<Scratch> {
    library(&format!(
        "struct timespec t; for (int i = 0; i < {LOOKS}; i++) clock_gettime(CLOCK_MONOTONIC, &t);"
    ))
}

fn named(file: &Scratch) -> CString {
    CString::new(file.0.to_str().expect("a name of ours")).unwrap()
}

/// Has the loader load it, and forget it again.
fn load(library: &CStr) {
    // SAFETY: its constructor computes or waits, and does nothing else.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    // SAFETY: opened above, and nothing of it is used.
    assert_eq!(unsafe { libc::dlclose(handle) }, 0);
}

/// Wants the loader's lock.
fn look_up() {
    // SAFETY: a name that ends; the loader takes its lock to look for it.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) };
    assert!(!found.is_null());
}

/// What happened.
#[derive(Debug)]
struct Convoy {
    /// Steps of one that does not want the lock, after another thread wanted it and before any got it.
    steps: usize,
    /// Until all had got it.
    took: Duration,
    /// How slots moved meanwhile.
    slots: [(&'static str, u64); 3],
}

fn convoy(builder: Builder, library: &Scratch) -> Convoy {
    let rt = builder.build().unwrap();
    let name = named(library);
    // They want what slices there are.
    let hogs = rt.stats().max_lwps.is_some_and(|most| most > 2).then(|| Hogs::start(&rt));
    let [begun, wanted, through, steps] = [(); 4].map(|()| Arc::new(AtomicUsize::new(0)));
    let start = Instant::now();
    let holder = {
        let begun = Arc::clone(&begun);
        rt.spawn(move || {
            begun.store(1, Ordering::Relaxed);
            load(&name);
        })
    };
    while begun.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    // By now it is in the constructor.
    std::thread::sleep(Duration::from_millis(1));
    let other = {
        let (steps, wanted, through) = (Arc::clone(&steps), Arc::clone(&wanted), Arc::clone(&through));
        rt.spawn(move || {
            while through.load(Ordering::Relaxed) == 0 {
                // Those that want the lock may be spawned late, if other processes have the CPUs.
                let counts = wanted.load(Ordering::Relaxed) > 0;
                thread::sleep(Duration::from_millis(1));
                steps.fetch_add(usize::from(counts), Ordering::Relaxed);
            }
        })
    };
    let wanting = |_| {
        let (wanted, through) = (Arc::clone(&wanted), Arc::clone(&through));
        rt.spawn(move || {
            wanted.store(1, Ordering::Relaxed);
            look_up();
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

/// All get through, and meanwhile a thread that wants nothing of the loader goes on.
#[test]
fn forty_behind_a_preempted_holder_get_through() {
    let Some(library) = that_computes() else { return };
    on(ALL, "a convoy behind the loader's lock", |rung| {
        let rounds = sized(3, 100);
        let (mut steps, mut took) = (0, Vec::new());
        for _ in 0..rounds {
            let convoy = convoy(builder(rung).concurrency(2), &library);
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
        assert!(
            rung == ThreadRegister::Pinned || steps > 5 * rounds,
            "only {steps} steps beside {rounds} convoys"
        );
    });
}

/// There are fewer LWPs than threads that sleep behind the lock, and no more can be made. The threads are
/// taken out of their system calls in turn, until the holder runs.
#[test]
fn four_lwps_will_do_for_a_convoy() {
    let Some(library) = that_computes() else { return };
    on(MIGRATING, "a convoy, four LWPs", |rung| {
        let convoy = convoy(builder(rung).concurrency(2).max_lwps(4), &library);
        report(format_args!("{rung:?}: {convoy:?}"));
    });
}

/// The control: two LWPs, one with the holder and one that sleeps behind it. No other thread runs before
/// the holder is through.
#[test]
fn without_spares_the_convoy_stops_all_threads() {
    let Some(library) = that_computes() else { return };
    on(ALL, "a convoy, no spare", |rung| {
        let convoy = convoy(builder(rung).concurrency(2).max_lwps(2).time_slice(None), &library);
        report(format_args!("{rung:?}: {convoy:?}"));
        assert!(convoy.steps <= 1, "a thread ran without an LWP: {convoy:?}");
    });
}

/// Spares are made however long the loader's lock is held. The code that starts an LWP never acquires it,
/// and neither does a thread that waits for that. (The destructor of a thread-local is registered under
/// that lock. The thread that keeps the reserve once waited by std's channel, which has such a destructor.
/// Then all LWPs slept behind a holder that had lost its slice, and none was there to run it.)
#[test]
fn the_reserve_grows_while_the_loader_is_locked() {
    let gate = Scratch::new("gate");
    // SAFETY: a name that ends.
    check(unsafe { libc::mkfifo(named(&gate).as_ptr(), 0o600) });
    let path = gate.0.display();
    let waits =
        format!("int gate = open(\"{path}\", O_RDONLY); char end; (void) !read(gate, &end, 1); close(gate);");
    let Some(library) = library(&waits) else { return };
    on(ALL, "spares behind the loader's lock", |rung| {
        let rt = builder(rung).concurrency(2).build().unwrap();
        let name = named(&library);
        let holder = rt.spawn(move || load(&name));
        // Opened when the constructor has opened it; from then on that waits for its end.
        let held = OpenOptions::new().write(true).open(&gate.0).unwrap();
        let wanting: Vec<_> = (0..THREADS).map(|_| rt.spawn(look_up)).collect();
        soon("more LWPs", &rt, |stats| stats.lwps.len() > THREADS);
        rt.spawn(|| ()).join().unwrap();
        // Closed by a function that was not called before. If it is answered (feature `interpose`), the C
        // library's must have been found already: the loader would be asked with its lock.
        let nowhere = File::open("/dev/null").unwrap();
        // SAFETY: two open descriptors.
        check(unsafe { libc::dup3(nowhere.as_raw_fd(), held.as_raw_fd(), libc::O_CLOEXEC) });
        holder.join().unwrap();
        wanting.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
