//! Threads that compute a little, enter a critical region that all share, and begin again.

use std::io;
use std::sync::Arc;

use super::Tally;
use super::compute::steps;
use crate::support::crew::work_together;
use crate::support::library::{Attributes, Library, Lock};

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: u32,
    /// How often each thread takes the lock.
    pub(crate) entries: u32,
    /// Steps of computing for each entry, without the lock and with it.
    pub(crate) outside: u32,
    pub(crate) inside: u32,
    pub(crate) attributes: Attributes,
}

/// Lets them work on the calling thread's runtime. Counts the entries, under the lock.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn synchronize<L: Library>(plan: Plan) -> io::Result<Tally> {
    let entered = Arc::new(L::Mutex::new(0_u64));
    let worker = {
        let entered = Arc::clone(&entered);
        move |_| {
            for _ in 0..plan.entries {
                steps(plan.outside.into());
                let mut entered = entered.lock();
                let before = *entered;
                steps(plan.inside.into());
                *entered = before + 1;
            }
        }
    };
    let elapsed = work_together::<L>(plan.threads, plan.attributes, worker, || ())?;
    let counted = *entered.lock();
    Ok(Tally { elapsed, counted, due: u64::from(plan.threads) * u64::from(plan.entries) })
}
