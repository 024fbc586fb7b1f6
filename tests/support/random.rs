//! Checks a property of random values.
//!
//! The seed is the same in each run, so CI does not depend on luck. With `SELVEDGE_STRESS=full` each run has
//! a new seed, and there are [`MORE`] times as many cases. `SELVEDGE_SEED=N` sets the seed. A failure
//! shrinks, and its message names the seed.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::prelude::Rng;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestError, TestRng, TestRunner};

/// The factor by which full length multiplies the number of cases.
const MORE: u32 = 50;

/// A failure shrinks for at most this long, in milliseconds.
const SHRINKING: u32 = 120_000;

pub(crate) fn full() -> bool {
    std::env::var_os("SELVEDGE_STRESS").is_some_and(|value| value == "full")
}

fn seed() -> u64 {
    if let Ok(seed) = std::env::var("SELVEDGE_SEED") {
        return seed.parse().expect("SELVEDGE_SEED is a number");
    }
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    if full() { now() } else { 1 }
}

/// Calls `property` with `cases` random values of `inputs`. If that panics, panics with the smallest value
/// that makes it panic.
pub(crate) fn check<S: Strategy>(cases: u32, inputs: &S, property: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let seed = seed();
    let config = Config {
        cases: if full() { cases.saturating_mul(MORE) } else { cases },
        failure_persistence: None,
        max_shrink_iters: 100_000,
        max_shrink_time: SHRINKING,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    };
    let run = TestRunner::new(config).run(inputs, |input| {
        property(input);
        Ok(())
    });
    match run {
        Ok(()) => {}
        Err(TestError::Abort(why)) => panic!("seed {seed}: {why}"),
        Err(TestError::Fail(why, smallest)) => {
            panic!("{why}\nsmallest input: {smallest:?}\nSELVEDGE_SEED={seed} repeats it")
        }
    }
}

/// Random numbers, for a test that draws them as it goes. It says the seed.
#[derive(Debug)]
#[allow(dead_code, reason = "one of the programs draws so")]
pub(crate) struct Numbers(TestRng);

#[allow(dead_code, reason = "one of the programs draws so")]
impl Numbers {
    pub(crate) fn new() -> Self {
        let seed = seed();
        println!("SELVEDGE_SEED={seed} repeats it");
        let config = Config { rng_seed: RngSeed::Fixed(seed), ..Config::default() };
        Self(TestRunner::new(config).new_rng())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
