//! Plants one-line mutations in Selvedge's protocols and orderings, and reports those that no test finds.
//!
//! **Why `cargo-mutants` is not enough.** That tool changes what a function returns and which operator it
//! uses. It cannot weaken an ordering, swap two steps of a protocol, or leave out a last look. It also
//! compiles once for each mutation; what it lists is planted here too (`listed.rs`).
//!
//! **How.** All mutations of `table.toml`, and one for each ordering in the model-checked files, are planted
//! in a copy of the sources behind a switch (`switch.rs.in`). The copy is compiled twice, with and without
//! loom. A first run of each model and test program, without a mutation, records the sites that it reaches.
//! Then each mutation is switched on for the tests that reach it, the quickest first, until one fails.

mod listed;
mod site;
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use listed::Listed;
use site::{Site, Table};
use suite::{Programs, Suite};

struct Options {
    list: bool,
    only: Vec<String>,
    shard: (usize, usize),
    jobs: usize,
    models_only: bool,
    listed: bool,
    budget: Duration,
}

/// The tests' verdict on a mutation.
enum Verdict {
    Found {
        by: String,
    },
    /// Tests reach it and pass; some models gave no verdict within their time.
    Survived {
        reached_by: usize,
        slow: usize,
    },
    NotReached,
}

const USAGE: &str = "usage: selvedge-mutants [--list] [--only TEXT] [--shard K/N] [--jobs N] [--models-only]
                        [--listed [--budget SECONDS]]
  --list          prints the mutations and ends
  --only TEXT     takes the mutations with TEXT in their name; of several TEXTs, any
  --shard K/N     takes each N-th mutation, from the K-th on (K counts from 0)
  --jobs N        runs N models at once (default: the number of CPUs)
  --models-only   runs no test programs
  --listed        takes what `cargo mutants` lists, and not the table
  --budget SECONDS  of the tests and of the models that reach one of the listed mutations, takes the quickest
                  that need so long together without it (default: 40)";

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(survivors) => ExitCode::from(u8::from(survivors > 0)),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Options, String> {
    use lexopt::prelude::*;
    let wrong = |error: lexopt::Error| format!("{error}\n{USAGE}");
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        list: false,
        only: Vec::new(),
        shard: (0, 1),
        jobs,
        models_only: false,
        listed: false,
        budget: Duration::from_secs(40),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next().map_err(wrong)? {
        match arg {
            Long("list") => options.list = true,
            Long("only") => options.only.push(parser.value().and_then(|it| it.string()).map_err(wrong)?),
            Long("shard") => {
                let text = parser.value().and_then(|it| it.string()).map_err(wrong)?;
                let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
                options.shard = parts.filter(|&(k, n): &(usize, usize)| k < n).ok_or(format!(
                    "invalid value `{text}` for --shard: expected K/N with K below N\n{USAGE}"
                ))?;
            }
            Long("jobs") => {
                options.jobs = parser.value().and_then(|it| it.parse()).map_err(wrong)?;
                if options.jobs == 0 {
                    return Err(format!("invalid value `0` for --jobs: expected at least 1\n{USAGE}"));
                }
            }
            Long("models-only") => options.models_only = true,
            Long("listed") => options.listed = true,
            Long("budget") => {
                options.budget =
                    Duration::from_secs(parser.value().and_then(|it| it.parse()).map_err(wrong)?);
            }
            Long("help") => return Err(USAGE.to_owned()),
            other => return Err(wrong(other.unexpected())),
        }
    }
    Ok(options)
}

/// Returns the number of survivors that no line excuses.
fn run(options: &Options) -> Result<usize, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).ok_or("the tool stands two folders below the project")?;
    let table = Table::read(&here.join("table.toml"))?;
    if options.listed { run_listed(options, root) } else { run_table(options, root, &table) }
}

/// Returns the mutations that the options select. If they are to be listed only, prints them and returns
/// none.
fn select<'a>(options: &Options, sites: &'a [Site]) -> Vec<&'a Site> {
    let is_named =
        |name: &str| options.only.is_empty() || options.only.iter().any(|text| name.contains(text));
    let is_selected = |site: &&Site| is_named(&site.name) && site.number % options.shard.1 == options.shard.0;
    let selected: Vec<&Site> = sites.iter().filter(is_selected).collect();
    if options.list {
        for site in &selected {
            println!("{:>5}  {}", site.number, site.name);
        }
        return Vec::new();
    }
    selected
}

/// Judges each of the mutations, several at once.
fn in_parallel(options: &Options, sites: &[&Site], judge: impl Fn(&Site) -> Verdict + Sync) -> Vec<Verdict> {
    let verdicts: Vec<Mutex<Option<Verdict>>> = sites.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(site) = sites.get(index) else { break };
                    *verdicts[index].lock().expect("no panic while it was held") = Some(judge(site));
                }
            });
        }
    });
    let verdict = |verdict: Mutex<Option<Verdict>>| verdict.into_inner().expect("no panic while it was held");
    verdicts.into_iter().map(|it| verdict(it).expect("each was judged")).collect()
}

fn run_table(options: &Options, root: &Path, table: &Table) -> Result<usize, String> {
    let sites = table.sites(root)?;
    // Before they are listed: the list also says that they can be planted.
    let planted = site::planted(root, &sites)?;
    let selected = select(options, &sites);
    if selected.is_empty() {
        return Ok(0);
    }
    let work: PathBuf = root.join("target/mutants");
    let suite = Suite::build(root, &work, &planted, sites.len(), &table.programs, options)?;
    announce(&selected, sites.len(), &suite);

    // Models run in parallel. Programs depend on time, so each runs alone.
    let verdicts = in_parallel(options, &selected, |site| {
        let verdict = suite.judge(site, true, None);
        if matches!(verdict, Verdict::Found { .. }) || site.only_models {
            say(site, &verdict);
        }
        verdict
    });
    let verdicts = selected.iter().zip(verdicts).map(|(site, verdict)| {
        let done = site.only_models || options.models_only || matches!(verdict, Verdict::Found { .. });
        if done {
            return verdict;
        }
        let verdict = verdict.and(suite.judge(site, false, None));
        say(site, &verdict);
        verdict
    });
    let verdicts: Vec<Verdict> = verdicts.collect();
    Ok(sum_up(&selected, &verdicts))
}

fn run_listed(options: &Options, root: &Path) -> Result<usize, String> {
    let listed = Listed::read(root)?;
    let mut selected = select(options, &listed.sites);
    if selected.is_empty() {
        return Ok(0);
    }
    let work: PathBuf = root.join("target/mutants/listed");
    let unviable = suite::unviable(root, &work, &listed)?;
    println!("{} cannot be planted, and {} more do not compile", listed.left_out, unviable.len());
    selected.retain(|site| !unviable.contains(&site.number));
    let single =
        ["bad_input", "conformance", "deadlock", "memory", "port", "refused", "shared", "tls", "tls_pinned"]
            .map(str::to_owned);
    let programs = Programs { single: single.into(), whole: Vec::new() };
    let suite =
        Suite::build(root, &work, &listed.planted(&unviable), listed.sites.len(), &programs, options)?;
    announce(&selected, listed.sites.len(), &suite);
    let verdicts = in_parallel(options, &selected, |site| {
        let mut verdict = suite.judge(site, false, Some(options.budget));
        if !matches!(verdict, Verdict::Found { .. }) {
            verdict = verdict.and(suite.judge(site, true, Some(options.budget)));
        }
        if !matches!(verdict, Verdict::Found { .. }) {
            say(site, &verdict);
        }
        verdict
    });
    Ok(sum_up(&selected, &verdicts))
}

fn announce(selected: &[&Site], sites: usize, suite: &Suite) {
    let (models, others) = (suite.models(), suite.programs());
    println!("{} of {sites} mutations; {models} models, {others} tests", selected.len());
}

fn sum_up(selected: &[&Site], verdicts: &[Verdict]) -> usize {
    let found = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Found { .. })).count();
    let survives = |(site, verdict): &(&&Site, &Verdict)| {
        !matches!(verdict, Verdict::Found { .. }) && site.no_effect.is_none()
    };
    let survivors = selected.iter().zip(verdicts).filter(survives).count();
    println!("{} mutations: {found} found, {survivors} survive without an excuse", selected.len());
    survivors
}

impl Verdict {
    /// Returns the verdict of both kinds of tests.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Survived { reached_by: a, slow: x }, Self::Survived { reached_by: b, slow: y }) => {
                Self::Survived { reached_by: a + b, slow: x + y }
            }
            (verdict, Self::NotReached) => verdict,
            (_, verdict) => verdict,
        }
    }
}

fn say(site: &Site, verdict: &Verdict) {
    let name = format!("{:>5}  {}", site.number, site.name);
    match (verdict, &site.no_effect) {
        (Verdict::Found { by }, None) => println!("found     {name}\n                 by {by}"),
        (Verdict::Found { by }, Some(_)) => {
            println!("found     {name}\n                 by {by}: its excuse is wrong")
        }
        (_, Some(why)) => println!("excused   {name}\n                 {why}"),
        (Verdict::NotReached, None) => println!("SURVIVED  {name}\n                 no test reaches it"),
        (Verdict::Survived { reached_by, slow }, None) => {
            println!(
                "SURVIVED  {name}\n                 {reached_by} tests reach it; {slow} were too slow to tell"
            );
        }
    }
}
