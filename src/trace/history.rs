//! The last events of one thread, for a client that follows it.
//!
//! **Problem.** The events of a thread lie in the rings of all kernel threads that it was on, or that have
//! woken it. A client that follows one thread asks ten times a second, and all rings have megabytes.
//!
//! **Solution.** Each look reads the events that have come since the last one, and keeps those of the thread
//! before anything is sorted or converted. Times are those of the monotonic clock, so that looks fit
//! together.

use std::collections::HashMap;
use std::time::Duration;

use super::event::{Event, id, kind_of};
use super::order;
use super::raw::Raw;
use crate::recorder::clock::Scale;

/// What has happened to a thread since the last look.
pub(crate) struct History {
    /// When it was taken, by the monotonic clock.
    pub(crate) at: Duration,
    /// The last events, in the order of time, by the same clock.
    pub(crate) events: Vec<Event>,
    /// Events before this moment may be missing; zero: none is.
    pub(crate) whole_since: Duration,
}

/// Returns the events of a thread since the last call with the same `seen`: the last ones, at most `most`.
pub(crate) fn take(thread: u64, seen: &mut HashMap<usize, u64>, most: usize) -> History {
    let raw = Raw::take_since(seen, usize::MAX, |event| event.thread == thread);
    let scale = raw.scale.unwrap_or_else(Scale::take);
    let moment = |count| Duration::from_nanos(scale.moment(count));
    let mut all = Vec::new();
    for ring in &raw.rings {
        let track = ring.track(ring.number);
        all.extend(ring.events.iter().map(|&event| (event, track)));
    }
    order::sort(&mut all);
    let events = all.into_iter().filter_map(|(event, track)| {
        let (at, kind) = (moment(event.count), kind_of(event)?);
        Some(Event { at, track, thread: id(event.thread), kind })
    });
    let mut events: Vec<_> = events.collect();
    let at = moment(scale.end());
    // A ring of which all events are gone is whole from now on.
    let mut whole_since = if raw.whole_since == 0 { Duration::ZERO } else { moment(raw.whole_since).min(at) };
    if events.len() > most {
        events.drain(..events.len() - most);
        whole_since = whole_since.max(events.first().map_or(at, |event| event.at));
    }
    History { at, events, whole_since }
}
