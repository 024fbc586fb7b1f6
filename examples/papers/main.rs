//! The papers, again: reruns the measurements of five papers about threads, and writes a report of what
//! came of them.
//!
//! For each table and figure, the report has what it claimed and its numbers. Beside them are ours, of both
//! models and the peers on this machine, a plot, and a verdict that is computed from the samples. See
//! `--help` for the options.
//!
//! ```text
//! cargo run --release --example papers -- --quick
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `plan/` | what is measured: experiments, by paper |
//! | `exhibit.rs` | how a table or figure is described |
//! | `run.rs` | takes the samples; each is a process of its own, by the benches' harness |
//! | `findings.rs` | the figures |
//! | `lives.rs`, `strip.rs` | what the threads of a recorded run did: as figures, and as text |
//! | `verdict.rs`, `words.rs` | what they say of a claim, and how it is said |
//! | `report.rs`, `front.rs`, `overview.rs`, `results.rs`, `html.rs`, `plot/` | how they are shown |

mod exhibit;
mod findings;
mod front;
mod html;
mod lives;
mod machine;
mod numbers;
mod options;
mod overview;
mod plan;
mod plot;
mod program;
mod report;
mod results;
mod run;
mod strip;
#[path = "../../benches/support/mod.rs"]
mod support;
mod verdict;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::run(std::env::args_os().skip(1)).into()
}
