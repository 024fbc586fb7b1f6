//! A recording as bytes: what `SELVEDGE_TRACE` leaves behind after a crash, and what `threadmon` reads.
//! `recorder/format.rs` has the bytes.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::num::NonZeroU32;

use super::event::Track;
use crate::recorder::clock::Scale;
use crate::recorder::event::Event;
use crate::recorder::format::{CLOCK, CPUS, HEADER, LOST, MAGIC, NAMES, RING, RUNTIMES, SAMPLE, WHY, header};
use crate::recorder::{known, rings, session};
use crate::runtime::registry::{self, Facts};
use crate::sys::affinity;

/// The longest payload that a reader accepts: 1 GiB.
const LONGEST: u64 = 1 << 30;

/// How many bytes of a thread's name are kept: drawings repeat it.
pub(super) const LONGEST_NAME: usize = 256;

/// The events of one kernel thread.
#[derive(Clone, Debug, Default)]
pub(super) struct RawRing {
    pub(super) runtime: u32,
    pub(super) lwp: u32,
    /// Which ring it was in the process, from 1 on; 0: it is not known. It tells kernel threads apart.
    pub(super) number: u32,
    pub(super) events: Vec<Event>,
}

impl RawRing {
    fn new(owner: rings::Owner, listed: &rings::Listed, events: Vec<Event>) -> Self {
        Self { runtime: owner.runtime, lwp: owner.lwp, number: listed.number(), events }
    }

    /// Returns the kernel thread of the ring: its LWP, or `number` if it is none.
    pub(super) fn track(&self, number: u32) -> Track {
        match self.lwp {
            rings::NO_LWP => Track::Kernel(number),
            lwp => Track::Lwp { runtime: self.runtime, lwp },
        }
    }
}

/// A recording as it was taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    pub(super) rings: Vec<RawRing>,
    /// `None`: counts are ns.
    pub(super) scale: Option<Scale>,
    /// What is known of the runtimes.
    pub(super) facts: Vec<Facts>,
    /// How many CPUs the process might use; 0: it is not known.
    pub(super) cpus: u64,
    /// Of how many threads one recorded events.
    pub(super) one_of: Option<NonZeroU32>,
    /// Names of threads that no event tells.
    pub(super) names: Vec<(u64, String)>,
    pub(super) why: String,
    /// The count before which events may be missing: a ring has overwritten them since it was read last.
    pub(super) whole_since: u64,
    /// The same, of LWPs only, and of events of this session; 0: none is missing. `None`: it is not known, as
    /// in a file that was not written to its end.
    pub(super) lwps_whole_since: Option<u64>,
}

/// The events of a ring, as they are read. A kernel thread that writes meanwhile may be faster. Then some are
/// missing, perhaps with a mark that says whose the others are.
struct Reading<'a> {
    listed: &'a rings::Listed,
    parts: Vec<RawRing>,
    /// Of one owner.
    events: Vec<Event>,
    /// Whose they are, if a mark before them has told.
    owner: Option<rings::Owner>,
    /// The number of the next event.
    next: u64,
    /// Events are missing before it.
    cut: bool,
}

impl<'a> Reading<'a> {
    fn of(listed: &'a rings::Listed, next: u64) -> Self {
        Self { listed, parts: Vec::new(), events: Vec::new(), owner: None, next, cut: false }
    }

    /// Ends the part of events before those that are missing, if any are before `number`. If no mark has told
    /// whose they are, they are left out, as the others are. Returns `true` if any are missing since the
    /// last event that was no mark.
    fn cut_before(&mut self, number: u64) -> bool {
        if number != self.next {
            let events = std::mem::take(&mut self.events);
            self.parts.extend(self.owner.take().map(|owner| RawRing::new(owner, self.listed, events)));
            self.cut = true;
        }
        self.next = number + 1;
        self.cut
    }

    /// Returns `true` for a mark between the events of two owners.
    fn is_mark(&mut self, event: &Event) -> bool {
        let Some((before, next)) = event.owners() else {
            self.cut = false;
            return false;
        };
        let events = std::mem::take(&mut self.events);
        self.parts.push(RawRing::new(before, self.listed, events));
        self.owner = Some(next);
        true
    }

    /// Returns all parts of what was read up to this event, and `true` if the last events are missing.
    fn end(mut self, next: u64) -> (Vec<RawRing>, bool) {
        self.cut_before(next);
        let owner = self.owner.or_else(|| self.owner_before(next));
        self.parts.extend(owner.map(|owner| RawRing::new(owner, self.listed, self.events)));
        (self.parts, self.cut)
    }

    /// Returns whose the event before this number is; `None` if it is not known any more.
    fn owner_before(&self, number: u64) -> Option<rings::Owner> {
        let now = self.listed.owner();
        let mut after = Self::of(self.listed, number);
        let mut before = None;
        let end = self.listed.ring().read_some(number, usize::MAX, |number, event| {
            after.cut_before(number);
            before = before.or(event.owners().map(|(before, _)| before));
        });
        if after.cut_before(end) { None } else { Some(before.unwrap_or(now)) }
    }
}

impl Raw {
    /// Copies all rings.
    pub(super) fn take() -> Self {
        let text = |name: known::KnownName| String::from_utf8_lossy(name.bytes()).into_owned();
        let names = known::names().map(|(id, name)| (id, text(name))).collect();
        Self { names, ..Self::take_since(&mut HashMap::new(), usize::MAX, |_| true) }
    }

    /// Copies what has come into the rings since they were read so far as `seen` says, by their addresses:
    /// the events that are `wanted`. If these are `most`, there may be more, and the next call goes on.
    pub(super) fn take_since(
        seen: &mut HashMap<usize, u64>,
        most: usize,
        wanted: impl Fn(&Event) -> bool,
    ) -> Self {
        // Between what is left of earlier times and this, events are missing.
        let (began, one_of) = session::events();
        let all: Vec<_> = rings::all().collect();
        let (mut whole_since, mut lwps_whole_since, mut left) = (0, 0, most);
        let rings = all.iter().rev().flat_map(|&listed| {
            let seen = seen.entry(std::ptr::from_ref(listed).addr()).or_insert(0);
            *seen = listed.first().max(*seen);
            let mut end = listed.ring().written();
            let mut reading = Reading::of(listed, *seen);
            while *seen < end && left > 0 {
                *seen = listed.ring().read_some(*seen, left, |number, event| {
                    let cut = reading.cut_before(number);
                    if reading.is_mark(&event) {
                        return;
                    }
                    if cut {
                        whole_since = whole_since.max(event.count);
                        if listed.owner().is_lwp() && event.count >= began {
                            lwps_whole_since = lwps_whole_since.max(event.count);
                        }
                    }
                    if event.count >= began && wanted(&event) {
                        left -= 1;
                        reading.events.push(event);
                    }
                });
                if *seen > end {
                    // All that there was is overwritten.
                    end = listed.ring().written();
                }
            }
            let (parts, cut) = reading.end(*seen);
            if cut {
                whole_since = u64::MAX;
                if listed.owner().is_lwp() {
                    lwps_whole_since = u64::MAX;
                }
            }
            parts
        });
        let rings = rings.filter(|ring| !ring.events.is_empty()).collect();
        let (facts, cpus) = (registry::facts(), affinity::available() as u64);
        let (scale, one_of) = (Some(Scale::take()), NonZeroU32::new(one_of));
        let (names, why, lwps_whole_since) = (Vec::new(), String::new(), Some(lwps_whole_since));
        Self { rings, scale, facts, cpus, one_of, names, why, whole_since, lwps_whole_since }
    }

    pub(super) fn write(&self, mut to: impl Write) -> io::Result<()> {
        to.write_all(MAGIC)?;
        self.write_more(to)
    }

    /// Writes what comes after the first bytes of a file.
    pub(super) fn write_more(&self, mut to: impl Write) -> io::Result<()> {
        if let Some(scale) = &self.scale {
            section(&mut to, CLOCK, &words(&scale.to_words()))?;
        }
        let facts: Vec<u64> = self.facts.iter().flat_map(|facts| facts.to_words()).collect();
        section(&mut to, RUNTIMES, &words(&facts))?;
        section(&mut to, CPUS, &words(&[self.cpus]))?;
        if let Some(one_of) = self.one_of {
            section(&mut to, SAMPLE, &words(&[one_of.get().into()]))?;
        }
        if let Some(since) = self.lwps_whole_since {
            section(&mut to, LOST, &words(&[since]))?;
        }
        if !self.names.is_empty() {
            let mut payload = Vec::new();
            for (id, name) in &self.names {
                payload.extend(words(&[*id, name.len() as u64]));
                payload.extend(name.as_bytes());
            }
            section(&mut to, NAMES, &payload)?;
        }
        if !self.why.is_empty() {
            section(&mut to, WHY, self.why.as_bytes())?;
        }
        for ring in &self.rings {
            let mut payload =
                words(&[u64::from(ring.runtime), u64::from(ring.lwp) | u64::from(ring.number) << 32]);
            ring.events.iter().for_each(|event| payload.extend(words(&event.to_words())));
            section(&mut to, RING, &payload)?;
        }
        to.flush()
    }

    /// # Errors
    ///
    /// `InvalidData` if it is no recording, or one of another version; otherwise what `from` returns.
    pub(super) fn read(mut from: impl Read) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        let got = fill(&mut from, &mut magic)?;
        if &magic != MAGIC {
            let is_ours = got == MAGIC.len() && magic.starts_with(b"selvedge trace ");
            let problem = if is_ours { "a recording of another version" } else { "not a recording" };
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("this is {problem} of Selvedge")));
        }
        let (mut raw, mut known) = (Self::default(), HashMap::new());
        let mut header = [0; HEADER];
        while fill(&mut from, &mut header)? == HEADER {
            let length = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
            if length > LONGEST {
                let problem =
                    format!("a section of a recording has {length} bytes; at most 1 GiB is possible");
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            let mut payload = Vec::new();
            // Grows as the bytes come: a length that lies allocates nothing.
            from.by_ref().take(length).read_to_end(&mut payload)?;
            raw.add([header[0], header[1], header[2], header[3]], &payload, &mut known);
        }
        Ok(raw)
    }

    /// Adds what a section says. What makes no sense is left out. `known`: as for `add_events`.
    fn add(&mut self, tag: [u8; 4], payload: &[u8], known: &mut HashMap<(u32, u32, u32), usize>) {
        let mut words =
            payload.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        match tag {
            CLOCK => {
                let words: Vec<u64> = words.take(4).collect();
                self.scale = words.try_into().ok().and_then(Scale::from_words);
            }
            RUNTIMES => {
                let words: Vec<u64> = words.collect();
                words.as_chunks().0.iter().for_each(|&words| self.add_facts(Facts::from_words(words)));
            }
            CPUS => self.cpus = words.next().unwrap_or(0),
            SAMPLE => {
                self.one_of = words.next().and_then(|it| NonZeroU32::new(u32::try_from(it).ok()?));
            }
            LOST => self.lwps_whole_since = self.lwps_whole_since.max(words.next()),
            NAMES => self.add_names(payload),
            WHY => self.why = String::from_utf8_lossy(payload).into_owned(),
            RING => {
                let (Some(runtime), Some(lwp)) = (words.next(), words.next()) else { return };
                let words: Vec<u64> = words.collect();
                let events = words.as_chunks().0.iter().filter_map(|&words| Event::from_words(words));
                let (runtime, number) = (runtime as u32, (lwp >> 32) as u32);
                let ring = RawRing { runtime, lwp: lwp as u32, number, events: events.collect() };
                self.add_events(ring, known);
            }
            _ => {}
        }
    }

    /// Adds the facts about a runtime. A file that has grown has the latest ones last.
    fn add_facts(&mut self, facts: Facts) {
        match self.facts.binary_search_by_key(&facts.number, |it| it.number) {
            Ok(known) => self.facts[known] = facts,
            Err(at) => self.facts.insert(at, facts),
        }
    }

    fn add_names(&mut self, mut payload: &[u8]) {
        while let Some((head, rest)) = payload.split_first_chunk::<16>() {
            let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight"));
            let length = usize::try_from(word(8)).unwrap_or(usize::MAX);
            let Some((name, rest)) = rest.split_at_checked(length) else { return };
            // A file may say anything.
            let name = &name[..name.len().min(LONGEST_NAME)];
            self.names.push((word(0), String::from_utf8_lossy(name).into_owned()));
            payload = rest;
        }
    }

    /// Adds events of a ring, which may have come before. `known`: where such rings are. A crash writes
    /// thousands of sections for each of its rings, of which there may be as many.
    fn add_events(&mut self, ring: RawRing, known: &mut HashMap<(u32, u32, u32), usize>) {
        if ring.number == 0 && ring.lwp == rings::NO_LWP {
            return self.rings.push(ring);
        }
        let at = *known.entry((ring.runtime, ring.lwp, ring.number)).or_insert(self.rings.len());
        match self.rings.get_mut(at) {
            Some(before) => before.events.extend(ring.events),
            None => self.rings.push(ring),
        }
    }
}

/// Writes one section.
fn section(to: &mut impl Write, tag: [u8; 4], payload: &[u8]) -> io::Result<()> {
    to.write_all(&header(tag, payload.len() as u64))?;
    to.write_all(payload)
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Reads until `room` is full, or the end. Returns how many bytes there were.
fn fill(from: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < room.len() {
        match from.read(&mut room[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::event::Kind;
    use crate::thread::id::ThreadId;
    use crate::trace::Recording;

    fn some() -> Raw {
        let event = |n| Event::new(n, Kind::Dispatch, n).with(7, 1).numbered(3);
        Raw {
            rings: vec![
                RawRing { runtime: 5, lwp: 0, number: 2, events: (0..100).map(event).collect() },
                RawRing { runtime: 0, lwp: rings::NO_LWP, number: 1, events: vec![event(1)] },
            ],
            scale: Scale::from_words([1, 2, 3, 4]),
            facts: [5, 6].map(|it| Facts::from_words([it, 1, 2, 64, 3, 0, 10_000_000, 1, 4])).to_vec(),
            cpus: 2,
            one_of: NonZeroU32::new(16),
            names: vec![(7, "seven".into()), (8, String::new())],
            why: "a test".into(),
            whole_since: 0,
            lwps_whole_since: Some(17),
        }
    }

    fn bytes(raw: &Raw) -> Vec<u8> {
        let mut bytes = Vec::new();
        raw.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let raw = some();
        let read = Raw::read(&*bytes(&raw)).unwrap();
        let of = |raw: &Raw| (raw.why.clone(), raw.facts.clone(), raw.cpus, raw.one_of, raw.lwps_whole_since);
        assert_eq!(of(&read), of(&raw));
        assert_eq!(read.names, raw.names);
        assert_eq!(read.scale.map(|it| it.to_words()), Some([1, 2, 3, 4]));
        assert_eq!(read.rings.len(), 2);
        for (read, written) in read.rings.iter().zip(&raw.rings) {
            assert_eq!(
                (read.runtime, read.lwp, &read.events),
                (written.runtime, written.lwp, &written.events)
            );
        }
    }

    #[test]
    fn a_file_that_grows_has_each_ring_once() {
        let mut raw = some();
        let other = RawRing { number: 3, ..raw.rings[1].clone() };
        let mut grown = bytes(&raw);
        raw.facts[0].bound_reached = 9;
        raw.lwps_whole_since = Some(3);
        // This one has begun meanwhile, and another has been forgotten.
        raw.facts[1] = Facts { number: 3, ..Facts::default() };
        raw.rings.push(other);
        raw.write_more(&mut grown).unwrap();
        let read = Raw::read(&*grown).unwrap();
        let rings: Vec<_> = read.rings.iter().map(|it| (it.lwp, it.number, it.events.len())).collect();
        assert_eq!(rings, [(0, 2, 200), (rings::NO_LWP, 1, 2), (rings::NO_LWP, 3, 1)]);
        let facts: Vec<_> = read.facts.iter().map(|it| (it.number, it.bound_reached)).collect();
        assert_eq!(facts, [(3, 0), (5, 9), (6, 0)]);
        assert_eq!(read.lwps_whole_since, Some(17));
    }

    /// A drawing repeats a name for each span.
    #[test]
    fn of_a_long_name_the_beginning_is_kept() {
        let mut recording = Recording::read(&*bytes(&Raw::default())).unwrap();
        recording.add_names([(9, "é".repeat(1 << 20)), (10, format!("x{}", "é".repeat(200)))]);
        let name = |id: u64| recording.name(ThreadId::from_number(id.try_into().unwrap())).unwrap();
        assert_eq!((name(9), name(10)), ("é".repeat(128).as_str(), format!("x{}", "é".repeat(127)).as_str()));
    }

    /// Whatever a file has, it is read or refused. None is a panic, and none takes memory that is not there.
    #[test]
    fn any_bytes_are_read_or_refused() {
        let whole = bytes(&some());
        for end in 0..whole.len() {
            assert_eq!(Raw::read(&whole[..end]).is_ok(), end >= MAGIC.len(), "{end}");
        }
        let mut random = 1_u64;
        for round in 0..20_000 {
            let mut broken = whole.clone();
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (random >> 33) as usize % broken.len();
                broken[at] = (random >> 20) as u8;
            }
            if let Ok(recording) = Recording::read(&*broken)
                && round % 20 == 0
            {
                recording.write_chrome(io::sink()).unwrap();
            }
        }
        let mut long = whole[..MAGIC.len()].to_vec();
        long.extend(header(RING, u64::MAX));
        assert!(Raw::read(&*long).unwrap_err().to_string().contains("at most 1 GiB"));
        assert!(Raw::read(&b"selvedge trace 9"[..]).unwrap_err().to_string().contains("another version"));
        assert!(Raw::read(&b"#!/bin/sh"[..]).unwrap_err().to_string().contains("not a recording"));
    }
}
