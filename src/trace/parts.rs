//! A recording in parts, each short enough for one message to another process.

use std::collections::HashMap;
use std::io;

use super::raw::Raw;
use crate::recorder::format::{EVENT, MAGIC};

/// The most events of a part: 8 MiB of them.
const MOST: usize = 1 << 18;

/// Returns the bytes of a recording of what has come into the rings since the last call with the same `seen`:
/// how far each ring has been read. If that is too much for one part, the next call goes on.
///
/// # Errors
///
/// If it cannot be written.
pub(crate) fn take(seen: &mut HashMap<usize, u64>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Raw::take_since(seen, MOST, |_| true).write(&mut bytes)?;
    Ok(bytes)
}

/// Appends a part to those before it. Returns `true` if more may follow; `None` if it is not a part.
pub(crate) fn append(all: &mut Vec<u8>, part: &[u8]) -> Option<bool> {
    let sections = part.strip_prefix(MAGIC)?;
    all.extend_from_slice(if all.is_empty() { part } else { sections });
    Some(sections.len() >= MOST * EVENT)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::recorder::event::{Event, Kind};
    use crate::recorder::rings::{self, NO_LWP, RingCell};
    use crate::sys::child_tests::isolated;
    use crate::trace::{EventKind, Recording, Track};

    /// An LWP has recorded more than its ring keeps since it was read. What a file of all parts has of before
    /// is not whole.
    #[test]
    fn what_was_overwritten_between_two_parts_is_told() {
        const EVENTS: u64 = 1_000;
        let test = concat!(module_path!(), "::what_was_overwritten_between_two_parts_is_told");
        isolated(test, || {
            let ring = rings::take(1, 0, EVENTS as usize);
            let (mut seen, mut all, mut pushed) = (HashMap::new(), Vec::new(), 0);
            // Returns the recording of the parts so far, and of the last one. A count is a nanosecond.
            let mut after = |more: u64| {
                for number in pushed..pushed + more {
                    ring.ring().push(Event::new(u64::MAX / 2 + number, Kind::Yield, 7));
                }
                pushed += more;
                let part = take(&mut seen).unwrap();
                append(&mut all, &part).expect("it is a part");
                let read = |bytes: &[u8]| Recording::of(Raw { scale: None, ..Raw::read(bytes).unwrap() });
                (read(&all), read(&part))
            };
            let none = Some(Duration::ZERO);
            for _ in 0..2 {
                let (all, last) = after(EVENTS);
                assert_eq!((all.whole_since(), last.whole_since()), (none, none));
            }
            let (all, last) = after(100 * EVENTS);
            let since = all.whole_since().unwrap();
            let first = all.events()[2 * EVENTS as usize].at;
            assert!(since == first && first > Duration::from_nanos(3 * EVENTS), "{since:?} {first:?}");
            assert!(last.whole_since() > none, "though all of its events are whole");
            let (all, last) = after(EVENTS);
            assert_eq!((all.whole_since(), last.whole_since()), (Some(since), none));
        });
    }

    /// An LWP has ended, and another has its ring before that was read to the end.
    #[test]
    fn what_an_lwp_has_left_unread_is_read() {
        isolated(concat!(module_path!(), "::what_an_lwp_has_left_unread_is_read"), || {
            let mut seen = HashMap::new();
            let mut count = u64::MAX / 2;
            let mut read = |ring: &rings::Listed, events| {
                for _ in 0..events {
                    count += 1;
                    ring.ring().push(Event::new(count, Kind::Yield, 7));
                }
                let part = take(&mut seen).unwrap();
                let recording = Recording::of(Raw { scale: None, ..Raw::read(&*part).unwrap() });
                assert_eq!(recording.whole_since(), Some(Duration::ZERO));
                recording.events().len()
            };
            // Each LWP gives its ring back at its end.
            let first = RingCell::new();
            let ring = first.open(1, 0, 1_000);
            assert_eq!(read(ring, 10), 10);
            drop(first);
            let second = RingCell::new();
            assert!(std::ptr::eq(second.open(1, 1, 1_000), ring), "it is free");
            assert_eq!(read(ring, 10), 10);
            ring.ring().push(Event::new(u64::MAX / 2 + 20, Kind::Yield, 7));
            drop(second);
            assert!(std::ptr::eq(RingCell::new().open(1, 2, 1_000), ring), "it is free");
            assert_eq!(read(ring, 10), 11);
            assert_eq!(read(ring, 10), 10);
        });
    }

    /// An LWP ends, and another one fills its ring several times, while that is read. The mark between them
    /// is gone.
    #[test]
    fn what_overtakes_a_reader_is_not_taken_for_what_it_has_read() {
        let test = concat!(module_path!(), "::what_overtakes_a_reader_is_not_taken_for_what_it_has_read");
        isolated(test, || {
            const EVENTS: u64 = 10_000;
            let cells = [RingCell::new(), RingCell::new()].map(|cell| Cell::new(Some(cell)));
            let [first, second] = &cells;
            let open = |cell: &Cell<Option<RingCell>>, lwp| {
                let taken = cell.take().expect("it is there");
                let ring = taken.open(1, lwp, 1_000);
                for number in 0..EVENTS {
                    let count = u64::MAX / 2 + u64::from(lwp) * EVENTS + number;
                    ring.ring().push(Event::new(count, Kind::Yield, 7 + u64::from(lwp)));
                }
                cell.set(Some(taken));
            };
            open(first, 0);
            let overtake = |_: &Event| {
                if let Some(ended) = first.take() {
                    drop(ended);
                    open(second, 1);
                }
                true
            };
            let raw = Raw::take_since(&mut HashMap::new(), usize::MAX, overtake);
            assert_eq!(rings::all().count(), 1, "the second has the ring of the first");
            let count_of = |event: &Event| event.count;
            let [ring] = &raw.rings[..] else { panic!("{:?}", raw.rings.len()) };
            assert!(ring.lwp == 1 && ring.events.iter().all(|event| event.thread == 8));
            assert!(ring.events.len() >= 1_000);
            assert_eq!(raw.lwps_whole_since, ring.events.first().map(count_of));
        });
    }

    /// The mark between two owners comes in a later part than the first events.
    #[test]
    fn each_part_knows_whose_its_events_are() {
        isolated(concat!(module_path!(), "::each_part_knows_whose_its_events_are"), || {
            let count = MOST as u64 + 10;
            let (mut seen, mut all) = (HashMap::new(), Vec::new());
            for lwp in 0..2 {
                let cell = RingCell::new();
                let ring = cell.open(1, lwp, 2 * count as usize);
                assert_eq!(rings::all().count(), 1, "the second has the ring of the first");
                for number in 0..count {
                    ring.ring().push(Event::new(u64::MAX / 2 + number, Kind::Yield, 7 + u64::from(lwp)));
                }
            }
            while append(&mut all, &take(&mut seen).unwrap()).expect("it is a part") {}
            let recording = Recording::read(&*all).unwrap();
            for lwp in 0..2 {
                let own = Track::Lwp { runtime: 1, lwp };
                let events = recording.events().iter().filter(|event| event.track == own);
                let is_own = |event: &crate::trace::Event| {
                    event.thread.is_some_and(|it| it.as_u64().get() == 7 + u64::from(lwp))
                };
                assert_eq!(events.clone().count() as u64, count, "{own:?}");
                assert!(events.clone().all(is_own), "{own:?}");
            }
        });
    }

    /// What a ring has is in the parts once, though there is more than fits into one.
    #[test]
    fn parts_have_each_event_once() {
        // Other tests write into rings meanwhile, but not as these threads.
        let first = 1 << 60;
        let count = 2 * MOST as u64 + 1_000;
        let ring = rings::take(0, NO_LWP, count as usize);
        let mut seen = HashMap::new();
        let mut parts: Vec<usize> = Vec::new();
        let mut all = Vec::new();
        for number in 0..count {
            ring.ring().push(Event::new(u64::MAX / 2 + number, Kind::Yield, first + number));
        }
        loop {
            let part = take(&mut seen).unwrap();
            parts.push(part.len());
            if !append(&mut all, &part).expect("it is a part") {
                break;
            }
        }
        assert!(parts.len() >= 3, "{parts:?}");
        assert!(parts.iter().all(|&bytes| bytes < (MOST + 8192) * EVENT), "{parts:?}");
        let recording = Recording::read(&*all).unwrap();
        let yields = recording.events().iter().filter(|event| event.kind == EventKind::Yield);
        let mut numbers: Vec<u64> = yields.filter_map(|event| Some(event.thread?.as_u64().get())).collect();
        numbers.retain(|&number| number >= first);
        numbers.sort_unstable();
        assert_eq!(numbers.len() as u64, count);
        assert_eq!((numbers.first(), numbers.last()), (Some(&first), Some(&(first + count - 1))));
        numbers.dedup();
        assert_eq!(numbers.len() as u64, count);
        assert_eq!(append(&mut all, b"something else"), None);
    }
}
