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
    use super::*;
    use crate::recorder::event::{Event, Kind};
    use crate::recorder::rings::{self, NO_LWP};
    use crate::trace::{EventKind, Recording};

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
