//! Threads that begin together.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::library::{Attributes, Library, Lock};

/// Says how far a crew is, as often as it is asked; read from counters that its threads keep anyway.
pub(crate) type Sampler = Box<dyn Fn() -> u64 + Send>;

/// Starts so many threads on the calling thread's runtime, lets all go at once when they exist, runs
/// `meanwhile` here, and joins them. `body` is told each one's number, from zero. Gives the time from
/// when they may go to the last join.
///
/// # Errors
/// The library cannot make a thread. All threads started before have ended, without `body`.
pub(crate) fn work_together<L: Library>(
    threads: u32,
    attributes: Attributes,
    body: impl Fn(u32) + Clone + Send + 'static,
    meanwhile: impl FnOnce(),
) -> io::Result<Duration> {
    let gate = Arc::new(Gate::<L> { state: L::Mutex::new(State::Closed), changed: L::Condvar::default() });
    let mut crew = Vec::new();
    for number in 0..threads {
        let (their_gate, body) = (Arc::clone(&gate), body.clone());
        let spawned = L::spawn(attributes, move || {
            if their_gate.pass() {
                body(number);
            }
        });
        match spawned {
            Ok(thread) => crew.push(thread),
            Err(error) => {
                gate.set(State::CalledOff);
                crew.into_iter().for_each(L::join);
                let message = format!("cannot start thread {} of {threads}: {error}", number + 1);
                return Err(io::Error::new(error.kind(), message));
            }
        }
    }
    let start = Instant::now();
    gate.set(State::Open);
    meanwhile();
    crew.into_iter().for_each(L::join);
    Ok(start.elapsed())
}

/// Where threads wait until all of them exist.
struct Gate<L: Library> {
    state: L::Mutex<State>,
    changed: L::Condvar,
}

#[derive(Clone, Copy)]
enum State {
    Closed,
    Open,
    /// Not all threads exist, and they never will.
    CalledOff,
}

impl<L: Library> Gate<L> {
    /// Waits until the gate is open; `false`: it never will be.
    fn pass(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            match *state {
                State::Closed => state = L::wait(&self.changed, state),
                State::Open => return true,
                State::CalledOff => return false,
            }
        }
    }

    fn set(&self, state: State) {
        *self.state.lock() = state;
        L::notify_all(&self.changed);
    }
}
