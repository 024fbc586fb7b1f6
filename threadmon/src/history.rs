//! The events of the followed thread, as they have come: what it did, from when to when.

use std::collections::HashMap;
use std::time::Duration;

use selvedge::threadmon::HistoryView;
use selvedge::trace::{Event, EventKind, Span, State, Timeline};

use crate::model::{clean, index};

/// How many events are kept.
const KEPT: usize = 4000;

/// The events, while they are recorded.
#[derive(Default)]
pub(crate) struct History {
    /// In the order of time, by the program's clock.
    events: Vec<Event>,
    /// The names of what it waited for, by address.
    objects: HashMap<u64, String>,
    /// Times of which events are missing.
    gaps: Vec<(Duration, Duration)>,
    /// When the program was asked last; `None`: it was not.
    pub(crate) at: Option<Duration>,
}

/// A letter of the strip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// The state that took the most of its time; `None`: it is not known.
    pub(crate) state: Option<State>,
    /// It changed more than once in this time.
    pub(crate) restless: bool,
}

impl History {
    /// Adds what has come.
    pub(crate) fn add(&mut self, view: HistoryView) {
        if view.whole_since > Duration::ZERO {
            self.gaps.push((self.at.unwrap_or_default(), view.whole_since));
        }
        self.events.extend(view.events);
        // One ring is read after the other: an event may come after a later one of another ring.
        self.events.sort_by_key(|event| event.at);
        let surplus = self.events.len().saturating_sub(KEPT);
        if surplus > 0 {
            self.events.drain(..surplus);
            let first = self.events[0].at;
            self.gaps.retain(|gap| gap.1 > first);
            self.gaps.push((Duration::ZERO, first));
        }
        self.objects.extend(view.objects);
        self.at = Some(view.at);
    }

    /// Returns what the thread did, from when to when.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let timeline = Timeline::of_events(&self.events, self.at.unwrap_or_default());
        timeline.threads().first().map(|line| line.spans.clone()).unwrap_or_default()
    }

    /// Returns so many cells of this length up to now. For a thread without events, `now` is its state, and
    /// for how long it has been in that.
    pub(crate) fn cells(&self, count: usize, length: Duration, now: Option<(State, Duration)>) -> Vec<Cell> {
        let at = self.at.unwrap_or_default();
        let mut pieces: Vec<_> = self.spans().iter().map(|span| (span.from, span.to, span.state)).collect();
        if let (true, Some((state, since))) = (pieces.is_empty(), now) {
            pieces.push((at.saturating_sub(since), at, state));
        }
        let mut times = vec![[Duration::ZERO; 6]; count];
        let mut changes = vec![0; count];
        // The cells end now. There may be more of them than the program's clock has time.
        let place = |moment: Duration| {
            let back = at.saturating_sub(moment).as_nanos() / length.as_nanos().max(1);
            (count as u128).checked_sub(back + 1).map(|cell| cell as usize)
        };
        for &(from, to, state) in &pieces {
            if let Some(cell) = place(from) {
                changes[cell] += 1;
            }
            let Some(last) = place(to) else { continue };
            let first = place(from).unwrap_or(0);
            for (cell, times) in (first..=last).zip(&mut times[first..]) {
                let begin = at.saturating_sub(length * (count - cell) as u32);
                let end = at.saturating_sub(length * (count - cell - 1) as u32);
                times[index(state)] += to.min(end).saturating_sub(from.max(begin));
            }
        }
        let cell = |number: usize| {
            let middle = at.saturating_sub(length * (count - number) as u32) + length / 2;
            let is_known = !self.gaps.iter().any(|gap| (gap.0..gap.1).contains(&middle));
            let most = State::ALL.into_iter().max_by_key(|&state| times[number][index(state)]);
            let state = most.filter(|&state| is_known && times[number][index(state)] > Duration::ZERO);
            Cell { state, restless: changes[number] > 1 }
        };
        (0..count).map(cell).collect()
    }

    /// Returns the name that the program gave to what is at this address.
    pub(crate) fn object(&self, at: usize) -> Option<String> {
        self.objects.get(&(at as u64)).map(|name| clean(name))
    }

    /// Returns what made the thread runnable, of a span that begins then and follows one from `before` on.
    pub(crate) fn cause(&self, before: Duration, span: &Span) -> Option<EventKind> {
        let earlier = self.events.iter().rev().skip_while(|event| event.at > span.from);
        let mut near = earlier.take_while(|event| event.at >= before);
        near.find_map(|event| match event.kind {
            kind @ (EventKind::Ready { .. }
            | EventKind::Spawn { .. }
            | EventKind::Yield
            | EventKind::Preempt) => Some(kind),
            _ => None,
        })
    }
}
