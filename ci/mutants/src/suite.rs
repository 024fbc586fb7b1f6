//! The compiled copy of the project, its models and test programs, and the mutations that each reaches.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::listed::{self, Listed};
use crate::site::Site;
use crate::{Options, Verdict};

/// Rounds in which mutations that do not compile are left out.
const ROUNDS: usize = 20;

/// All tests, with the sites that each reaches without a mutation.
pub(crate) struct Suite {
    tests: Vec<Test>,
}

struct Test {
    name: String,
    binary: PathBuf,
    /// The test's name in its binary; `None` for a whole program.
    exact: Option<String>,
    is_model: bool,
    reaches: HashSet<usize>,
    /// How long it takes without a mutation; `None`: it has not passed.
    took: Option<Duration>,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    Failed,
    OutOfTime,
}

/// The test programs that run beside the unit tests, by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Programs {
    /// Of these, each mutation runs the single tests that reach it.
    pub(crate) single: Vec<String>,
    /// These run whole, because their tests depend on time.
    pub(crate) whole: Vec<String>,
}

impl Suite {
    /// Copies and compiles the project with the planted texts of its files, and runs everything once
    /// without a mutation.
    pub(crate) fn build(
        root: &Path,
        work: &Path,
        planted: &BTreeMap<String, String>,
        sites: usize,
        programs: &Programs,
        options: &Options,
    ) -> Result<Self, String> {
        let tree = work.join("tree");
        copy(root, &tree, planted, sites)?;
        let mut tests = Vec::new();
        for (flags, name) in [(&["--lib"][..], ""), (&["--test", "loom_public"][..], "loom_public::")] {
            let binary = compile(&tree, &work.join("loom"), flags, true)?;
            let list = output(Command::new(&binary).arg("--list"))?;
            for line in list.lines() {
                let Some(model) = line.strip_suffix(": test") else { continue };
                // A negative twin fails without any mutation.
                if name.is_empty() && !model.contains("::loom_") || model.contains("negative_") {
                    continue;
                }
                tests.push(Test::new(format!("{name}{model}"), binary.clone(), Some(model), true));
            }
        }
        if !options.models_only {
            for name in &programs.whole {
                let binary = compile(&tree, &work.join("plain"), &["--test", name], false)?;
                tests.push(Test::new(name.clone(), binary, None, false));
            }
            let unit = [("unit", vec!["--lib"])];
            let single = programs.single.iter().map(|program| (program.as_str(), vec!["--test", program]));
            for (name, which) in unit.into_iter().chain(single) {
                let binary = compile(&tree, &work.join("plain"), &which, false)?;
                let list = output(Command::new(&binary).arg("--list"))?;
                let ignored = output(Command::new(&binary).args(["--list", "--ignored"]))?;
                let ignored: HashSet<&str> = ignored.lines().collect();
                for line in list.lines().filter(|line| !ignored.contains(line)) {
                    let Some(test) = line.strip_suffix(": test") else { continue };
                    tests.push(Test::new(format!("{name}::{test}"), binary.clone(), Some(test), false));
                }
            }
        }
        let mut suite = Self { tests };
        suite.measure(work, options.jobs)?;
        Ok(suite)
    }

    pub(crate) fn models(&self) -> usize {
        self.tests.iter().filter(|test| test.is_model).count()
    }

    pub(crate) fn programs(&self) -> usize {
        self.tests.len() - self.models()
    }

    /// Runs each test without a mutation: single tests in parallel, whole programs one by one. A test that
    /// fails twice finds nothing, and is left out. What was measured is kept until a program is compiled
    /// again.
    fn measure(&mut self, work: &Path, jobs: usize) -> Result<(), String> {
        let logs = work.join("reached");
        let here = |error: std::io::Error| format!("{}: {error}", logs.display());
        fs::create_dir_all(&logs).map_err(here)?;
        let log = |index: usize| logs.join(format!("{index}"));
        let kept = logs.join("times.json");
        let times: Vec<(String, Option<Duration>)> = if is_newer(&kept, &self.tests) {
            serde_json::from_slice(&fs::read(&kept).map_err(here)?).unwrap_or_default()
        } else {
            Vec::new()
        };
        if times.iter().map(|(name, _)| name).ne(self.tests.iter().map(|test| &test.name)) {
            self.run_all(&log, jobs);
            let times: Vec<_> = self.tests.iter().map(|test| (&test.name, test.took)).collect();
            fs::write(&kept, serde_json::to_vec(&times).map_err(|error| error.to_string())?).map_err(here)?;
        } else {
            self.tests.iter_mut().zip(times).for_each(|(test, (_, took))| test.took = took);
        }
        for (index, test) in self.tests.iter_mut().enumerate().filter(|(_, test)| test.took.is_some()) {
            let reached = fs::read_to_string(log(index)).unwrap_or_default();
            test.reaches = reached.lines().filter_map(|line| line.parse().ok()).collect();
        }
        Ok(())
    }

    fn run_all(&mut self, log: &(impl Fn(usize) -> PathBuf + Sync), jobs: usize) {
        let run = |index: usize, test: &mut Test| {
            for _ in 0..2 {
                let _ = fs::remove_file(log(index));
                let begin = Instant::now();
                let ended = test.run(Duration::from_secs(1200), |command| {
                    command.env("MUTANTS_REACHED", log(index));
                });
                if ended == Ok(Ended::Passed) {
                    test.took = Some(begin.elapsed());
                    return;
                }
                println!("{}: without any mutation: {ended:?}", test.name);
            }
        };
        let (mut single, mut programs): (Vec<_>, Vec<_>) =
            self.tests.iter_mut().enumerate().partition(|(_, test)| test.exact.is_some());
        let queue = Mutex::new(single.drain(..));
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    loop {
                        let next = queue.lock().expect("no panic while it was held").next();
                        let Some((index, test)) = next else { break };
                        run(index, test);
                    }
                });
            }
        });
        for (index, test) in programs.drain(..) {
            run(index, test);
        }
    }

    /// Runs the models, or the programs, that reach the mutation, until one fails. Those that stand nearest
    /// to the mutation's file come first, and of those the quickest. With a budget, those that do not fit
    /// into so much time do not run.
    pub(crate) fn judge(&self, site: &Site, models: bool, budget: Option<Duration>) -> Verdict {
        let mut tests: Vec<&Test> = self
            .tests
            .iter()
            .filter(|test| test.is_model == models && test.reaches.contains(&site.number))
            .collect();
        tests.sort_by_key(|test| (Reverse(test.nearness(&site.file)), test.took));
        if tests.is_empty() {
            return Verdict::NotReached;
        }
        let (mut slow, mut spent) = (0, Duration::ZERO);
        for test in &tests {
            // A single test is short.
            let least = Duration::from_secs(if test.exact.is_some() && !models { 10 } else { 60 });
            let took = test.took.expect("what was not measured reaches nothing");
            let limit = took * if models { 5 } else { 3 } + least;
            if budget.is_some_and(|budget| spent + took > budget) {
                slow += 1;
                continue;
            }
            spent += took;
            let mutated = test.run(limit, |command| {
                command.env("MUTANT", site.number.to_string());
            });
            let found = match mutated {
                // With the mutation, a model may have many more orders to try than without it.
                Ok(Ended::OutOfTime) if models => {
                    slow += 1;
                    false
                }
                // A program that hangs has found it. A program that also fails without the mutation has not.
                Ok(Ended::OutOfTime) => true,
                Ok(Ended::Failed) => models || test.run(limit, |_| ()) == Ok(Ended::Passed),
                Ok(Ended::Passed) => false,
                Err(_) => false,
            };
            if found {
                return Verdict::Found { by: test.name.clone() };
            }
        }
        Verdict::Survived { reached_by: tests.len(), slow }
    }
}

impl Test {
    fn new(name: String, binary: PathBuf, exact: Option<&str>, is_model: bool) -> Self {
        let exact = exact.map(str::to_owned);
        Self { name, binary, exact, is_model, reaches: HashSet::new(), took: None }
    }

    /// Returns how many of the file's folders and modules the test names: `deadlock::real` is nearer to
    /// `src/thread/deadlock/watch.rs` than other programs are.
    fn nearness(&self, file: &str) -> usize {
        let file = file.trim_start_matches("src/").trim_end_matches(".rs");
        file.split('/').filter(|part| self.name.split("::").any(|named| named == *part)).count()
    }

    fn run(&self, limit: Duration, set: impl FnOnce(&mut Command)) -> Result<Ended, String> {
        let mut command = Command::new("timeout");
        command.arg("--kill-after=5").arg(limit.as_secs().max(1).to_string()).arg(&self.binary);
        if let Some(test) = &self.exact {
            command.args(["--exact", test]);
        }
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        set(&mut command);
        let status = command.status().map_err(|error| format!("timeout: {error}"))?;
        Ok(match status.code() {
            Some(0) => Ended::Passed,
            Some(124 | 137) => Ended::OutOfTime,
            _ => Ended::Failed,
        })
    }
}

/// Returns `true` if the file is newer than the program of each test.
fn is_newer(file: &Path, tests: &[Test]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    changed(file).is_some_and(|kept| {
        tests.iter().all(|test| changed(&test.binary).is_some_and(|compiled| compiled < kept))
    })
}

/// Returns those of cargo-mutants' mutations that do not compile. Begins with those of the last run, so that
/// the copy does not change if nothing has.
pub(crate) fn unviable(root: &Path, work: &Path, listed: &Listed) -> Result<BTreeSet<usize>, String> {
    let (tree, kept) = (work.join("tree"), work.join("unviable.json"));
    let names: Vec<&str> = listed.sites.iter().map(|site| site.name.as_str()).collect();
    let last: Option<(Vec<String>, BTreeSet<usize>)> =
        fs::read(&kept).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut out = last.filter(|(of, _)| *of == names).map(|(_, out)| out).unwrap_or_default();
    for _ in 0..ROUNDS {
        copy(root, &tree, &listed.planted(&out), listed.sites.len())?;
        let mut errors = errors(&tree, &work.join("plain"), false)?;
        if errors.is_empty() {
            errors = self::errors(&tree, &work.join("loom"), true)?;
        }
        if errors.is_empty() {
            let bytes = serde_json::to_vec(&(names, &out)).map_err(|error| error.to_string())?;
            write(&kept, &bytes)?;
            return Ok(out);
        }
        let before = out.len();
        for Message { spans, .. } in &errors {
            let primary = spans.iter().filter(|span| span.is_primary).chain(spans).next();
            let Some(span) = primary else { continue };
            let text = fs::read_to_string(tree.join(&span.file_name)).map_err(|error| error.to_string())?;
            out.extend(listed::numbers_at(&text, span.byte_start..span.byte_end));
        }
        println!("{} mutations do not compile", out.len());
        if out.len() == before {
            let said = errors.into_iter().map(|error| error.rendered.unwrap_or_default());
            return Err(said.collect());
        }
    }
    Err(format!("after {ROUNDS} rounds the mutations still do not compile"))
}

/// A line of cargo's output.
#[derive(Deserialize)]
struct Line {
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// Returns the compiler's errors.
fn errors(tree: &Path, target: &Path, loom: bool) -> Result<Vec<Message>, String> {
    let mut command = Command::new("cargo");
    command.current_dir(tree).args(["check", "--lib", "--profile", "test", "--message-format=json"]);
    command.arg("--target-dir").arg(target);
    if loom {
        command.env("RUSTFLAGS", "--cfg loom");
    }
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stdout);
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()?.message);
    let errors: Vec<Message> =
        messages.filter(|message| message.level == "error" && !message.spans.is_empty()).collect();
    if errors.is_empty() && !done.status.success() {
        return Err(format!("{command:?}: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr)));
    }
    Ok(errors)
}

/// Copies the files that git knows or would add, with the planted texts. Leaves unchanged files alone.
/// Removes sources of an earlier copy that are gone: a module may have moved.
fn copy(root: &Path, tree: &Path, planted: &BTreeMap<String, String>, sites: usize) -> Result<(), String> {
    let list = output(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root),
    )?;
    let here = |error: std::io::Error, file: &str| format!("{file}: {error}");
    let mut copied = BTreeSet::from([tree.join("src/mutants.rs")]);
    for file in list.lines() {
        if file.starts_with("ci/mutants/") || !root.join(file).is_file() {
            continue;
        }
        let mut bytes = fs::read(root.join(file)).map_err(|error| here(error, file))?;
        if let Some(text) = planted.get(file) {
            bytes = text.clone().into_bytes();
        }
        if file == "src/lib.rs" {
            let text = String::from_utf8(bytes).map_err(|error| format!("{file}: {error}"))?;
            bytes = text.replacen("\nmod arch;\n", "\nmod arch;\nmod mutants;\n", 1).into_bytes();
        }
        write(&tree.join(file), &bytes)?;
        copied.insert(tree.join(file));
    }
    for folder in ["src", "tests"] {
        remove_others(&tree.join(folder), &copied).map_err(|error| here(error, folder))?;
    }
    let switch = include_str!("switch.rs.in").replace("SITES", &sites.to_string());
    write(&tree.join("src/mutants.rs"), switch.as_bytes())
}

fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let here = |error: std::io::Error| format!("{}: {error}", path.display());
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().ok_or("a file stands in a folder")?).map_err(here)?;
    fs::write(path, bytes).map_err(here)
}

/// Compiles one test target of the copy and returns the path of its program.
fn compile(tree: &Path, target: &Path, which: &[&str], loom: bool) -> Result<PathBuf, String> {
    let mut command = Command::new("cargo");
    command.current_dir(tree).args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    command.arg("--target-dir").arg(target).args(which);
    if loom {
        command
            .arg("--release")
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    }
    let said = output(&mut command)?;
    let programs = said.lines().filter_map(|line| line.split("\"executable\":\"").nth(1));
    let last = programs.filter_map(|rest| rest.split('"').next()).next_back();
    last.map(PathBuf::from).ok_or(format!("cargo names no program for {which:?}"))
}

/// Returns the standard output of a command that must succeed.
fn output(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{command:?}: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr)));
    }
    String::from_utf8(done.stdout).map_err(|error| format!("{command:?}: {error}"))
}
