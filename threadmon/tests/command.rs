//! `threadmon` without a screen: what it prints, the files that it writes, and what it says of bad input.

#[path = "support/mod.rs"]
mod support;

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use std::io::{BufRead, BufReader, Read, Write};

use selvedge::threadmon::wire::{Request, Response};
use selvedge::trace::{EventKind, Recording};
use serde_json::Value;
use support::{Ends, Room, Target, hogs, run, threadmon};

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that it failed with this status and a sentence that has all of these parts.
fn fails(output: &Output, status: i32, parts: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert!(text.starts_with("threadmon: ") && !text.contains("panicked"), "{text}");
}

fn monitor(words: &[&str], room: &Room) -> Output {
    let mut command = Command::new(threadmon());
    command.args(words).env("XDG_RUNTIME_DIR", room.path());
    run(command)
}

#[test]
fn a_snapshot_is_text() {
    let target = Target::start(&["60"]);
    let output = target.monitor(&["--once"]);
    let text = out(&output);
    for part in [
        "hogs ",
        "14 threads",
        "\nthreads\n",
        "\nLWPs\n",
        "\nCPUs\n",
        "\nmapping\n",
        "hog-0",
        "writer-7",
        " in run queues; ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(output.status.success() && output.stderr.is_empty());
    target.is_unharmed();
}

#[test]
fn documents_are_json_and_have_what_is_known() {
    let target = Target::start(&["60"]);
    let document: Value = serde_json::from_str(&out(&target.monitor(&["--once", "--json"]))).expect("JSON");
    assert_eq!(document["pid"], target.pid());
    assert_eq!((&document["program"], &document["level"]), (&"hogs".into(), &"times".into()));
    assert_eq!(document["threads"].as_array().map(Vec::len), Some(14));
    let waiter = document["threads"].as_array().and_then(|all| all.iter().find(|it| it["name"] == "waiter"));
    let waiter = waiter.expect("the waiter");
    assert_eq!((&waiter["state"], &waiter["waits_for"]), (&"blocked".into(), &"park".into()));
    assert_eq!(waiter["shares"]["blocked"], 1.0);
    assert!(document["runtimes"][0]["lwps"][0]["cpu_share"].is_number());
    let runtime = &document["runtimes"][0];
    assert!(runtime["run_queue"]["queued"].is_number() && runtime["lwps"][0]["queued"].is_number());
    let latency = &runtime["run_queue_latency"];
    assert!(latency["count"].is_u64() && latency["buckets"].is_array(), "{latency}");
    let lines = out(&target.monitor(&["--json", "--for", "1", "--interval", "50"]));
    let documents: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
    assert!(documents.len() >= 3, "{}", documents.len());
    let at = |it: &Value| it["at_ns"].as_u64().expect("a time");
    assert!(documents.is_sorted_by(|a, b| at(a) < at(b)));
    target.is_unharmed();
}

/// Hogs that lose their slices wait for the next ones.
#[test]
fn run_queues_are_told() {
    let target = Target::start(&["60", "slices"]);
    let begin = Instant::now();
    while !out(&target.monitor(&["--once"])).contains(" in run queues; waits: 50% <= ") {
        assert!(begin.elapsed() < support::PATIENCE);
    }
    let document: Value = serde_json::from_str(&out(&target.monitor(&["--once", "--json"]))).expect("JSON");
    let latency = &document["runtimes"][0]["run_queue_latency"];
    assert!(latency["count"].is_u64() && latency["buckets"].is_array(), "{latency}");
    target.is_unharmed();
}

#[test]
fn a_deadlock_is_told() {
    let target = Target::start(&["60", "deadlock"]);
    let begin = Instant::now();
    loop {
        let text = out(&target.monitor(&["--once"]));
        if text.contains("! deadlock: ") && text.contains("philosopher-0") {
            return;
        }
        assert!(begin.elapsed() < support::PATIENCE, "{text}");
    }
}

#[test]
fn a_recording_grows_and_is_read() {
    let target = Target::start(&["60", "slices"]);
    let room = Room::new();
    let file = room.path().join("it.svt");
    let path = file.to_str().expect("UTF-8");
    let output = target.monitor(&["--record", path, "--for", "1"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("recorded 1") && text.contains(" events"), "{text}");
    let recording = Recording::read(std::fs::File::open(&file).expect("the file")).expect("a recording");
    let span = recording.events().last().expect("events").at;
    assert!(span.as_millis() > 700, "{span:?}: the parts are put together");
    assert_eq!(recording.runtimes().count(), 1);
    let names: Vec<_> = recording.events().iter().filter_map(|it| recording.name(it.thread?)).collect();
    assert!(names.contains(&"hog-0") && names.contains(&"ticker-1"), "of threads that were there before");
    let mut tracks = recording.tracks().to_vec();
    tracks.dedup();
    assert_eq!(tracks, recording.tracks(), "each once");
    // Beside other processes no thread needs to lose its slice, but each ticker sleeps and goes on.
    let is_there = |is: fn(EventKind) -> bool| recording.events().iter().any(|event| is(event.kind));
    assert!(is_there(|kind| matches!(kind, EventKind::Block { .. })));
    assert!(is_there(|kind| matches!(kind, EventKind::Ready { .. })));
    assert!(is_there(|kind| matches!(kind, EventKind::Dispatch { .. })));
    assert!(monitor(&["explain", path], &room).status.success());
    for option in ["--chrome", "--perfetto"] {
        let to = room.path().join("out");
        let output = monitor(&["export", path, option, to.to_str().expect("UTF-8")], &room);
        assert!(output.status.success(), "{output:?}");
        assert!(std::fs::metadata(&to).expect("the file").len() > 1000);
    }
    target.is_unharmed();
}

/// Starts `threadmon` on a program. Returns it, and what it prints.
fn beside(target: &Target, words: &[&str]) -> (Ends, impl BufRead + use<>) {
    let mut command = Command::new(threadmon());
    command.args(words).arg(target.pid().to_string()).env("XDG_RUNTIME_DIR", target.room());
    let mut child = Ends(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("threadmon"));
    let out = BufReader::new(child.0.stdout.take().expect("a pipe"));
    (child, out)
}

/// A recording goes on when another monitor ends that was there before it.
#[test]
fn a_monitor_that_ends_leaves_the_level_that_another_wants() {
    let target = Target::start(&["60"]);
    let (mut first, seen) = beside(&target, &["--json", "--interval", "20"]);
    let mut levels = seen.lines().map(|line| {
        let document: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        document["level"].as_str().expect("a level").to_owned()
    });
    assert_eq!(levels.next().as_deref(), Some("times"));
    let room = Room::new();
    let file = room.path().join("it.svt");
    let (second, _) = beside(&target, &["--record", file.to_str().expect("UTF-8")]);
    assert!(levels.any(|level| level == "events"));
    // A monitor whose pipe is full does not end.
    let rest = std::thread::spawn(move || levels.for_each(drop));
    support::signal(first.0.id(), "INT");
    assert!(first.0.wait().expect("its status").success());
    rest.join().expect("lines");
    let text = out(&target.monitor(&["--once", "--level", "off"]));
    assert!(text.contains("level events"), "{text}");
    // It is killed.
    drop(second);
    target.is_unharmed();
}

#[test]
fn the_recording_of_a_program_that_ends_is_whole() {
    let room = Room::new();
    let file = room.path().join("it.svt");
    std::fs::write(&file, vec![7; 64 << 20]).expect("an older file, which is longer");
    let output = monitor(&["--record", file.to_str().expect("UTF-8"), "--", &hogs(), "1", "slices"], &room);
    fails(&output, 7, &["recorded ", "has ended (exit status: 7)"]);
    let recording = Recording::read(std::fs::File::open(&file).expect("the file")).expect("a recording");
    assert!(!recording.events().is_empty());
}

#[test]
fn a_full_disk_ends_the_recording_and_harms_nothing() {
    let target = Target::start(&["60"]);
    fails(
        &target.monitor(&["--record", "/dev/full"]),
        1,
        &["cannot write /dev/full: No space left on device"],
    );
    target.is_unharmed();
    fails(&target.monitor(&["--record", "/nowhere/at/all"]), 1, &["cannot create /nowhere/at/all"]);
    target.is_unharmed();
    let mut full = Command::new(threadmon());
    full.args(["--once", &target.pid().to_string()]).env("XDG_RUNTIME_DIR", target.room());
    full.stdout(std::fs::File::options().write(true).open("/dev/full").expect("/dev/full"));
    let output = full.stderr(Stdio::piped()).output().expect("threadmon");
    fails(&output, 1, &["cannot write to stdout: No space left on device"]);
    target.is_unharmed();
}

/// A recording is there until another one begins.
#[test]
fn a_wrong_number_of_a_process_costs_no_recording() {
    let room = Room::new();
    let file = room.path().join("it.svt");
    std::fs::write(&file, "of yesterday").expect("written");
    let path = file.to_str().expect("UTF-8");
    fails(&monitor(&["--record", path, "4194305"], &room), 1, &["there is no process 4194305"]);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "of yesterday");
}

#[test]
fn a_process_that_cannot_be_watched_is_named() {
    let room = Room::new();
    fails(&monitor(&["--once", "4194305"], &room), 1, &["there is no process 4194305"]);
    let other = Ends(Command::new("sleep").arg("60").spawn().expect("sleep"));
    let pid = other.0.id().to_string();
    fails(
        &monitor(&["--once", &pid], &room),
        1,
        &[&format!("process {pid} does not serve"), "SELVEDGE_MON=on"],
    );
    // Another user's: root can make one, and may look at it; all others know one.
    let foreign = Command::new("sleep").arg("60").uid(65_534).spawn().map(Ends);
    let pid = foreign.as_ref().map_or(1, |it| it.0.id()).to_string();
    let problem = if foreign.is_ok() { "does not serve" } else { "is another user's" };
    fails(&monitor(&["--once", &pid], &room), 1, &[&format!("process {pid} {problem}")]);
}

/// Listens as this process.
fn listen(room: &Room) -> UnixListener {
    let folder = room.path().join("selvedge");
    std::fs::DirBuilder::new().mode(0o700).create(&folder).expect("a folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).expect("its mode");
    UnixListener::bind(folder.join(format!("{}.sock", std::process::id()))).expect("a socket")
}

/// Pretends to serve as this process: says hello with this frame.
fn pretend(room: &Room, frame: Vec<u8>) -> Output {
    let listener = listen(room);
    let pid = std::process::id().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(&frame).expect("sent");
        let _ = BufReader::new(stream).read_until(b'\0', &mut Vec::new());
    });
    let output = monitor(&["--once", &pid], room);
    server.join().expect("the server");
    output
}

/// Returns one part of a recording, after which more may follow.
fn full_part() -> Vec<u8> {
    const BYTES: usize = 8 << 20;
    let mut part = Vec::new();
    Recording::default().write(&mut part).expect("a recording");
    // A section that is not known is left out.
    part.extend(*b"none\0\0\0\0");
    part.extend((BYTES as u64).to_le_bytes());
    part.resize(part.len() + BYTES, 0);
    part
}

fn read_frame(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).ok()?;
    let length = u32::from_le_bytes(frame[..].try_into().expect("four bytes")) as usize;
    frame.resize(4 + length, 0);
    stream.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

/// The program has more events than are taken. What comes is written before more is asked for, and the limit
/// counts.
#[test]
fn events_that_have_no_end_are_written_part_by_part() {
    let target = Target::start(&["60"]);
    let room = Room::new();
    let listener = listen(&room);
    let file = room.path().join("it.svt");
    let (server, path) = (target.room().join(format!("selvedge/{}.sock", target.pid())), file.clone());
    let between = std::thread::spawn(move || {
        let mut client = listener.accept().expect("a client").0;
        let mut server = UnixStream::connect(server).expect("the program");
        let (events, mut written) = (Response::Events(full_part()).to_frame(), Vec::new());
        while let Some(frame) = read_frame(&mut client) {
            let answer = if let Some(Request::Events(_)) = Request::from_payload(&frame[4..]) {
                written.push(std::fs::metadata(&path).expect("the file").len());
                events.clone()
            } else {
                server.write_all(&frame).expect("sent");
                read_frame(&mut server).expect("an answer")
            };
            if client.write_all(&answer).is_err() {
                break;
            }
        }
        written
    });
    let pid = std::process::id().to_string();
    let output = monitor(&["--record", file.to_str().expect("UTF-8"), "--for", "1", &pid], &room);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("lacks the last ones"), "{text}");
    let written = between.join().expect("the server");
    assert!(written.is_sorted_by(|before, after| before < after), "{written:?}");
}

#[test]
fn another_version_is_named() {
    let output = pretend(&Room::new(), Response::Hello(99).to_frame());
    fails(&output, 1, &["speaks version 99; this is version "]);
}

#[test]
fn nonsense_is_an_error() {
    fails(&pretend(&Room::new(), vec![0xff; 64]), 1, &["makes no sense"]);
}

#[test]
fn a_program_that_does_not_serve_or_start_is_named() {
    let room = Room::new();
    fails(&monitor(&["--once", "--", "/nowhere/at/all"], &room), 1, &["cannot start /nowhere/at/all"]);
    let output = monitor(&["--once", "--", "sh", "-c", "echo hi; exit 5"], &room);
    fails(&output, 5, &["sh ended before it served (exit status: 5); its output is in "]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let path = text.trim().rsplit(' ').next().expect("a path");
    assert_eq!(std::fs::read_to_string(path).expect("the output"), "hi\n");
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn files_that_are_no_recordings_are_named() {
    let room = Room::new();
    fails(&monitor(&["explain", "/nowhere"], &room), 1, &["cannot read /nowhere"]);
    let file = room.path().join("text");
    std::fs::write(&file, "#!/bin/sh, and some more").expect("written");
    let path = file.to_str().expect("UTF-8");
    fails(&monitor(&["explain", path], &room), 1, &[path, "not a recording"]);
    let drawing = room.path().join("trace.json");
    std::fs::write(&drawing, r#"{"traceEvents":[]}"#).expect("written");
    let drawing = drawing.to_str().expect("UTF-8");
    fails(&monitor(&["explain", drawing], &room), 1, &["not a recording", "ending of the name"]);
    fails(&monitor(&["export", path, "--chrome", "/dev/full"], &room), 1, &["not a recording"]);
    fails(&monitor(&[], &room), 2, &["expected the number of a process"]);
    fails(&monitor(&["1"], &room), 1, &["the output is no terminal: use --once or --json"]);
    assert!(out(&monitor(&["--help"], &room)).contains("Usage: threadmon"));
    assert!(out(&monitor(&["--version"], &room)).starts_with("threadmon 0."));
}
