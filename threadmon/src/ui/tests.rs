//! What is drawn, at several sizes.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use selvedge::LwpState;
use selvedge::thread::WaitReason;
use selvedge::trace::{EventKind, Level, State};

use super::{App, Request, View};
use crate::testing::{Scene, busy_program, ms, waker};

fn screen(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().to_string()
}

fn press(app: &mut App, keys: &str) -> Option<Request> {
    let mut last = None;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            other => KeyCode::Char(other),
        };
        last = app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    last
}

fn busy() -> App {
    let mut app = App::new();
    app.model = busy_program();
    app.refresh();
    app
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn threads_have_names_states_and_what_they_wait_for() {
    let text = screen(&busy(), 100, 30);
    has(
        &text,
        &[
            "made-up 4242",
            "mxn: 2 at once, 3/64 LWPs",
            "10 threads: 2 on LWP, 1 run queue, 6 blocked, 1 sleeping",
            "[threads]",
            "hog-1",
            "on LWP",
            "mutex table < #2",
            "██████████",
            "1000",
        ],
    );
}

/// Threads that come in several pages have rows of several moments. A walk that ends tells that those which
/// waited wait on.
#[test]
fn old_rows_are_counted() {
    let mut app = App::new();
    let mut page = |at, id, state, last| {
        let mut scene = Scene::at(ms(at), 1).thread(id, "a", state);
        scene.snapshot.pages[0].1.last = last;
        scene.snapshot.overview.runtimes[0].threads = 5;
        app.model.apply(scene.snapshot);
        app.refresh();
        screen(&app, 100, 30)
    };
    has(&page(1000, 1, State::Runnable, false), &["5 threads: 1 run queue (1 seen so far)"]);
    has(&page(1500, 2, State::Blocked, false), &["1 run queue, 1 blocked (2 seen so far)"]);
    // One second is not more than that.
    has(&page(2000, 3, State::Runnable, false), &["1 blocked (3 seen so far)"]);
    has(&page(2400, 4, State::Runnable, false), &["(4 seen so far, 1 over 1 s ago, up to 1.4 s)"]);
    has(&page(2600, 5, State::Runnable, false), &["(2 over 1 s ago, up to 1.6 s)"]);
    has(&page(2700, 1, State::Running, true), &["(1 over 1 s ago, up to 1.2 s)"]);
    // Thread 2 has waited on during this walk.
    has(&page(2800, 3, State::Runnable, true), &["1 on LWP, 3 run queue, 1 blocked  "]);
}

/// The worst figures fit into 100 columns.
#[test]
fn run_queues_stand_above_the_views() {
    let mut app = App::new();
    let scene = |at| Scene::at(ms(at), 2).thread(1, "a", State::Running);
    app.model.apply(scene(1000).queues(2, 12).snapshot);
    has(&screen(&app, 100, 30), &["mxn 1: 14 in run queues; no waits; 0 slots moved, 0 preemptions"]);
    let mut next = scene(1100).queues(5000, 4999).waited(98, ms(0)).waited(2, ms(700));
    let runtime = &mut next.snapshot.overview.runtimes[0];
    (runtime.compensated, runtime.handed_off, runtime.preempted) = (9000, 999, 9999);
    app.model.apply(next.snapshot);
    let whole =
        "mxn 1: 9999 in run queues; waits: 50% <= 1 ns, 99% <= 1.1 s; 9999 slots moved, 9999 preemptions";
    has(&screen(&app, 100, 30), &[whole]);
    has(&crate::text::report(&app.model), &[whole]);
    let json = crate::json::document(&app.model);
    let runtime = &json["runtimes"][0];
    assert_eq!(
        (&runtime["run_queue"]["queued"], &runtime["run_queue"]["dispatchable"]),
        (&4999.into(), &5000.into())
    );
    let latency = &runtime["run_queue_latency"];
    assert_eq!((&latency["count"], &latency["p99_ns"]), (&100.into(), &(1_u64 << 30).into()));
    assert_eq!(latency["buckets"][1]["count"], 2);
    let mut off = scene(1200);
    off.snapshot.overview.runtimes[0].run_queue_latency = None;
    app.model.apply(off.snapshot);
    has(&screen(&app, 100, 30), &["0 in run queues; waits are not counted; 0 slots"]);
    let mut kernel = scene(1300).waited(1, ms(1));
    kernel.snapshot.overview.runtimes[0].model = "onetoone".into();
    kernel.snapshot.overview.runtimes[0].run_queue = None;
    app.model.apply(kernel.snapshot);
    has(&screen(&app, 100, 30), &["onetoone 1: waits: 50% <= 1.0 ms, 99% <= 1.0 ms for a CPU"]);
    assert!(!screen(&app, 100, 10).contains("for a CPU"), "there is no room");
}

#[test]
fn an_lwp_has_the_length_of_its_run_queue() {
    let mut app = App::new();
    let mut scene = Scene::at(ms(1000), 1).lwp(LwpState::Running, None, 1);
    scene.snapshot.overview.runtimes[0].lwps[0].queued = 77;
    app.model.apply(scene.snapshot);
    press(&mut app, "2");
    let text = screen(&app, 120, 30);
    has(&text, &["queue"]);
    assert!(text.lines().any(|line| line.contains(" running ") && line.contains(" 77")), "{text}");
}

#[test]
fn warnings_are_sentences() {
    let text = screen(&busy(), 130, 40);
    has(
        &text,
        &[
            "! hog-1 never yields: it has kept LWP 0 for 600 ms while 1 thread could run",
            "! late has been in the run queue for 1.6 s: 2 can run at once",
            "! convoy: 6 threads wait for mutex table, which writer holds",
        ],
    );
}

#[test]
fn lwps_cpus_and_locks_have_tables() {
    let mut app = busy();
    press(&mut app, "2");
    has(&screen(&app, 100, 30), &["[LWPs]", "running", "hog-1", "spare", "100%", "writer", "600 ms"]);
    press(&mut app, "3");
    has(&screen(&app, 100, 30), &["[CPUs]", "100%", "0%", "████████", "hog-1"]);
    assert_eq!(press(&mut app, "5"), Some(Request::Locks));
    has(
        &screen(&app, 100, 30),
        &["[locks]", "0xbeef", "table", "mutex", "1000", "1600", "70 ms", "7.0 ms", "writer"],
    );
}

/// A thread that runs and one that waits, seen twice.
fn kernel_threads() -> App {
    let mut app = App::new();
    for at in [1000, 1500] {
        let mut scene = Scene::at(ms(at), 2)
            .cpus(2)
            .thread(1, "computes", State::Running)
            .own(77, false)
            .thread(2, "reads", State::InKernel)
            .own(78, true)
            .reads(78)
            .thread(3, "waits", State::Blocked)
            .waits(WaitReason::Mutex, 0xbeef, "table", Some(1))
            .own(79, true);
        let runtime = &mut scene.snapshot.overview.runtimes[0];
        (runtime.model, runtime.run_queue, runtime.run_queue_latency) = ("onetoone".into(), None, None);
        app.model.apply(scene.snapshot);
    }
    app.refresh();
    app
}

#[test]
fn kernel_threads_that_threads_own_stand_among_the_lwps() {
    let mut app = kernel_threads();
    let rows =
        |text: &str| text.lines().filter(|line| line.contains("own ")).map(str::to_owned).collect::<Vec<_>>();
    let text = screen(&app, 100, 30);
    has(&text, &["onetoone: 2 at once, a kernel thread each;", "reads [bound in kernel    read "]);
    press(&mut app, "2");
    let lwps = rows(&screen(&app, 110, 30));
    let [computes, reads, waits] = &lwps[..] else { panic!("{lwps:?}") };
    has(computes, &["onetoone 1", "77", "running", "computes", "100%", "500 ms"]);
    has(reads, &["78", "in kernel    read ", "reads", "0%"]);
    has(waits, &["79", "idle", "waits", "0%"]);
    press(&mut app, "f");
    has(&screen(&app, 100, 30), &["computes (priority normal, bound)", "tid 77"]);
    press(&mut app, "\x1b3");
    let text = screen(&app, 100, 30);
    let cpu = text.lines().find(|line| line.contains("computes")).unwrap_or_else(|| panic!("{text}"));
    has(cpu, &["100%", "own", "reads"]);
    assert!(!text.contains("waits"), "{text}");
    press(&mut app, "4");
    let text = screen(&app, 100, 30);
    has(&text, &["CPU 1 100%", "own running", "own in kernel", "mutex table (1, held by computes): waits"]);
    assert!(!text.contains("run queue"), "{text}");
}

#[test]
fn the_mapping_stands_in_columns() {
    let mut app = busy();
    press(&mut app, "4");
    let text = screen(&app, 80, 24);
    has(
        &text,
        &[
            "CPU 0 100%        CPU 1 100%        1 spare LWP       run queue",
            "LWP 0 running     LWP 1 running                       1",
            "hog-1             writer                              late",
            "mutex table (6, held by writer): reader-10 reader-11",
            "sleep (1): clock",
        ],
    );
}

#[test]
fn a_thread_is_followed_with_its_history() {
    let mut app = busy();
    press(&mut app, "jj\n");
    assert_eq!(app.model.followed, Some(3));
    for at in 0..4 {
        let state = if at == 3 { State::Running } else { State::Runnable };
        app.model.apply(Scene::at(ms(2000 + at * 100), 2).thread(3, "late", state).snapshot);
    }
    let text = screen(&app, 80, 24);
    has(
        &text,
        &["thread 3 late (priority normal)", "▒▒▒█", "on LWP", "in this state for 2.3 s", "of its life"],
    );
    has(&text, &["stack ", " KiB  started by "]);
    let mut scene = Scene::at(ms(3000), 2);
    scene.snapshot.pages[0].1.ended = vec![3];
    app.model.apply(scene.snapshot);
    app.refresh();
    has(&screen(&app, 80, 24), &["thread 3 has ended", "▒▒▒█"]);
    press(&mut app, "f");
    assert_eq!(app.model.followed, None);
}

/// With events, the strip has each moment to scale, and the last changes are told. 1,024 ms are 64 letters.
#[test]
fn a_followed_thread_has_its_events_to_scale() {
    let mut app = busy();
    press(&mut app, "jj\n");
    app.model.apply(Scene::at(ms(2000), 2).thread(3, "late", State::Running).snapshot);
    has(&screen(&app, 64, 40), &["a letter for each refresh; l records all changes"]);
    let (by, reason) = (Some(waker()), WaitReason::Mutex);
    let scene = Scene::at(ms(3024), 2)
        .thread(3, "late", State::Running)
        .thread(waker().as_u64().get(), "boss", State::Running)
        .event(3, ms(2000), EventKind::Dispatch { cpu: None })
        .event(3, ms(2256), EventKind::Block { reason, at: Some(0xbeef) })
        .event(3, ms(2512), EventKind::Ready { by, chosen: true })
        .event(3, ms(2640), EventKind::Dispatch { cpu: None })
        // Four changes in one letter.
        .event(3, ms(2801), EventKind::Preempt)
        .event(3, ms(2802), EventKind::Dispatch { cpu: None })
        .event(3, ms(2803), EventKind::Yield)
        .event(3, ms(2804), EventKind::Dispatch { cpu: None });
    app.model.apply(scene.snapshot);
    let text = screen(&app, 64, 40);
    let strip = ["█".repeat(16), "░".repeat(16), "▓".repeat(8), "█".repeat(24)].concat();
    let mark = format!("{}^", " ".repeat(50));
    let title = "the last 1.0 s, 16 ms a letter";
    has(&text, &[title, &strip, &mark, "512 ms ago  dispatchable   128 ms  LWP -   woken by boss"]);
    has(&text, &["768 ms ago  blocked        256 ms  LWP -   mutex table"]);
    has(&text, &["220 ms ago  on LWP         220 ms  LWP 7"]);
    has(&screen(&app, 80, 40), &["LWP -   its time slice was over", "LWP -   it yielded"]);
    // Half of it, twice as large.
    press(&mut app, "+");
    has(&screen(&app, 64, 40), &["the last 512 ms", &format!("{}{}", "▓".repeat(16), "█".repeat(48))]);
    press(&mut app, "-");
    // The next part, of which the beginning was lost.
    let scene = Scene::at(ms(3280), 2).event(3, ms(3216), EventKind::Yield).lost_until(ms(3152));
    app.model.apply(scene.snapshot);
    let strip = ["▓".repeat(8), "█".repeat(24), " ".repeat(8), "█".repeat(4), "▒".repeat(4)].concat();
    has(&screen(&app, 64, 40), &[&strip]);
    // Without events it is as before.
    app.model.apply(Scene::at(ms(3300), 2).thread(3, "late", State::Running).snapshot);
    has(&screen(&app, 64, 40), &["a letter for each refresh; l records", "███"]);
}

/// A thread that has waited since before events were recorded has none: its state says all.
#[test]
fn a_thread_without_events_is_in_its_state() {
    let mut app = busy();
    press(&mut app, "jj\n");
    let mut scene = Scene::at(ms(512), 2).thread(3, "late", State::Blocked).event(3, ms(0), EventKind::Exit);
    scene.snapshot.history.as_mut().expect("it has one").1.events.clear();
    app.model.apply(scene.snapshot);
    has(&screen(&app, 64, 40), &[&format!("{}{}", " ".repeat(32), "░".repeat(32))]);
}

#[test]
fn keys_sort_filter_and_ask() {
    let mut app = busy();
    assert_eq!(press(&mut app, "l"), Some(Request::Level(Level::Events)));
    assert_eq!(press(&mut app, "p"), Some(Request::Pause(true)));
    has(&screen(&app, 100, 30), &["PAUSED"]);
    press(&mut app, "/READER-1");
    has(&screen(&app, 120, 30), &["/READER-1_"]);
    press(&mut app, "1\n");
    let text = screen(&app, 120, 30);
    has(&text, &["filter: READER-11 (1)", "reader-11"]);
    assert!(!text.contains("clock"), "{text}");
    press(&mut app, "\x1b");
    has(&screen(&app, 100, 30), &["clock"]);
    let first = |app: &App| app.rows[0];
    let by_id = first(&app);
    press(&mut app, "r");
    assert_ne!(first(&app), by_id);
    press(&mut app, "rs");
    has(&screen(&app, 100, 30), &["s sort (name)"]);
    assert_eq!(first(&app), crate::table::Key::Thread(4), "clock is the first name");
    press(&mut app, "?");
    has(&screen(&app, 100, 40), &["dispatchable", "an LWP was chosen for it"]);
    assert_eq!(press(&mut app, "q"), Some(Request::Quit));
}

#[test]
fn escape_and_a_key_that_are_read_at_once_are_two_keys() {
    let mut app = busy();
    press(&mut app, "/waiter");
    app.key(KeyEvent::new(KeyCode::Char('/'), KeyModifiers::ALT));
    press(&mut app, "hog-0\n");
    has(&screen(&app, 100, 30), &["filter: hog-0 ("]);
}

#[test]
fn the_selection_stays_with_its_thread() {
    let mut app = busy();
    press(&mut app, "jjj");
    press(&mut app, "r");
    assert_eq!(app.selected[0], Some(crate::table::Key::Thread(4)));
    press(&mut app, "G");
    assert_eq!(app.selected[0], Some(crate::table::Key::Thread(1)));
    press(&mut app, "jg");
    assert_eq!(app.selected[0], Some(crate::table::Key::Thread(15)));
}

#[test]
fn every_view_fits_into_every_size() {
    let sizes = [
        (1, 1),
        (1, 50),
        (200, 1),
        (2, 5),
        (19, 5),
        (20, 4),
        (20, 5),
        (20, 8),
        (33, 7),
        (80, 24),
        (300, 100),
    ];
    for empty in [true, false] {
        for (width, height) in sizes {
            let mut app = if empty { App::new() } else { busy() };
            for keys in ["1", "f", "f?", "?2", "3", "4", "jjjjG", "5", "/x", "\n"] {
                press(&mut app, keys);
                let text = screen(&app, width, height);
                assert_eq!(text.lines().count(), usize::from(height));
            }
        }
    }
}

/// Each row is found by its key. If each took a search of all, this would take minutes.
#[test]
fn a_hundred_thousand_locks_are_listed() {
    let mut app = App::new();
    let mut scene = Scene::at(ms(5), 1);
    for at in (1..=100_000).rev() {
        scene = scene.lock(at, "one of many", at % 1000, 1);
    }
    let scene = scene.thread(1, "writer", State::Blocked).waits(WaitReason::Mutex, 77, "", None);
    app.model.apply(scene.snapshot);
    let begin = std::time::Instant::now();
    press(&mut app, "5sss/0x4d \n");
    has(&screen(&app, 120, 24), &["one of many", "filter: 0x4d  (1)", "0x4d", "1 writer"]);
    assert_eq!(crate::text::report(&app.model).matches("one of many").count(), 100_000);
    assert!(begin.elapsed() < ms(60_000), "{:?}", begin.elapsed());
}

#[test]
fn twenty_columns_and_five_lines_show_threads() {
    let app = busy();
    let text = screen(&app, 20, 5);
    has(&text, &["made-up 4242", "! hog-1 never yields", "name", "hog-1", "writer"]);
    has(&screen(&app, 19, 5), &["too small"]);
}

#[test]
fn names_cannot_control_the_terminal() {
    let mut app = App::new();
    app.model.apply(Scene::at(ms(5), 1).thread(1, "a\x1b[2Jb\n", State::Running).snapshot);
    app.refresh();
    let text = screen(&app, 80, 24);
    has(&text, &["a\u{fffd}[2Jb\u{fffd}"]);
    let json = crate::json::document(&app.model).to_string();
    assert!(json.contains(r"a\u001b[2Jb\n"), "{json}");
    assert!(crate::text::report(&app.model).contains("a\u{fffd}[2Jb"));
}

#[test]
fn trouble_is_a_warning() {
    let mut app = busy();
    app.model.trouble = Some("the process has ended".into());
    app.view = View::Mapping;
    has(&screen(&app, 80, 24), &["! the process has ended", "hog-1"]);
}
