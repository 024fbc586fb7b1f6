//! gdb and its script. The script loads by itself, lists the threads of a process, and shows the frames of
//! those that do not run. It leaves the process as it was. The same in a core file of that process.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "support/child.rs"]
mod child;
#[path = "gdb/debugger.rs"]
mod debugger;
#[path = "gdb/scene.rs"]
mod scene;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::path::Path;

use debugger::{Debugger, Said};
use scene::Scene;
use watchdog::Watchdog;

#[test]
#[ignore = "the children of the tests"]
fn child() {
    child::play(&[("scene", scene::play)]);
}

/// Checks what `info selvedge` says of each thread.
fn expect_list(said: &Said) {
    let list = said.of("info selvedge");
    for title in ["Green threads: ", "Kernel threads: ", "LWPs: "] {
        assert!(list.contains(title), "no {title:?} in:\n{list}");
    }
    let state = |name| {
        let line = list.lines().find(|line| line.contains(&format!("  {name}  ")));
        line.unwrap_or_else(|| panic!("no {name:?} in:\n{list}"))
    };
    for (name, words) in [
        ("parked", "waits for its permit (park)"),
        ("parked for long", "waits for its permit (park), with a time limit"),
        ("wants a lock", "waits for a mutex at 0x"),
        ("joins", "waits for the end of a thread (join) at 0x"),
        ("receives ?[2J", "waits for a message (receive)"),
        ("bound", "LWP "),
    ] {
        assert!(state(name).contains(words), "{name} and {words:?} are not in one line:\n{list}");
    }
    // This one keeps its LWP. The other is on one if the slot has been handed off.
    assert!(state("computes, too").contains("on LWP "), "it does not compute:\n{list}");
    let other = state("computes");
    assert!(other.contains("on LWP ") || other.contains("runnable"), "{list}");
}

/// Checks that the functions stand in this order in a backtrace, the innermost first.
fn expect_frames(said: &Said, command: &str, functions: &[&str]) {
    let all = said.of(command);
    let mut rest = all;
    for function in functions {
        let at = rest.find(&format!("scene::{function}"));
        let at = at.unwrap_or_else(|| panic!("{functions:?} are not in this order after {command}:\n{all}"));
        rest = &rest[at + function.len()..];
    }
    assert!(!all.contains("previous frame") && !all.contains("Backtrace stopped"), "{all}");
}

/// The commands for one process or core file, and the checks of what gdb answers.
const COMMANDS: [&str; 12] = [
    "info selvedge",
    "selvedge bt parked",
    "selvedge bt 'wants a lock'",
    "selvedge bt computes",
    "selvedge bt 'computes, too'",
    "selvedge bt bound",
    "selvedge thread parked",
    "backtrace",
    "selvedge back",
    "selvedge bt 'no such thread'",
    "selvedge bt 0",
    "selvedge bt all",
];

fn expect_answers(said: &Said) {
    let chain = ["innermost", "middle", "outermost"];
    expect_list(said);
    expect_frames(said, "selvedge bt parked", &chain);
    expect_frames(said, "selvedge bt 'wants a lock'", &["waits_for_the_lock"]);
    expect_frames(said, "selvedge bt computes", &["computes_until"]);
    expect_frames(said, "selvedge bt 'computes, too'", &["computes_until"]);
    expect_frames(said, "selvedge bt bound", &chain);
    expect_frames(said, "backtrace", &chain);
    // gdb shows its kernel thread again.
    assert!(!said.of("selvedge back").contains("switch"), "{}", said.of("selvedge back"));
    for unknown in ["selvedge bt 'no such thread'", "selvedge bt 0"].map(|command| said.of(command)) {
        assert!(unknown.contains("no thread has the id, address or name"), "{unknown}");
    }
    let all = said.of("selvedge bt all");
    for name in ["parked", "parked for long", "wants a lock", "joins", "receives ?[2J", "computes", "bound"] {
        assert!(all.contains(&format!("\"{name}\"")), "no {name:?} in:\n{all}");
    }
}

#[test]
fn gdb_shows_the_threads_of_a_process() {
    let _watchdog = Watchdog::start("gdb and a process");
    let debugger = match Debugger::find() {
        Ok(debugger) => debugger,
        Err(why) => return println!("skipped: {why}"),
    };
    let folder = tempfile::tempdir().expect("a folder for the process");
    let scene = Scene::start(folder.path());
    match debugger.attach(scene.pid(), &COMMANDS) {
        Ok(said) => expect_answers(&said),
        Err(why) => println!("skipped: {why}"),
    }
    // It was looked at, and goes on as if it had not been.
    scene.end();
}

/// The kernel writes the file. gdb would leave the stacks out where the kernel marks their ends (Linux 6.13).
#[test]
fn gdb_shows_the_threads_of_a_core_file() {
    let _watchdog = Watchdog::start("gdb and a core file");
    let debugger = match Debugger::find() {
        Ok(debugger) => debugger,
        Err(why) => return println!("skipped: {why}"),
    };
    let folder = tempfile::tempdir().expect("a folder for the core file");
    match Scene::start(folder.path()).abort(folder.path()) {
        Some(core) => expect_answers(&debugger.open(&core, &COMMANDS)),
        None => println!("skipped: the kernel writes no core file into the folder of a process"),
    }
}

#[test]
fn a_program_without_a_process_is_told_so() {
    let _watchdog = Watchdog::start("gdb without a process");
    let debugger = match Debugger::find() {
        Ok(debugger) => debugger,
        Err(why) => return println!("skipped: {why}"),
    };
    let said = debugger.open(Path::new(""), &["info selvedge"]);
    assert!(said.of("info selvedge").contains("there is no process"), "{}", said.of("info selvedge"));
}
