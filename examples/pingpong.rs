//! Ping-Pong: how fast can two threads take turns?
//!
//! Each game is a pair of threads in lock step over four mutexes. See `support/pingpong.rs` for the rules and `-?` for
//! the options.
//!
//! ```text
//! cargo run --release --example pingpong -- -v -n 4 -r mxn
//! ```

mod support;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use support::library::Std;
use support::pingpong::play;
use support::pingpong_cli::{self as cli, Model, Options, Refusal};

fn main() -> ExitCode {
    let options = match cli::parse(std::env::args_os().skip(1), std::env::var_os("SELVEDGE_RUNTIME")) {
        Ok(options) => options,
        Err(Refusal::Help) => {
            print!("{}", cli::USAGE);
            return ExitCode::FAILURE;
        }
        Err(Refusal::Wrong(what)) => {
            eprint!("pingpong: {what}\n{}", cli::USAGE);
            return ExitCode::FAILURE;
        }
    };
    if options.verbose {
        println!("{options}");
    }
    match run(&options) {
        Ok(elapsed) => {
            if options.verbose {
                println!("{} games completed in {} ms", options.games, elapsed.as_millis());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pingpong: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<Duration> {
    let tournament = options.tournament();
    let ready = |elapsed: Duration| {
        if options.verbose {
            println!("{} threads initialised in {} ms", 2 * u64::from(options.games), elapsed.as_millis());
        }
    };
    match options.model {
        Model::Std => play::<Std>(tournament, ready),
        Model::Mxn | Model::OneToOne => Err(io::ErrorKind::Unsupported.into()),
    }
}
