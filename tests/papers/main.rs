//! The report on the papers: what verdicts say of figures, and what the report says of both.
#![allow(dead_code, reason = "the program that these are parts of uses the rest")]

#[path = "../../examples/papers/exhibit.rs"]
mod exhibit;
#[path = "../../examples/papers/findings.rs"]
mod findings;
#[path = "../../examples/papers/front.rs"]
mod front;
#[path = "../../examples/papers/html.rs"]
mod html;
#[path = "../../examples/papers/lives.rs"]
mod lives;
#[path = "../../examples/papers/machine.rs"]
mod machine;
#[path = "../../examples/papers/numbers.rs"]
mod numbers;
#[path = "../../examples/papers/options.rs"]
mod options;
#[path = "../../examples/papers/overview.rs"]
mod overview;
#[path = "../../examples/papers/plot/mod.rs"]
mod plot;
#[path = "../../examples/papers/report.rs"]
mod report;
#[path = "../../examples/papers/results.rs"]
mod results;
#[path = "../../examples/papers/strip.rs"]
mod strip;
mod support;
#[path = "../../examples/papers/verdict.rs"]
mod verdict;
#[path = "../../examples/papers/words.rs"]
mod words;

mod figures;
mod pages;
mod reports;
mod strips;
mod verdicts;

use findings::{Cell, Contender, Findings};

/// Made-up figures: of each contender (by name, whether ours), and each point, those of all rounds.
fn findings(contenders: &[(&'static str, bool)], points: &[&[&[f64]]]) -> Findings {
    let cell = |samples: &&[f64]| Cell { asked: true, samples: samples.to_vec(), ..Cell::default() };
    let rounds = points.iter().flat_map(|cells| cells.iter()).map(|samples| samples.len()).max();
    Findings {
        contenders: contenders.iter().map(|&(name, ours)| Contender { name, ours }).collect(),
        cells: points.iter().map(|cells| cells.iter().map(cell).collect()).collect(),
        rounds: rounds.unwrap_or(0),
        ..Findings::default()
    }
}
