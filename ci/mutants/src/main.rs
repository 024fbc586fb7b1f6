//! Plants one-line mutations in Selvedge's protocols and orderings, and reports those that no test finds.
//!
//! **Why `cargo-mutants` is not enough.** That tool changes what a function returns and which operator it
//! uses. It cannot weaken an ordering, swap two steps of a protocol, or leave out a last look. It also
//! compiles once for each mutation.
//!
//! **How.** All mutations of `table.toml`, and one for each ordering in the model-checked files, are planted
//! in a copy of the sources behind a switch (`switch.rs.in`). The copy is compiled twice, with and without
//! loom. A first run of each model and test program, without a mutation, records the sites that it reaches.
//! Then each mutation is switched on for the tests that reach it, the quickest first, until one fails.

mod site;
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use site::{Site, Table};
use suite::Suite;

struct Options {
    list: bool,
    only: String,
    shard: (usize, usize),
    jobs: usize,
    models_only: bool,
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
  --list          prints the mutations and ends
  --only TEXT     takes the mutations with TEXT in their name
  --shard K/N     takes each N-th mutation, from the K-th on (K counts from 0)
  --jobs N        runs N models at once (default: the number of CPUs)
  --models-only   runs no test programs";

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
    let mut options = Options { list: false, only: String::new(), shard: (0, 1), jobs, models_only: false };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next().map_err(wrong)? {
        match arg {
            Long("list") => options.list = true,
            Long("only") => options.only = parser.value().and_then(|it| it.string()).map_err(wrong)?,
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
    let sites = table.sites(root)?;
    let selected: Vec<&Site> = sites
        .iter()
        .filter(|site| site.name.contains(&options.only) && site.number % options.shard.1 == options.shard.0)
        .collect();
    if options.list {
        for site in &selected {
            println!("{:>5}  {}", site.number, site.name);
        }
        return Ok(0);
    }
    let work: PathBuf = root.join("target/mutants");
    let suite = Suite::build(root, &work, &sites, &table.programs, options)?;
    println!(
        "{} of {} mutations; {} models, {} programs",
        selected.len(),
        sites.len(),
        suite.models(),
        suite.programs()
    );

    // Models run in parallel. Programs depend on time, so each runs alone.
    let verdicts: Vec<Mutex<Option<Verdict>>> = selected.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(site) = selected.get(index) else { break };
                    let verdict = suite.judge(site, true);
                    if matches!(verdict, Verdict::Found { .. }) || site.only_models {
                        say(site, &verdict);
                    }
                    *verdicts[index].lock().expect("no panic while it was held") = Some(verdict);
                }
            });
        }
    });
    let mut survivors = 0;
    let mut found = 0;
    for (site, verdict) in selected.iter().zip(verdicts) {
        let mut verdict =
            verdict.into_inner().expect("no panic while it was held").expect("a verdict of the models");
        if !site.only_models && !options.models_only && !matches!(verdict, Verdict::Found { .. }) {
            let programs = suite.judge(site, false);
            verdict = match (verdict, programs) {
                (Verdict::Survived { reached_by: a, slow }, Verdict::Survived { reached_by: b, .. }) => {
                    Verdict::Survived { reached_by: a + b, slow }
                }
                (models, Verdict::NotReached) => models,
                (_, programs) => programs,
            };
            say(site, &verdict);
        }
        match verdict {
            Verdict::Found { .. } => found += 1,
            _ if site.no_effect.is_none() => survivors += 1,
            _ => {}
        }
    }
    println!("{} mutations: {found} found, {survivors} survive without an excuse", selected.len());
    Ok(survivors)
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
