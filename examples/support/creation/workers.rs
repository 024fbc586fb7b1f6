//! Threads that create threads.
//!
//! Each creator has so many children at a time at most. With that many, it waits for the oldest to end before
//! it creates the next. The children do nothing.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::crew::work_together;
use crate::support::library::{Attributes, Library, Lock};

/// What is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Threads that create.
    pub(crate) creators: u32,
    /// Children that each of them has at once, at most.
    pub(crate) at_a_time: u32,
    /// Children in all.
    pub(crate) creations: u64,
}

impl Plan {
    /// Children of one of the creators: equal parts, of which the first may have one more.
    pub(crate) fn share_of(self, creator: u32) -> u64 {
        let (part, rest) =
            (self.creations / u64::from(self.creators), self.creations % u64::from(self.creators));
        part + u64::from(u64::from(creator) < rest)
    }
}

/// Creates as planned on the calling thread's runtime. `start` starts a child of the creator with that
/// number. Gives the time from when all creators may begin until all threads have ended.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended.
pub(crate) fn create<L: Library>(
    plan: Plan,
    start: impl Fn(u32) -> io::Result<L::Thread> + Clone + Send + 'static,
) -> io::Result<Duration> {
    let failure = Arc::new(L::Mutex::new(None));
    let creator = {
        let failure = Arc::clone(&failure);
        move |number| {
            if let Err(error) = create_share::<L>(plan, number, || start(number)) {
                *failure.lock() = Some(error);
            }
        }
    };
    let elapsed = work_together::<L>(plan.creators, Attributes::default(), creator, || ())?;
    let failed = failure.lock().take();
    failed.map_or(Ok(elapsed), Err)
}

/// One creator's life.
fn create_share<L: Library>(
    plan: Plan,
    creator: u32,
    start: impl Fn() -> io::Result<L::Thread>,
) -> io::Result<()> {
    let mut children = VecDeque::with_capacity(plan.at_a_time as usize);
    let mut outcome = Ok(());
    for number in 1..=plan.share_of(creator) {
        if children.len() == plan.at_a_time as usize {
            children.pop_front().into_iter().for_each(L::join);
        }
        match start() {
            Ok(thread) => children.push_back(thread),
            Err(error) => {
                let message = format!("cannot start child {number} of creator {}: {error}", creator + 1);
                outcome = Err(io::Error::new(error.kind(), message));
                break;
            }
        }
    }
    children.into_iter().for_each(L::join);
    outcome
}

/// Where children say that they were there: a counter for each creator's, apart from each other in memory.
///
/// It is leaked. A child that does nothing takes some 50 ns of our threads. A share of the counters, taken
/// and given back, would be a third of that. One count for all would go to and fro between the CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register(&'static [Count]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

impl Register {
    /// For the children of so many creators, of one run after the other.
    pub(crate) fn new(creators: u32) -> Self {
        Self(Vec::leak((0..creators).map(|_| Count::default()).collect()))
    }

    /// Children counted so far.
    fn total(self) -> u64 {
        // Relaxed: the children have been joined.
        self.0.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Created {
    pub(crate) elapsed: Duration,
    /// Children that ran.
    pub(crate) counted: u64,
}

/// [`create`], with children of such attributes that count themselves in a register that no other creator
/// uses meanwhile.
///
/// # Errors
/// As `create`'s.
pub(crate) fn create_and_count<L: Library>(
    plan: Plan,
    attributes: Attributes,
    register: Register,
) -> io::Result<Created> {
    let before = register.total();
    let elapsed = create::<L>(plan, move |creator| {
        let count = &register.0[creator as usize].0;
        L::spawn(attributes, move || {
            // Relaxed: the join orders it.
            count.fetch_add(1, Ordering::Relaxed);
        })
    })?;
    Ok(Created { elapsed, counted: register.total() - before })
}
