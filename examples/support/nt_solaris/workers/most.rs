//! As many threads as can exist at once.
//!
//! Each waits until no more can be made, or enough are there. What refuses the next one is asked for at
//! that moment (see [`limits`](super::limits)). A library may also end the process where it should
//! refuse; so the count is told on the way.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits;
use crate::support::library::{Attributes, Library, Lock};

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Enough.
    pub(crate) most: u32,
    pub(crate) attributes: Attributes,
}

/// After how many threads the count is told.
pub(crate) const STRIDE: u32 = 128;

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
    /// What they took, in bytes: of memory, and of addresses.
    pub(crate) memory: limits::Memory,
    /// `None`: there were enough.
    pub(crate) refusal: Option<Refused>,
}

/// Why there were no more.
#[derive(Debug)]
pub(crate) struct Refused {
    /// What the library says.
    pub(crate) error: io::Error,
    /// The limits that were reached at that moment.
    pub(crate) limits: Vec<limits::Limit>,
}

/// Makes them on the calling thread's runtime. `tell` is told after every [`STRIDE`] how many there are.
pub(crate) fn most<L: Library>(plan: Plan, mut tell: impl FnMut(u32)) -> Most {
    let crowd = Arc::new(Crowd::<L>::default());
    let before = limits::memory();
    let mut threads = Vec::with_capacity(plan.most as usize);
    let mut refusal = None;
    let start = Instant::now();
    for number in 1..=plan.most {
        let crowd = Arc::clone(&crowd);
        match L::spawn(plan.attributes, move || crowd.join()) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                refusal = Some(Refused { error, limits: limits::reached().collect() });
                break;
            }
        }
        if number % STRIDE == 0 {
            tell(number);
        }
    }
    let making = start.elapsed();
    let made = threads.len() as u32;
    crowd.wait_for(made);
    let begun = start.elapsed();
    let memory = limits::memory().since(before);

    let start = Instant::now();
    crowd.dismiss();
    threads.into_iter().for_each(L::join);
    let ending = start.elapsed();
    let ran = crowd.state.lock().ran;
    Most { made, making, begun, ending, ran, memory, refusal }
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
