//! Dumps with backtraces: what they show of threads that park, compute, and block in the kernel.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use selvedge::mxn::Builder;
use selvedge::threadmon::{Dump, dump};
use selvedge::{Mxn, OneToOne, Runtime, ThreadRegister, thread};

use super::seen::{CHAIN, Seen, json, named, until};
use super::{ErrorFile, run};

/// This build has backtraces.
const HERE: bool = cfg!(all(
    feature = "backtraces",
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
));

#[inline(never)]
fn outermost(f: &dyn Fn()) {
    midmost(f);
    black_box(());
}

#[inline(never)]
fn midmost(f: &dyn Fn()) {
    innermost(f);
    black_box(());
}

#[inline(never)]
fn innermost(f: &dyn Fn()) {
    f();
    black_box(());
}

/// Tries something on each rung that this machine has.
pub(super) fn on_rungs(builder: &Builder, scenario: impl Fn(&Mxn, ThreadRegister)) {
    for rung in [ThreadRegister::Switched, ThreadRegister::Syscall, ThreadRegister::Pinned] {
        let builder = match rung {
            // SAFETY: the threads of these tests keep nothing in thread-locals.
            ThreadRegister::Pinned => unsafe { builder.clone().pinned() },
            _ => builder.clone().thread_register(rung),
        };
        match builder.build() {
            Ok(rt) => scenario(&rt, rung),
            Err(error) => println!("skipped: {rung:?}: {error}"),
        }
    }
}

/// Parks a thread below the three functions, and returns what a dump says of it.
fn park_below(rt: &impl Runtime, builder: thread::Builder) -> Seen {
    let parked = rt.spawn_with(builder.name("deep".into()), || outermost(&thread::park)).unwrap();
    let seen = until("deep", |seen| seen.state == "blocked" && seen.functions.len() > 3);
    parked.thread().unpark();
    parked.join().unwrap();
    seen
}

pub(super) fn parked() {
    on_rungs(&Mxn::builder(), |rt, _| {
        let seen = park_below(rt, thread::Builder::new());
        seen.expect(&CHAIN);
        seen.expect_complete();
        assert!(
            seen.functions.iter().any(|name| name.rsplit("::").next() == Some("park")),
            "{:?}",
            seen.functions
        );
        park_below(rt, thread::Builder::new().bound(true)).expect(&CHAIN);
    });
    park_below(&OneToOne::new().unwrap(), thread::Builder::new()).expect(&CHAIN);
}

#[test]
fn a_parked_thread_shows_its_callers() {
    run_here("parked");
}

#[inline(never)]
fn computes(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        std::hint::spin_loop();
    }
}

/// Lets a thread compute below the three functions, and returns what a dump says of it.
fn compute_below(rt: &impl Runtime) -> Seen {
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    let busy = rt.spawn_with(named("busy"), move || outermost(&|| computes(&theirs))).unwrap();
    let seen = until("busy", |seen| {
        seen.note.as_deref().is_some_and(|note| note.contains("on a CPU")) || seen.own().contains(&"computes")
    });
    stop.store(true, Relaxed);
    busy.join().unwrap();
    seen
}

pub(super) fn computing() {
    on_rungs(&Mxn::builder().concurrency(1), |rt, rung| {
        let seen = compute_below(rt);
        if rt.stats().preempts_by_signal {
            seen.expect(&["computes", CHAIN[0], CHAIN[1], CHAIN[2]]);
            seen.expect_complete();
        } else {
            assert!(seen.functions.is_empty() && !matches!(rung, ThreadRegister::Switched), "{rung:?}");
        }
    });
    let seen = compute_below(&OneToOne::new().unwrap());
    assert!(seen.functions.is_empty() && seen.note.is_some(), "it is sent no signal");
}

#[inline(never)]
fn computes_in_turns(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        // Longer than a slice. A thread whose slot was handed off comes back by the yield.
        for _ in 0..2_000_000 {
            std::hint::spin_loop();
        }
        thread::yield_now();
    }
}

/// Threads compute in turns, because their slices end. One that waits for its turn has the frames of the
/// preemption above its own, which were interrupted at any instruction.
pub(super) fn preempted() {
    static STOP: AtomicBool = AtomicBool::new(false);
    on_rungs(&Mxn::builder().concurrency(1), |rt, _| {
        if !rt.stats().preempts_by_signal {
            return;
        }
        let seen = loop {
            STOP.store(false, Relaxed);
            let threads: Vec<_> =
                (0..6).map(|_| rt.spawn(|| outermost(&|| computes_in_turns(&STOP)))).collect();
            let seen = (0..20).find_map(|_| {
                let dump = json(&Dump::take());
                let mut all =
                    dump["threads"].as_array().unwrap().iter().map(|thread| Seen::of(&dump, thread));
                // A slice may also be over before the thread has come there.
                all.find(|it| {
                    let is_preempted = it.files.iter().any(|file| file.ends_with("mxn/preempt.rs"));
                    it.was_saved() && is_preempted && it.own().contains(&"computes_in_turns")
                })
            });
            STOP.store(true, Relaxed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            if let Some(seen) = seen {
                break seen;
            }
        };
        seen.expect(&["computes_in_turns", CHAIN[0], CHAIN[1], CHAIN[2]]);
        seen.expect_complete();
    });
}

#[test]
fn a_preempted_thread_shows_where_it_was_interrupted() {
    run_here("preempted");
}

#[test]
fn a_thread_that_computes_shows_where() {
    run_here("computing");
}

#[inline(never)]
fn reads(from: &File) {
    let mut byte = 0_u8;
    // By number, so that nothing answers the call for a green thread.
    // SAFETY: room for one byte.
    assert_eq!(unsafe { libc::syscall(libc::SYS_read, from.as_raw_fd(), &raw mut byte, 1_usize) }, 1);
    assert_eq!(byte, 7);
}

#[inline(never)]
fn waits_for_input(from: &File) {
    let mut to = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut time = libc::timespec { tv_sec: 60, tv_nsec: 0 };
    // SAFETY: one entry, a time, and no set of signals. A signal would end the call.
    let ready =
        unsafe { libc::syscall(libc::SYS_ppoll, &raw mut to, 1_usize, &raw mut time, 0_usize, 0_usize) };
    assert_eq!(ready, 1);
    reads(from);
}

/// Lets a thread block in the kernel below the three functions, and returns what a dump says of it.
fn block_below(rt: &impl Runtime, f: fn(&File)) -> Seen {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: descriptors of this function.
    let [from, mut to] = ends.map(|end| unsafe { File::from_raw_fd(end) });
    let blocked = rt.spawn_with(named("blocked"), move || outermost(&|| f(&from))).unwrap();
    let seen = until("blocked", |seen| seen.state == "in kernel" && seen.own().len() > 3);
    for _ in 0..20 {
        let _ = Dump::take();
    }
    to.write_all(&[7]).unwrap();
    blocked.join().unwrap();
    seen
}

pub(super) fn blocking() {
    let reading = ["reads", CHAIN[0], CHAIN[1], CHAIN[2]];
    let waiting = ["waits_for_input", CHAIN[0], CHAIN[1], CHAIN[2]];
    on_rungs(&Mxn::builder(), |rt, _| {
        block_below(rt, reads).expect(&reading);
        block_below(rt, waits_for_input).expect(&waiting);
    });
    let rt = OneToOne::new().unwrap();
    block_below(&rt, reads).expect(&reading);
    block_below(&rt, waits_for_input).expect(&waiting);
}

/// The calls go on as if the thread had not been looked at.
#[test]
fn a_thread_in_the_kernel_shows_the_callers_of_its_call() {
    run_here("blocking");
}

pub(super) fn many() {
    const THREADS: usize = 10_000;
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    let threads: Vec<_> = (0..THREADS).map(|_| rt.spawn(|| outermost(&thread::park))).collect();
    while dump().matches("waiting for its permit (park)").count() < THREADS {}
    let start = Instant::now();
    let dump = Dump::take();
    let (took, text, json) = (start.elapsed(), dump.to_string(), json(&dump));
    assert!(took < Duration::from_secs(20), "{took:?}");
    println!("a dump of {THREADS} threads took {took:?}");
    // The runtime has more than one place at which a thread may leave its LWP.
    let rest =
        text.lines().filter_map(|it| it.strip_prefix("and ")?.strip_suffix(" more threads like these"));
    let rest: usize = rest.map(|it| it.parse::<usize>().unwrap()).sum();
    let shown = text.matches("waiting for its permit").count();
    assert_eq!(rest + shown, THREADS, "{text}");
    assert!(shown < 20 && text.lines().count() < 300, "{text}");
    let threads_there = json["threads"].as_array().unwrap();
    assert_eq!(threads_there.len(), THREADS);
    threads_there.iter().for_each(|thread| Seen::of(&json, thread).expect(&CHAIN));
    let counts = json["backtraces"].as_array().unwrap().iter().map(|it| it["threads"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), THREADS as u64);
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn equal_backtraces_are_shown_once() {
    run_here("many");
}

pub(super) fn forms() {
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let other = OneToOne::new().unwrap();
    let strange = "a \"strange\" \\ name\n";
    let threads = [
        rt.spawn_with(named("deep"), || outermost(&thread::park)).unwrap(),
        rt.spawn_with(named(strange), || innermost(&thread::park)).unwrap(),
        other.spawn_with(named("kernel"), || outermost(&thread::park)).unwrap(),
    ];
    while dump().matches("waiting for its permit (park)").count() < threads.len() {}
    let dump = Dump::take();
    let (text, json) = (dump.to_string(), json(&dump));
    assert_eq!(json["pid"], std::process::id());
    let models: Vec<_> = json["runtimes"].as_array().unwrap().iter().map(|it| it["model"].clone()).collect();
    assert_eq!(models, ["mxn", "onetoone"]);
    assert!(json["runtimes"][0]["lwps"].as_array().is_some_and(|lwps| !lwps.is_empty()));
    let listed = json["threads"].as_array().unwrap();
    assert_eq!(listed.len(), threads.len());
    // They are listed by their ids. A thread has one once it has been seen, and the first may be seen last.
    for name in ["deep", strange, "kernel"] {
        let thread = listed.iter().find(|thread| thread["name"] == name);
        let thread = thread.unwrap_or_else(|| panic!("no {name:?} in {json}"));
        assert_eq!(thread["waits_for"], "park");
        assert!(text.contains(&format!("ThreadId({}) {name:?}: waiting", thread["id"])), "{text}");
    }
    if !HERE {
        let missing = json["missing"].as_str().unwrap();
        assert!(missing.contains("`backtraces`") && text.contains(missing), "{text}");
        assert!(listed.iter().all(|thread| thread["backtrace"].is_null()));
    } else {
        assert!(json["missing"].is_null());
        for backtrace in json["backtraces"].as_array().unwrap() {
            for frame in backtrace["frames"].as_array().unwrap() {
                let line = match (frame["function"].as_str(), frame["file"].as_str()) {
                    (Some(name), Some(file)) => format!("    at {name} ({file}:{})\n", frame["line"]),
                    (Some(name), None) => format!("    at {name}\n"),
                    (None, _) => format!("    at {}", frame["address"].as_str().unwrap()),
                };
                assert!(text.contains(&line), "no {line} in {text}");
            }
        }
        // The lines are those of the calls.
        let source = include_str!("dumps.rs");
        let line = 1 + source.lines().position(|line| line == "    innermost(f);").unwrap();
        let place = format!("midmost (tests/threadmon/dumps.rs:{line})\n");
        assert!(text.replace(concat!(env!("CARGO_MANIFEST_DIR"), "/"), "").contains(&place), "{text}");
    }
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn text_and_json_say_the_same() {
    run("forms");
}

pub(super) fn quit_deep() {
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let parked = rt.spawn_with(named("deep"), || outermost(&thread::park)).unwrap();
    while !dump().contains("waiting for its permit (park)") {}
    let printed = ErrorFile::begin();
    // SAFETY: the handler of the crate is there, or the process ends.
    unsafe { libc::raise(libc::SIGQUIT) };
    let text = printed.until(|text| text.contains(CHAIN[2]));
    println!("{text}");
    parked.thread().unpark();
    parked.join().unwrap();
}

/// Nothing reads what is printed.
pub(super) fn quit_in_vain() {
    let _rt = Mxn::builder().concurrency(1).build().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // SAFETY: no memory is involved.
    unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
    // SAFETY: the handler of the crate is there, or the process ends.
    unsafe { libc::raise(libc::SIGQUIT) };
    std::thread::sleep(Duration::from_secs(1));
}

#[test]
fn a_quit_signal_does_no_harm_if_nothing_reads_what_is_printed() {
    super::child::run("quit_in_vain", &[("SELVEDGE_DUMP", "on")]).expect_success();
}

/// A thread waits with std's lock of standard error held, as one that prints and never ends.
pub(super) fn quit_locked() {
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let printed = ErrorFile::begin();
    let prints = || {
        let held = std::io::stderr().lock();
        thread::park();
        drop(held);
    };
    let parked = rt.spawn_with(named("prints"), prints).unwrap();
    while !dump().contains("waiting for its permit (park)") {}
    // SAFETY: the handler of the crate is there, or the process ends.
    unsafe { libc::raise(libc::SIGQUIT) };
    printed.until(|text| text.contains("\"prints\": waiting for its permit (park)"));
    parked.thread().unpark();
    parked.join().unwrap();
}

#[test]
fn a_quit_signal_prints_though_a_thread_has_the_lock_of_standard_error() {
    let minute = Duration::from_secs(60);
    super::child::run_within("quit_locked", &[("SELVEDGE_DUMP", "on")], minute).expect_success();
}

#[test]
fn a_quit_signal_prints_backtraces() {
    if !HERE {
        return println!("skipped: this build has no backtraces");
    }
    let ended = super::child::run("quit_deep", &[("SELVEDGE_DUMP", "on")]);
    ended.expect_success();
    let after = ended.said.split_once("\"deep\": waiting for its permit (park)\n").expect(&ended.said).1;
    let mut rest = after;
    for function in CHAIN {
        rest = rest.split_once(&format!("{function} (")).expect(&ended.said).1;
    }
}

/// Runs a role, if this build has backtraces.
pub(super) fn run_here(role: &str) {
    if HERE {
        run(role);
    } else {
        println!("skipped: this build has no backtraces");
    }
}

/// A dump that a thread takes shows that thread, too.
pub(super) fn own() {
    fn takes_a_dump() -> Seen {
        let mut seen = None;
        outermost(&|| {});
        for _ in 0..20 {
            let dump = json(&Dump::take());
            let me = thread::current().id();
            let id = format!("{me:?}").replace(|it: char| !it.is_ascii_digit(), "").parse::<u64>().unwrap();
            let thread = dump["threads"].as_array().unwrap().iter().find(|it| it["id"] == id).unwrap();
            seen = Some(Seen::of(&dump, thread)).filter(|seen| !seen.functions.is_empty());
            if seen.is_some() {
                break;
            }
        }
        seen.expect("the caller waits for the dump, so it can be seen")
    }
    on_rungs(&Mxn::builder().stack_size(64 << 10), |rt, _| {
        let seen = rt.spawn(takes_a_dump).join().unwrap();
        assert!(seen.own().contains(&"takes_a_dump"), "{:#?}", seen.functions);
    });
}

#[test]
fn a_thread_that_takes_a_dump_is_in_it() {
    run_here("own");
}
