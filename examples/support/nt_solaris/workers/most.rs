//! As many threads as can exist at once.
//!
//! Each waits until no more can be made, or enough are there. What refuses the next one is asked for at
//! that moment (see [`limits`](super::limits)). What other processes need is left to them (see
//! [`neighbors`](super::neighbors)). A library may also end the process where it should refuse; so the count
//! is told on the way.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::{self, Limit};
use super::neighbors::Neighbors;
use super::process::{Usage, usage};
use crate::support::library::{Attributes, Library, Lock};

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Enough.
    pub(crate) most: u32,
    pub(crate) attributes: Attributes,
}

/// After how many threads the count is told.
pub(crate) use super::neighbors::STRIDE;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Most {
    /// How many existed at once.
    pub(crate) made: u32,
    /// Until the last was made, and until all had begun.
    pub(crate) making: Duration,
    pub(crate) begun: Duration,
    /// From when they may go until the last has ended.
    pub(crate) ending: Duration,
    /// Those that ran.
    pub(crate) ran: u32,
    /// What they took.
    pub(crate) memory: Usage,
    pub(crate) stop: Stop,
}

/// Why there were no more.
#[derive(Debug)]
pub(crate) enum Stop {
    /// There were enough.
    Enough,
    /// One was refused: what the library says, and the limits that were reached at that moment.
    Refused { error: io::Error, limits: Vec<Limit> },
    /// Other processes would have too little of this.
    Spared(Limit),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enough => f.write_str("there were enough"),
            Self::Refused { error, limits } => {
                write!(f, "{error}")?;
                limits.iter().try_for_each(|limit| write!(f, "; {limit}"))
            }
            Self::Spared(limit) => write!(f, "{limit}; the rest is left to other processes"),
        }
    }
}

/// Makes them on the calling thread's runtime. `tell` is told after every [`STRIDE`] how many there are.
pub(crate) fn most<L: Library>(plan: Plan, mut tell: impl FnMut(u32)) -> Most {
    let crowd = Arc::new(Crowd::<L>::default());
    let (before, mut neighbors) = (usage(), Neighbors::before_threads());
    let mut threads = Vec::with_capacity(plan.most as usize);
    let mut stop = Stop::Enough;
    let start = Instant::now();
    for number in 1..=plan.most {
        let crowd = Arc::clone(&crowd);
        match L::spawn(plan.attributes, move || crowd.join()) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                stop = Stop::Refused { error, limits: limits::reached().collect() };
                break;
            }
        }
        if number % STRIDE == 0 {
            tell(number);
            if let Some(limit) = neighbors.short_of(number) {
                stop = Stop::Spared(limit);
                break;
            }
        }
    }
    let making = start.elapsed();
    let made = threads.len() as u32;
    crowd.wait_for(made);
    let begun = start.elapsed();
    let memory = usage().beyond(before);

    let start = Instant::now();
    crowd.dismiss();
    threads.into_iter().for_each(L::join);
    let ending = start.elapsed();
    let ran = crowd.state.lock().ran;
    Most { made, making, begun, ending, ran, memory, stop }
}

/// Those that exist.
struct Crowd<L: Library> {
    state: L::Mutex<State>,
    complete: L::Condvar,
    dismissed: L::Condvar,
}

#[derive(Default)]
struct State {
    begun: u32,
    /// How many will come, once that is known.
    expected: Option<u32>,
    dismissed: bool,
    ran: u32,
}

impl<L: Library> Default for Crowd<L> {
    fn default() -> Self {
        let state = L::Mutex::new(State::default());
        Self { state, complete: L::Condvar::default(), dismissed: L::Condvar::default() }
    }
}

impl<L: Library> Crowd<L> {
    /// A thread's life.
    fn join(&self) {
        let mut state = self.state.lock();
        state.begun += 1;
        if state.expected == Some(state.begun) {
            L::notify_one(&self.complete);
        }
        while !state.dismissed {
            state = L::wait(&self.dismissed, state);
        }
        state.ran += 1;
    }

    fn wait_for(&self, threads: u32) {
        let mut state = self.state.lock();
        state.expected = Some(threads);
        while state.begun < threads {
            state = L::wait(&self.complete, state);
        }
    }

    fn dismiss(&self) {
        self.state.lock().dismissed = true;
        L::notify_all(&self.dismissed);
    }
}
