//! Threads that compute, each for itself.
//!
//! Every thread does the same number of steps. So on idle CPUs the time is that of one thread's task, times
//! the threads of the busiest CPU. A model loses where it leaves a CPU idle, or divides the CPUs badly among
//! threads that are no multiple of them.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Tally;
use crate::support::crew::work_together;
use crate::support::library::{Attributes, Library};

/// Steps that take about a millisecond.
pub(crate) const STEPS_PER_MS: u64 = 1_000_000;

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// Of each thread.
    pub(crate) steps: u64,
    pub(crate) attributes: Attributes,
}

/// Lets them compute on the calling thread's runtime. Counts those that came to the right result.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn compute<L: Library>(plan: Plan) -> io::Result<Tally> {
    let right = Arc::new(AtomicU64::new(0));
    let worker = {
        let (right, expected) = (Arc::clone(&right), result_of(plan.steps));
        move |_| {
            let same = steps(plan.steps) == expected;
            // Relaxed: the joins order it.
            right.fetch_add(same.into(), Ordering::Relaxed);
        }
    };
    let elapsed = work_together::<L>(plan.threads, plan.attributes, worker, || ())?;
    Ok(Tally { elapsed, counted: right.load(Ordering::Relaxed), due: plan.threads.into() })
}

const FACTOR: u64 = 6_364_136_223_846_793_005;
const SUMMAND: u64 = 1_442_695_040_888_963_407;

/// Multiplies and adds, so many times. Each step needs the one before. Not inlined, so that it is the
/// same code for every library.
#[inline(never)]
pub(crate) fn steps(count: u64) -> u64 {
    // Of a factor that it knows, the compiler would make one that does several steps at once.
    let (mut x, factor) = (black_box(1_u64), black_box(FACTOR));
    for _ in 0..count {
        x = x.wrapping_mul(factor).wrapping_add(SUMMAND);
    }
    black_box(x)
}

/// What [`steps`] must come to. Two equal halves of the way are one step squared: `a (a x + b) + b` is
/// `a² x + (a + 1) b`.
pub(crate) fn result_of(mut count: u64) -> u64 {
    let (mut x, mut factor, mut summand) = (1_u64, FACTOR, SUMMAND);
    while count > 0 {
        if count % 2 == 1 {
            x = x.wrapping_mul(factor).wrapping_add(summand);
        }
        summand = summand.wrapping_mul(factor.wrapping_add(1));
        factor = factor.wrapping_mul(factor);
        count /= 2;
    }
    x
}
