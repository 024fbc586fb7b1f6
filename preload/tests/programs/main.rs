//! Finished programs on both models: they do the same as without the library.
//!
//! The C programs of `tests/c` are compiled with the system's compiler. Others are used if the system has
//! them.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

mod harness;

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use harness::*;

#[test]
fn a_c_program_finds_what_the_manual_says() {
    let Some(program) = compile("pthreads") else { return };
    // The C library first: the questions must be right.
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        let said = run(on(model, &program), &format!("pthreads, {model:?}"));
        assert_eq!(String::from_utf8_lossy(&said), "ok\n", "{model:?}");
    }
    for slots in ["1", "3"] {
        let mut command = on(Some("mxn"), &program);
        command.env("SELVEDGE_CONCURRENCY", slots);
        assert_eq!(run(command, "pthreads, slots"), b"ok\n");
    }
    let mut kernel = on(Some("mxn"), &program);
    kernel.env("SELVEDGE_STD_THREADS", "kernel");
    assert_eq!(run(kernel, "pthreads, kernel threads"), b"ok\n");
}

/// It hung: in a child, a barrier was destroyed although threads had not left it.
#[test]
fn a_child_destroys_barriers_that_its_threads_have_passed() {
    let Some(program) = compile("barrier_in_child") else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        assert_eq!(run(on(model, &program), &format!("barrier_in_child, {model:?}")), b"ok\n");
    }
}

#[test]
fn threads_end_each_other() {
    says_ok("cancels");
}

/// The main thread ended where it started a thread, or woke one, with locks of this crate. The C library ends
/// a kernel thread in `write` and its like, and this crate calls those. And a thread was told `ECANCELED` by
/// `pthread_tryjoin_np`.
#[test]
fn a_thread_that_was_asked_to_end_makes_all_other_calls_before() {
    says_ok("asked");
}

/// A thread ended in what std calls within `poll`, where a value is dropped. std may not be unwound there.
#[test]
fn a_thread_ends_in_no_function_that_a_call_of_this_crate_calls() {
    says_ok("frees");
}

/// Of these, four were lost: the thread, or a signal for it, waited for ever.
#[test]
fn a_request_that_a_thread_cannot_heed_is_kept_for_later() {
    says_ok("requests");
}

#[test]
fn the_next_owner_of_a_robust_mutex_is_told() {
    says_ok("robust");
}

/// A signal for one thread went to the process, and a handler ran in any thread. Later, a kernel thread that
/// was asked to end right after a signal ended the program. And its `pause` ended before a handler had run.
#[test]
fn a_signal_for_one_thread_is_handled_there() {
    says_ok("kills");
}

/// Signals were lost of which many were queued, or that were sent by a handler in a thread that sent one. A
/// thread's `sigsuspend` ended for a signal that was blocked there. The helper took memory, or freed it. And
/// it waited for what a thread had locked that was stopped in `pthread_join`.
#[test]
fn signals_for_one_thread_reach_it_from_anywhere() {
    says_ok("senders");
}

/// Where the kernel had no memory for the preemption signal's mark, a thread that computed was told of
/// nothing. A signal that the kernel refused was lost, or came after those that were sent later.
#[test]
fn a_signal_for_one_thread_comes_although_the_kernel_keeps_few() {
    says_ok("limits");
}

/// A thread went on in a call that blocked its LWP, and that a handler without `SA_RESTART` ends. And the
/// mask of `ppoll` and its like did not find the thread's own signals. After a `select` that a handler had
/// ended, the sets were empty, so the next one waited for nothing.
#[test]
fn a_signal_for_one_thread_ends_the_call_that_it_is_in() {
    says_ok("interrupted");
}

/// A collector stopped the main thread where that held a lock of this crate. Then it waited for other
/// threads, which waited for that lock. Such a signal may only come where the thread holds none.
#[test]
fn a_kernel_thread_is_not_stopped_in_this_crates_locks() {
    says_ok("stops_main");
}

/// The handler of such a signal ran in this crate's own handler, and left that by a jump.
#[test]
fn a_signal_that_faults_raise_may_be_sent_to_one_thread() {
    says_ok("faults");
}

/// A request ended such a thread wherever it was in the C library, as glibc up to 2.40 does with its own. And
/// its LWP counted as one without a slot, and had one. A jump out of `poll` left a descriptor there, and
/// so did one out of `waitpid`.
#[test]
fn a_thread_that_jumps_out_of_a_call_ends_at_the_next() {
    let Some(program) = compile("jumps") else { return };
    for slots in ["1", "2", "3"] {
        let mut command = on(Some("mxn"), &program);
        command.env("SELVEDGE_CONCURRENCY", slots);
        assert_eq!(run(command, &format!("jumps, {slots} slots")), b"ok\n");
    }
}

/// A thread ended on another LWP than where it had set its alternate stack. That stayed in use,
/// and was freed.
#[test]
fn threads_free_their_alternate_stacks() {
    says_ok("altstacks");
}

/// The program ended, with this crate's words, before its handler was asked. Later, a handler jumped out of a
/// function of this crate, which had begun a switch. An ended thread was mounted.
#[test]
fn a_program_handles_overflows_of_its_stacks() {
    says_ok("overflows");
    let Some(program) = compile("overflows") else { return };
    let mut command = on(Some("mxn"), &program);
    command.arg("yields").stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait(command.spawn().expect("a child"), "overflows in calls");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || said.contains("has overflowed its stack"),
        "{}: {said}",
        output.status
    );
}

/// While the trace was on, it ran forever: the handler of this crate sent the signal again.
#[test]
fn a_program_handles_its_abort_once() {
    let Some(program) = compile("aborts") else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        let mut command = on(model, &program);
        command.env("SELVEDGE_TRACE", folder().join("aborts.trace"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
        let output = wait(child, "aborts");
        assert_eq!((output.status.signal(), output.stdout), (Some(6), b"handled\n".to_vec()), "{model:?}");
    }
}

/// Apache's module `mpm_worker` does so: it did not end. Later, a plugin that is loaded after the first
/// thread sent signals to nowhere, once another thread had been asked to end.
#[test]
fn a_plugin_sends_a_signal_to_one_thread() {
    let Some(plugin) = compile_with("plugin", &["-shared", "-fPIC"]) else { return };
    let Some(program) = compile("plugins") else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        for late in [None, Some("late")] {
            let mut command = on(model, &program);
            command.arg(&plugin).args(late);
            assert_eq!(run(command, &format!("plugins, {model:?}, {late:?}")), b"ok\n", "{model:?}");
        }
    }
}

#[test]
fn threads_end_in_calls_that_block() {
    says_ok("ends_in_calls");
}

#[test]
fn a_program_ends_with_its_last_thread() {
    let Some(program) = compile("leaves_main") else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        let said = run(on(model, &program), &format!("leaves_main, {model:?}"));
        assert_eq!(String::from_utf8_lossy(&said), "worked\n".repeat(3) + "hears\n", "{model:?}");
    }
}

#[test]
fn a_program_ends_with_its_last_thread_if_the_main_thread_is_ended() {
    let Some(program) = compile_with("ends_main", &["-rdynamic"]) else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        for wait in ["0", "1", "2"] {
            let mut command = on(model, &program);
            command.arg(wait);
            let said = run(command, &format!("ends_main {wait}, {model:?}"));
            assert_eq!(String::from_utf8_lossy(&said), "posts\ncleaned\nended\n", "{wait}, {model:?}");
        }
    }
}

#[test]
fn threads_wait_for_the_end_of_the_main_thread() {
    let Some(program) = compile("joins_main") else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        for how in ["0", "1", "2"] {
            let mut command = on(model, &program);
            command.arg(how);
            let said = run(command, &format!("joins_main {how}, {model:?}"));
            assert_eq!(String::from_utf8_lossy(&said), "cleaned\njoined\n", "{how}, {model:?}");
        }
    }
}

/// If the thread that forked had been asked to end, `pause` returned at once, again and again. Nor could it
/// be joined, or say where its stack is. If it had just been started, what is known of it was locked forever.
/// Later, other threads were told in that case that there is no such thread.
#[test]
fn a_child_ends_with_its_last_thread() {
    let Some(program) = compile("forks_on") else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        let said = run(on(model, &program), &format!("forks_on, {model:?}"));
        assert_eq!(String::from_utf8_lossy(&said), "worked\n".repeat(10), "{model:?}");
    }
}

#[test]
fn a_program_ends_after_the_values_of_its_threads() {
    let Some(program) = compile("late_keys") else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        let said = run(on(model, &program), &format!("late_keys, {model:?}"));
        assert_eq!(String::from_utf8_lossy(&said), "destroyed\n".repeat(2), "{model:?}");
    }
}

/// A handler moved that let its own signal through, and waited: its LWP had another's alternate stack then.
/// So did one in `sigsuspend` that blocked what its thread blocks.
#[test]
fn a_handler_has_its_kernel_thread_to_itself() {
    let Some(program) = compile_with("handlers", &["-std=c99"]) else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        for how in [None, Some("unblocks"), Some("suspends")] {
            let mut command = on(model, &program);
            command.args(how);
            assert_eq!(run(command, &format!("handlers, {model:?}, {how:?}")), b"ok\n", "{model:?}");
        }
    }
}

#[test]
fn each_thread_has_its_own_mask_of_signals() {
    let Some(program) = compile("masks") else { return };
    for model in [None, Some(MODELS[0]), Some(MODELS[1])] {
        assert_eq!(run(on(model, &program), &format!("masks, {model:?}")), b"ok\n", "{model:?}");
    }
    for slots in ["1", "5"] {
        let mut command = on(Some("mxn"), &program);
        command.env("SELVEDGE_CONCURRENCY", slots);
        assert_eq!(run(command, "masks, slots"), b"ok\n");
    }
}

/// The ten tests of the paper's appendix C, with fewer moves.
#[test]
fn pingpong_plays_its_ten_tests_on_both_models() {
    let Some(program) = compile("pingpong") else { return };
    let tests: [(&[&str], u64); 10] = [
        (&["-i", "2000"], 4_000),
        (&["-i", "2000", "-c", "2"], 4_000),
        (&["-i", "2000", "-S", "65536"], 4_000),
        (&["-i", "2000", "-s", "system"], 4_000),
        (&["-i", "500", "-n", "4"], 4_000),
        (&["-i", "500", "-n", "4", "-c", "8"], 4_000),
        (&["-i", "100", "-n", "4", "-c", "8", "-p", "shared"], 800),
        (&["-i", "10", "-n", "500", "-S", "32768"], 10_000),
        (&["-i", "10", "-n", "500", "-S", "32768", "-z", "1"], 10_000),
        (&["-i", "5", "-n", "50", "-S", "32768", "-c", "8", "-p", "shared"], 500),
    ];
    for (arguments, turns) in tests {
        for model in MODELS {
            let mut command = on(Some(model), &program);
            command.args(arguments);
            let said = run(command, &format!("pingpong {arguments:?}, {model}"));
            assert_eq!(String::from_utf8_lossy(&said), format!("{turns} turns\n"), "{arguments:?}, {model}");
        }
    }
}

#[test]
fn python_has_threads() {
    if !has("python3") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/threads.py");
    for model in MODELS {
        let mut command = on(Some(model), "python3");
        command.arg(&script);
        assert_eq!(run(command, &format!("python3, {model}")), b"ok\n");
    }
}

/// A program that compresses gives the same bytes.
#[test]
fn compressors_write_the_same() {
    let input = folder().join("input");
    // Words that repeat, but not as a whole.
    let words = |n: u64| {
        format!("{:x} thread {} lwp {}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44, n % 97, n % 13)
    };
    fs::write(&input, (0..300_000).map(words).collect::<String>()).expect("a file");
    let programs: [(&str, &[&str]); 4] = [
        ("pigz", &["-p", "4", "-n", "-c"]),
        ("zstd", &["-q", "-T4", "-c"]),
        ("pbzip2", &["-p4", "-q", "-c"]),
        ("xz", &["-1", "-T4", "--block-size=1MiB", "-c"]),
    ];
    for (program, arguments) in programs.into_iter().filter(|(program, _)| has(program)) {
        let compress = |model: Option<&str>| {
            let mut command = on(model, program);
            command.args(arguments).arg(&input);
            run(command, &format!("{program}, {model:?}"))
        };
        let plain = compress(None);
        assert!(plain.len() > 10_000);
        for model in MODELS {
            assert!(compress(Some(model)) == plain, "{program}, {model}: other bytes");
        }
    }
}

#[test]
fn sysbench_counts_its_events() {
    if !has("sysbench") {
        return;
    }
    for arguments in [
        &["--threads=16", "--events=200", "--time=0", "threads", "--thread-locks=2", "run"][..],
        &["--threads=16", "mutex", "--mutex-num=2", "--mutex-locks=2000", "run"][..],
    ] {
        for model in MODELS {
            let mut command = on(Some(model), "sysbench");
            command.args(arguments);
            let said = run(command, &format!("sysbench {arguments:?}, {model}"));
            let said = String::from_utf8_lossy(&said);
            let events = said.lines().find_map(|line| line.trim().strip_prefix("total number of events:"));
            let expected = if arguments.contains(&"mutex") { "16" } else { "200" };
            assert_eq!(events.map(str::trim), Some(expected), "{model}: {said}");
        }
    }
}

/// Redis has threads of its own, and an allocator with locks of `pthread.h`. It forks to save.
#[test]
fn redis_serves_and_saves() {
    if !has("redis-server") || !has("redis-cli") || !has("redis-benchmark") {
        return;
    }
    for model in MODELS {
        for threads in ["1", "2"] {
            redis(model, threads);
        }
    }
}

/// Returns `true` if a server listens at a port of this machine. A client that gets the same port for itself
/// is connected to itself, and keeps the server from the port.
fn listens(port: u16) -> bool {
    let connection = TcpStream::connect(("127.0.0.1", port));
    connection.is_ok_and(|it| it.local_addr().ok() != it.peer_addr().ok())
}

fn redis(model: &str, threads: &str) {
    let what = format!("redis, {model}, {threads} threads");
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("its address").port()
    };
    let data = TempDir::new().expect("a folder");
    let mut server = on(Some(model), "redis-server");
    server
        .args(["--port", &port.to_string(), "--io-threads", threads, "--save", "", "--dir"])
        .arg(data.path());
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("redis-server");
    let start = Instant::now();
    while !listens(port) {
        if let Some(status) = server.try_wait().expect("a child") {
            let output = server.wait_with_output().expect("its output");
            panic!("{what}: it has ended, {status}: {}", String::from_utf8_lossy(&output.stdout));
        }
        assert!(start.elapsed() < PATIENCE, "{what}: it does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    let port = port.to_string();
    let ask = |arguments: &[&str]| {
        let mut client = on(None, "redis-cli");
        client.args(["-p", &port]).args(arguments);
        String::from_utf8_lossy(&run(client, &what)).trim().to_owned()
    };
    let mut load = on(None, "redis-benchmark");
    load.args(["-p", &port, "-n", "5000", "-c", "20", "-r", "100", "-q", "-t", "set,get,lpush,incr"]);
    run(load, &what);
    assert_eq!(ask(&["set", "a key", "its value"]), "OK");
    assert_eq!(ask(&["save"]), "OK");
    assert!(ask(&["bgsave"]).starts_with("Background saving"));
    while ask(&["info", "persistence"]).contains("rdb_bgsave_in_progress:1") {
        assert!(start.elapsed() < PATIENCE, "{what}: it does not save");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(ask(&["info", "persistence"]).contains("rdb_last_bgsave_status:ok"), "{what}");
    assert_eq!(ask(&["get", "a key"]), "its value");
    // Freed by a thread in the background.
    assert_eq!(ask(&["flushall", "async"]), "OK");
    ask(&["shutdown", "nosave"]);
    let output = wait(server, &what);
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stdout));
}

/// Stacks hold code in a program that asks for that.
#[test]
fn code_on_stacks_runs() {
    let Some(program) = compile_with("nested", &["-z", "execstack"]) else { return };
    for model in [None, Some("mxn"), Some("onetoone")] {
        let said = run(on(model, &program), &format!("nested functions, {model:?}"));
        assert_eq!(said, b"right\n");
    }
}

/// A variable that is not valid is named, and the program hears that there is no thread.
#[test]
fn a_wrong_variable_is_named() {
    let Some(program) = compile("pingpong") else { return };
    for (name, value) in
        [("SELVEDGE_RUNTIME", "green"), ("SELVEDGE_STD_THREADS", "1"), ("SELVEDGE_CONCURRENCY", "-1")]
    {
        let mut command = on(Some("mxn"), &program);
        let child =
            command.env(name, value).arg("-i").arg("1").stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let output = wait(child.expect("a program"), name);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(name) && said.contains(value), "{name}: {said}");
        assert!(said.contains("pthread_create: Invalid argument"), "{name}: {said}");
    }
}
