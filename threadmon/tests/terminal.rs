//! `threadmon` in a real terminal (tmux): keys are sent, the screen is read.

#[path = "support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Ends, PATIENCE, Room, Target, hogs, root_example, threadmon};

/// A terminal with one session. It goes when this does.
struct Screen {
    room: Room,
    socket: PathBuf,
}

impl Screen {
    /// Runs a command in a terminal of this size, or says why it cannot.
    fn run(width: u16, height: u16, words: &[&str]) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: there is no tmux");
            return None;
        }
        let room = Room::new();
        let it = Self { socket: room.path().join("tmux"), room };
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        // It stays to be read after the command has ended.
        let line = format!("{}; echo \"status $?\"; exec sleep 100", quoted.join(" "));
        let (width, height) = (width.to_string(), height.to_string());
        let size = ["-x", &width, "-y", &height];
        let mut tmux = it.tmux();
        tmux.args(["-f", "/dev/null", "new-session", "-d"]).args(size).arg(line);
        assert!(tmux.status().expect("tmux").success());
        Some(it)
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S")
            .arg(&self.socket)
            .env("XDG_RUNTIME_DIR", self.room.path())
            .env("TMPDIR", self.room.path());
        // A terminal of its own, whatever this runs in.
        tmux.env_remove("TMUX").env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
        tmux
    }

    fn keys(&self, keys: &[&str]) {
        assert!(self.tmux().arg("send-keys").args(keys).status().expect("tmux").success());
    }

    /// Returns what is on the screen. A line too long for it counts as one: a path may have any length.
    fn text(&self) -> String {
        let output = self.tmux().args(["capture-pane", "-p", "-J"]).output().expect("tmux");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until all of these are on the screen. Returns it.
    fn shows(&self, parts: &[&str]) -> String {
        let begin = Instant::now();
        loop {
            let text = self.text();
            match parts.iter().find(|part| !text.contains(**part)) {
                None => return text,
                Some(part) => assert!(begin.elapsed() < PATIENCE, "{part:?} is not in\n{text}"),
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").status();
    }
}

#[test]
fn all_views_are_there_while_hogs_keep_all_cpus() {
    let hogs = hogs();
    let Some(screen) = Screen::run(100, 30, &[threadmon(), "--", &hogs, "40"]) else { return };
    let text = screen.shows(&[
        "[threads]",
        "hog-0",
        "writer-7",
        "ticker-2",
        "waiter",
        "on LWP",
        "run queue",
        "blocked",
    ]);
    assert!(text.contains("level times"), "{text}");
    screen.shows(&["never yields", "convoy: 7 threads wait for mutex table"]);
    screen.keys(&["2"]);
    screen.shows(&["[LWPs]", "tid", "running", "spare", "hog-1"]);
    screen.keys(&["Tab"]);
    screen.shows(&["[CPUs]", "ours", "others", "idle"]);
    screen.keys(&["4"]);
    screen.shows(&["[mapping]", "LWP 0 running", "run queue", "mutex table (7", "park (1): waiter"]);
    screen.keys(&["5"]);
    // Once a hog has let go.
    screen.shows(&["[locks]", "table", "mutex"]);
    screen.keys(&["1", "/"]);
    screen.keys(&["-l", "waiter"]);
    screen.keys(&["Enter"]);
    let text = screen.shows(&["filter: waiter (1)"]);
    assert!(!text.contains("writer-5"), "{text}");
    screen.keys(&["f"]);
    screen.shows(&["thread ", "waiter (priority normal)", "history", "░░░░░░░░", "of its life"]);
    screen.keys(&["Escape"]);
    screen.shows(&["filter: waiter (1)", "name"]);
    screen.keys(&["p"]);
    screen.shows(&["PAUSED"]);
    screen.keys(&["p", "l"]);
    screen.shows(&["level events"]);
    // All that happens to a thread, to scale: it sleeps, and then waits in the run queue for a hog to yield.
    screen.keys(&["/", "Escape"]);
    screen.keys(&["/"]);
    screen.keys(&["-l", "ticker-0"]);
    screen.keys(&["Enter"]);
    screen.shows(&["filter: ticker-0 (1)"]);
    screen.keys(&["f", "-", "-", "-", "-"]);
    screen.shows(&[
        "ticker-0 (priority normal)",
        "the last 16.4 s",
        "a letter",
        "▒▒",
        " ago  sleeping",
        " ago  run queue",
    ]);
    screen.keys(&["Escape"]);
    screen.keys(&["?"]);
    screen.shows(&["follow the selected thread", "an LWP was chosen for it"]);
    screen.keys(&["q"]);
    screen.shows(&["waits for", "its output is in"]);
}

#[test]
fn the_status_is_that_of_the_program_and_its_end_is_shown() {
    let hogs = hogs();
    let Some(screen) = Screen::run(80, 24, &[threadmon(), "--", &hogs, "1"]) else { return };
    screen.shows(&["! the process has ended; this is what it last said", "hog-0"]);
    screen.keys(&["q"]);
    screen.shows(&["has ended (exit status: 7)", "status 7"]);
}

#[test]
fn a_terminal_of_twenty_columns_will_do() {
    let target = Target::start(&["60"]);
    let room = target.room();
    let variable = format!("XDG_RUNTIME_DIR={}", room.display());
    let pid = target.pid().to_string();
    let Some(screen) = Screen::run(20, 5, &["env", &variable, threadmon(), &pid]) else { return };
    screen.shows(&["hogs", "hog-"]);
    for key in ["2", "3", "4", "5", "?", "1", "f"] {
        screen.keys(&[key]);
    }
    screen.shows(&["hogs"]);
    for (size, parts) in [((12, 4), ["too small:"]), ((90, 30), ["thread "]), ((20, 6), ["hogs"])] {
        let ((width, height), parts): ((u16, u16), [&str; 1]) = (size, parts);
        let (width, height) = (width.to_string(), height.to_string());
        let mut tmux = screen.tmux();
        assert!(tmux.args(["resize-window", "-x", &width, "-y", &height]).status().expect("tmux").success());
        screen.shows(&parts);
    }
    screen.keys(&["q"]);
    screen.shows(&["status 0"]);
    target.is_unharmed();
}

#[test]
fn a_program_that_does_not_answer_leaves_the_keys_alive() {
    let target = Target::start(&["60"]);
    let variable = format!("XDG_RUNTIME_DIR={}", target.room().display());
    let pid = target.pid().to_string();
    let Some(screen) = Screen::run(100, 30, &["env", &variable, threadmon(), &pid]) else { return };
    screen.shows(&["hog-0"]);
    target.signal("STOP");
    screen.shows(&["! the process does not answer"]);
    screen.keys(&["2"]);
    screen.shows(&["[LWPs]"]);
    target.signal("CONT");
    let begin = Instant::now();
    while screen.text().contains("does not answer") {
        assert!(begin.elapsed() < PATIENCE, "{}", screen.text());
        std::thread::sleep(Duration::from_millis(30));
    }
    screen.keys(&["C-c"]);
    screen.shows(&["status 0"]);
    target.is_unharmed();
}

#[test]
fn a_signal_restores_the_terminal_and_the_level() {
    let target = Target::start(&["60"]);
    let variable = format!("XDG_RUNTIME_DIR={}", target.room().display());
    let line = format!("{} {}; echo ended $?; stty -a", threadmon(), target.pid());
    let Some(screen) = Screen::run(90, 30, &["env", &variable, "sh", "-c", &line]) else { return };
    screen.shows(&["hog-0", "level times"]);
    let pane = screen.tmux().args(["display-message", "-p", "#{pane_tty}"]).output().expect("tmux");
    let tty = String::from_utf8_lossy(&pane.stdout).trim().trim_start_matches("/dev/").to_owned();
    let ps = Command::new("ps").args(["-t", &tty, "-o", "pid=,comm="]).output().expect("ps");
    let list = String::from_utf8_lossy(&ps.stdout).into_owned();
    let monitor = list.lines().find(|line| line.contains("threadmon")).expect("threadmon runs");
    let monitor: u32 = monitor.split_whitespace().next().expect("a number").parse().expect("a number");
    support::signal(monitor, "TERM");
    let text = screen.shows(&["ended 0", "icanon"]);
    assert!(!text.contains("-icanon"), "{text}");
    target.is_unharmed();
}

#[test]
fn a_terminal_that_goes_takes_threadmon_with_it() {
    let target = Target::start(&["60"]);
    let variable = format!("XDG_RUNTIME_DIR={}", target.room().display());
    let pid = target.pid().to_string();
    let Some(screen) = Screen::run(90, 30, &["env", &variable, threadmon(), &pid]) else { return };
    screen.shows(&["hog-0", "level times"]);
    drop(screen);
    // Once it has gone, the level is what it was.
    let begin = Instant::now();
    while !String::from_utf8_lossy(&target.monitor(&["--once", "--level", "off"]).stdout)
        .contains("level off,")
    {
        assert!(begin.elapsed() < PATIENCE);
    }
    target.is_unharmed();
}

#[test]
fn the_examples_of_the_library_can_be_watched() {
    // The last two of each: what stands beside LWPs, and among the locks. The threads have no names. Those of
    // `echo` soon have ended, and two of these programs wait for no locks.
    let programs: [(&str, &[&str], &str, &str); 4] = [
        ("pingpong", &["-i", "4294967295"], "#", "mutex"),
        ("barriers", &["--coarse", "-c", "4", "-i", "1000", "-k", "4294967295"], "#", "mutex"),
        ("storms", &["--hogs", "-t", "60000"], "#", ""),
        ("echo", &[], "", ""),
    ];
    let programs = programs.map(|it| (it, root_example(it.0)));
    // Other programs want all CPUs meanwhile.
    let hog = |_| Ends(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell"));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let _hogs: Vec<_> = (0..cpus + 2).map(hog).collect();
    for ((name, words, thread, locks), path) in programs {
        let mut line = vec![threadmon(), "--", &path];
        line.extend(words);
        let Some(screen) = Screen::run(80, 24, &line) else { return };
        screen.shows(&[name, "[threads]", "threads: ", "on LWP"]);
        let views = [
            ("2", "[LWPs]", thread),
            ("3", "[CPUs]", "▒"),
            ("4", "[mapping]", thread),
            ("5", "[locks]", locks),
        ];
        for (key, title, row) in views {
            screen.keys(&[key]);
            screen.shows(&[title, row]);
        }
        println!("{name}:\n{}", screen.text());
    }
}

/// On Linux, a process may see in which system call its own child waits. Yama may deny that.
#[test]
fn the_call_in_which_a_thread_waits_is_named() {
    if let Some(scope) = denying_yama(std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()) {
        println!("skipped: Yama's ptrace_scope is {scope}, so no process may look at its child");
        return;
    }
    let path = root_example("storms");
    let words = [threadmon(), "--", &path, "--reads", "-t", "60000"];
    let Some(screen) = Screen::run(110, 24, &words) else { return };
    screen.shows(&["in kernel    read", "in the kernel (read) for "]);
    screen.keys(&["2"]);
    screen.shows(&["[LWPs]", "in kernel    read"]);
}

/// Returns the value of Yama's `ptrace_scope` if a process may not look at its own child.
fn denying_yama(scope: Option<String>) -> Option<u32> {
    scope?.trim().parse().ok().filter(|&scope| scope >= 2)
}

#[test]
fn yama_denies_from_scope_2_on() {
    let of = |scope: &str| denying_yama(Some(scope.to_owned()));
    assert_eq!((of("2\n"), of("3\n")), (Some(2), Some(3)));
    assert_eq!((of("0\n"), of("1\n"), denying_yama(None)), (None, None, None));
}

/// Threads that own kernel threads stand on these, in all views.
#[test]
fn a_program_on_kernel_threads_can_be_watched() {
    let path = root_example("barriers");
    let words = [threadmon(), "--", &path, "-r", "onetoone", "-n", "5", "-k", "1000000"];
    let Some(screen) = Screen::run(130, 24, &words) else { return };
    screen.shows(&["barriers", "onetoone: ", "a kernel thread each", "on LWP"]);
    screen.keys(&["2"]);
    screen.shows(&["[LWPs]", "onetoone 1", "own", "running", "%"]);
    screen.keys(&["3"]);
    screen.shows(&["[CPUs]", "own"]);
    screen.keys(&["4"]);
    screen.shows(&["[mapping]", "own running", "CPU "]);
}
