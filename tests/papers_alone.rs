//! The report as a program. It starts itself again for each sample, which a test under a harness could not.
//! So this program is without one. Wherever the variable is set, it is what it tests.

#[path = "../examples/papers/exhibit.rs"]
mod exhibit;
#[path = "../examples/papers/findings.rs"]
mod findings;
#[path = "../examples/papers/front.rs"]
mod front;
#[path = "../examples/papers/html.rs"]
mod html;
#[path = "../examples/papers/lives.rs"]
mod lives;
#[path = "../examples/papers/machine.rs"]
mod machine;
#[path = "../examples/papers/numbers.rs"]
mod numbers;
#[path = "../examples/papers/options.rs"]
mod options;
#[path = "../examples/papers/overview.rs"]
mod overview;
#[path = "../examples/papers/plan/mod.rs"]
mod plan;
#[path = "../examples/papers/plot/mod.rs"]
mod plot;
#[path = "../examples/papers/program.rs"]
mod program;
#[path = "../examples/papers/report.rs"]
mod report;
#[path = "../examples/papers/results.rs"]
mod results;
#[path = "../examples/papers/run.rs"]
mod run;
#[path = "../examples/papers/strip.rs"]
mod strip;
#[path = "../benches/support/mod.rs"]
mod support;
#[path = "../examples/papers/verdict.rs"]
mod verdict;
#[path = "../examples/papers/words.rs"]
mod words;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = "SELVEDGE_TEST_PAPERS";
/// A run that should end, and does not, has failed after this.
const PATIENCE: Duration = Duration::from_secs(200);

/// Is given a folder that is not there.
type Test = fn(&Path);

fn main() -> ExitCode {
    if std::env::var_os(PROGRAM).is_some() {
        return program::run(std::env::args_os().skip(1)).into();
    }
    let tests: [(&str, Test); 7] = [
        ("a short run writes all files", a_short_run_writes_all_files),
        ("a recorded run shows what its threads did", a_recorded_run_shows_what_its_threads_did),
        ("json is all that is printed", json_is_all_that_is_printed),
        ("an interrupted run leaves a report", an_interrupted_run_leaves_a_report),
        ("help is no error", help_is_no_error),
        ("wrong arguments are refused", wrong_arguments_are_refused),
        ("the list names everything once", the_list_names_everything_once),
    ];
    for (name, test) in tests {
        println!("{name}");
        let folder = tempfile::tempdir().expect("a folder");
        // The tests create the folder themselves if they need it.
        test(&folder.path().join("papers"));
    }
    ExitCode::SUCCESS
}

fn command(line: &str, out: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(PROGRAM, "").args(line.split_whitespace()).arg("--out").arg(out);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(line: &str, out: &Path) -> Output {
    wait(command(line, out).spawn().expect("this program"))
}

/// Waits for a process with short output.
fn wait(mut child: Child) -> Output {
    let end = Instant::now() + PATIENCE;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > end {
            child.kill().expect("a child");
            panic!("it does not end: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("a child")
}

fn files(out: &Path) -> (String, Value) {
    let text = fs::read_to_string(out.join("report.md")).expect("a report");
    let results = fs::read(out.join("results.json")).expect("results");
    (text, serde_json::from_slice(&results).expect("JSON"))
}

fn a_short_run_writes_all_files(out: &Path) {
    let output = run("--smoke --only contention,lock", out);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (text, results) = files(out);
    assert!(text.contains("## P3 ") && text.contains("## P6 ") && !text.contains("## P1 "), "{text}");
    assert!(!text.contains("interrupted"), "{text}");
    let experiments = results["experiments"].as_array().expect("a list");
    assert_eq!(experiments.len(), 2);
    let figures = experiments.iter().flat_map(|experiment| experiment["figures"].as_array().expect("a list"));
    for figure in figures {
        assert_eq!(figure["samples"].as_array().map(Vec::len), Some(1), "{figure}");
        assert!(figure["samples"][0].as_f64().expect("a number") > 0.0, "{figure}");
    }
    for figure in ["p3-figure-3.svg", "p6-lock.svg"] {
        assert!(text.contains(&format!("]({figure})")), "{text}");
        assert!(fs::read_to_string(out.join(figure)).expect("a figure").contains("</svg>"));
    }
    let page = fs::read_to_string(out.join("report.html")).expect("a page");
    assert_eq!(page.matches("<svg").count(), text.matches("![").count(), "{page}");
    assert!(!page.contains("There is no picture"), "{page}");
}

fn a_recorded_run_shows_what_its_threads_did(out: &Path) {
    let output = run("--smoke --only screens-fine,screens-coarse", out);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (text, results) = files(out);
    for (experiment, svg) in [(0, "p2-figure-2.svg"), (1, "p2-figure-5.svg")] {
        let drawn = fs::read_to_string(out.join(svg)).expect("a figure");
        assert!(drawn.contains("thread 2") && drawn.contains("run queue"), "{drawn}");
        let found = &results["experiments"][experiment];
        let figures = found["figures"].as_array().expect("a list");
        // By point and contender; what the points are says `lives::Figure`.
        let of = |figure: lives::Figure| {
            let here = figures.iter().filter(move |it| it["point"].as_u64() == Some(figure as u64));
            here.map(|it| it["samples"][0].as_f64().expect("a figure")).collect::<Vec<_>>()
        };
        let states = [of(lives::Figure::OnLwp), of(lives::Figure::Dispatchable)];
        let others = [of(lives::Figure::RunQueue), of(lives::Figure::Blocked)];
        for contender in 0..3 {
            let sum: f64 = states.iter().chain(&others).map(|state| state[contender]).sum();
            assert!((99.9..=100.1).contains(&sum), "{found}");
        }
        assert!(of(lives::Figure::Lwps).iter().all(|&lwps| lwps >= 1.0), "{found}");
    }
    assert!(text.matches("```text\n").count() >= 6, "{text}");
}

fn json_is_all_that_is_printed(out: &Path) {
    let output = run("--smoke --only fairness --json", out);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert_eq!(printed, files(out).1);
    assert_eq!(printed["experiments"][0]["experiment"], "fairness");
}

/// Of many small samples, it is told to stop while one is being taken: as by a terminal, which tells the
/// whole process group.
fn an_interrupted_run_leaves_a_report(out: &Path) {
    let mut command = command("--only switch,lock", out);
    let child = command.process_group(0).spawn().expect("this program");
    let pid = child.id();
    let first = sample_of(pid, None);
    // Another one: the first has been taken.
    let second = sample_of(pid, Some(first));
    // SAFETY: no memory is involved; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(-(pid as libc::pid_t), libc::SIGINT) }, 0);
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(!PathBuf::from(format!("/proc/{second}")).exists(), "a sample was left running");
    let (text, results) = files(out);
    assert!(text.contains("**This run was interrupted** after "), "{text}");
    assert!(text.contains("It was not reached."), "{text}");
    assert_eq!(results["interrupted"], true);
    assert_eq!(results["complaints"].as_array().map(Vec::len), Some(0), "{results}");
    let figures = results["experiments"][0]["figures"].as_array().expect("a list");
    let taken: usize = figures.iter().map(|figure| figure["samples"].as_array().expect("a list").len()).sum();
    assert!(taken >= 1, "{results}");
}

/// A child of that process, other than this one.
fn sample_of(pid: u32, other: Option<u32>) -> u32 {
    let end = Instant::now() + PATIENCE;
    loop {
        // One that its parent has not waited for is still there.
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let children =
            tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let all: String = children.collect();
        let mut numbers = all.split_whitespace().filter_map(|word| word.parse().ok());
        if let Some(child) = numbers.find(|&child| Some(child) != other) {
            return child;
        }
        assert!(Instant::now() < end, "it takes no samples");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn help_is_no_error(out: &Path) {
    for help in ["--help", "-?"] {
        let output = run(help, out);
        assert_eq!(output.status.code(), Some(0), "{help}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.starts_with("usage: papers"), "{help}: {said}");
    }
    for unheard in ["--help", "--list"] {
        let full = fs::File::create("/dev/full").expect("a device");
        let output = wait(command(unheard, out).stdout(full).spawn().expect("this program"));
        assert_eq!(output.status.code(), Some(1), "{unheard}: {output:?}");
        assert!(output.stderr.starts_with(b"papers: "), "{unheard}: {output:?}");
    }
}

fn wrong_arguments_are_refused(out: &Path) {
    for wrong in ["--quick --smoke", "--only P9", "--only", "--fast", "more"] {
        let output = run(wrong, out);
        assert_eq!(output.status.code(), Some(1), "{wrong}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("papers: ") && said.contains("usage: papers"), "{wrong}: {said}");
        assert!(!out.exists(), "{wrong}");
    }
    // A file stands where the folder should be.
    fs::write(out, "").expect("a file");
    let output = run("--smoke --only lock", out);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    fs::remove_file(out).expect("the file");
}

fn the_list_names_everything_once(out: &Path) {
    let output = run("--list", out);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let list = String::from_utf8(output.stdout).expect("text");
    let papers: Vec<_> = list.lines().filter(|line| line.starts_with('P')).map(|line| &line[..2]).collect();
    assert_eq!(papers, ["P1", "P2", "P3", "P4", "P5", "P6"]);
    let (experiments, quick) = (plan::all(options::Size::Full), plan::all(options::Size::Quick));
    // The front page finds each conclusion in the plan.
    for headline in &front::HEADLINES {
        let of_paper = experiments.iter().filter(|experiment| experiment.paper == headline.paper);
        let mut exhibits = of_paper.flat_map(|experiment| &experiment.exhibits);
        let exhibit = exhibits.find(|exhibit| exhibit.id == headline.exhibit).expect("its exhibit");
        let claim = exhibit.claims.iter().find(|claim| claim.words == headline.claim).expect("its claim");
        assert_eq!(claim.whose, verdict::Whose::Paper, "{}", claim.words);
        assert_eq!(claim.checks.iter().filter(|check| check.ours).count(), 1, "{}", claim.words);
        // A quick run has enough rounds to judge it.
        let stands_in =
            |experiment: &&plan::Experiment| experiment.exhibits.iter().any(|it| it.id == headline.exhibit);
        let rounds = quick.iter().find(stands_in).expect("its experiment").rounds;
        let judged = verdict::decide(&vec![9.0; rounds], verdict::Bound::AtLeast(1.0));
        assert_eq!(judged, verdict::Answer::Holds, "{}", claim.words);
        assert!(claim.bound.can_hold(rounds), "{}", claim.words);
    }
    let mut ids: Vec<_> =
        experiments.iter().flat_map(|experiment| &experiment.exhibits).map(|exhibit| exhibit.id).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "two exhibits would write the same file");
    for experiment in &experiments {
        assert_eq!(
            list.lines().filter(|line| line.trim() == experiment.name).count(),
            1,
            "{}",
            experiment.name
        );
        // What is shown was measured, and what is compared was asked.
        for exhibit in &experiment.exhibits {
            let points = exhibit.columns.iter().flat_map(|column| &column.points);
            assert!(points.into_iter().all(|&point| point < experiment.points().count()), "{}", exhibit.id);
            for check in exhibit.claims.iter().flat_map(|claim| &claim.checks) {
                for pick in [&check.of, &check.to] {
                    let verdict::Pick::Measured { contender, points } = pick else { continue };
                    let asked = |&point: &usize| {
                        let cases = &experiment.points().nth(point).expect("a point").0.cases;
                        // With one CPU no pair is split over two.
                        cases.is_empty() || cases.iter().any(|case| case.name == *contender)
                    };
                    assert!(points.iter().all(asked), "{}: {contender} at {points:?}", exhibit.id);
                }
            }
        }
    }
    assert!(!out.exists(), "nothing is run");
}
