//! A recording in Perfetto's own format: a protobuf message `Trace`. Its packets are written one after
//! the other.
//!
//! Only what is needed of protobuf is here: varints, fixed words, and fields with a length. The numbers of
//! fields are those of `protos/perfetto/trace/` in Perfetto's sources.

use std::io::{self, Write};
use std::time::Duration;

use super::drawing::{Curve, Drawing, Heading, Line};
use super::recording::Recording;

/// Fields of `Trace` and `TracePacket`.
const PACKET: u32 = 1;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const SEQUENCE_FLAGS: u32 = 13;
const TRACK_DESCRIPTOR: u32 = 60;
/// Fields of `TrackDescriptor`.
const UUID: u32 = 1;
const NAME: u32 = 2;
const PARENT: u32 = 5;
const COUNTER: u32 = 8;
/// Fields of `TrackEvent`.
const TYPE: u32 = 9;
const TRACK: u32 = 11;
const EVENT_NAME: u32 = 23;
const VALUE: u32 = 30;
const FLOWS: u32 = 47;
const ENDING_FLOWS: u32 = 48;
/// Values of `TrackEvent.type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNT: u64 = 4;
/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const CLEARED: u64 = 1;

/// The first of the tracks. Below are the headings.
const FIRST: u64 = 16;

fn uuid(heading: Heading) -> u64 {
    match heading {
        Heading::KernelThreads => 1,
        Heading::Threads => 2,
        Heading::Cpus => 3,
        Heading::Groups => 4,
    }
}

impl Recording {
    /// Writes the recording in Perfetto's format, for <https://ui.perfetto.dev>. It is smaller than
    /// [JSON](Self::write_chrome), and loads faster. What it shows is the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::trace::Recording;
    ///
    /// let mut trace = Vec::new();
    /// Recording::take().write_perfetto(&mut trace)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `to` returns.
    pub fn write_perfetto(&self, to: impl Write) -> io::Result<()> {
        let drawing = Drawing::of(self);
        let mut out = Out { to, packets: 0 };
        for (heading, name) in &drawing.headings {
            out.track(uuid(*heading), name, None, false)?;
        }
        for (line, number) in drawing.lines.iter().zip(FIRST..) {
            out.track(number, &line.name, Some(uuid(line.heading)), false)?;
        }
        for counter in counters(&drawing) {
            // What is no part of a group stands at the top.
            let parent = Some(uuid(counter.heading)).filter(|_| counter.heading == Heading::Groups);
            out.track(counter.uuid, &counter.name, parent, true)?;
        }
        for event in events(&drawing) {
            out.event(&event)?;
        }
        out.to.flush()
    }
}

/// One curve, with a track of its own.
struct Counter<'a> {
    uuid: u64,
    heading: Heading,
    name: String,
    curve: &'a Curve,
}

/// Returns all curves. Their tracks come after the lines.
fn counters(drawing: &Drawing) -> impl Iterator<Item = Counter<'_>> {
    let curves = drawing.charts.iter().flat_map(|chart| {
        chart.curves.iter().map(move |(what, curve)| {
            let name = if chart.curves.len() == 1 && chart.heading != Heading::Groups {
                chart.name.clone()
            } else {
                format!("{}: {what}", chart.name)
            };
            (chart.heading, name, curve)
        })
    });
    let first = FIRST + drawing.lines.len() as u64;
    (first..).zip(curves).map(|(uuid, (heading, name, curve))| Counter { uuid, heading, name, curve })
}

/// One event of a track.
struct Event<'a> {
    at: Duration,
    kind: u64,
    uuid: u64,
    name: Option<&'a str>,
    value: Option<u64>,
    flow: Option<(u32, u64)>,
}

/// Returns all events in the order of time. Of two at the same time, an end comes first.
fn events(drawing: &Drawing) -> Vec<Event<'_>> {
    let bars = drawing.lines.iter().zip(FIRST..).flat_map(|(line, uuid)| bars(line, uuid));
    let arrows = drawing.arrows.iter().zip(1..).flat_map(|(arrow, flow)| {
        let end = |at, line, field, name| Event {
            at,
            kind: INSTANT,
            uuid: FIRST + line as u64,
            name: Some(name),
            value: None,
            flow: Some((field, flow)),
        };
        [
            end(arrow.from, arrow.from_line, FLOWS, "wakes"),
            end(arrow.to, arrow.to_line, ENDING_FLOWS, "is woken"),
        ]
    });
    let counts = counters(drawing).flat_map(|counter| {
        counter.curve.iter().map(move |&(at, value)| Event {
            at,
            kind: COUNT,
            uuid: counter.uuid,
            name: None,
            value: Some(value),
            flow: None,
        })
    });
    let marks = drawing.lines.iter().zip(FIRST..).flat_map(|(line, uuid)| {
        line.marks.iter().map(move |(at, text)| Event {
            at: *at,
            kind: INSTANT,
            uuid,
            name: Some(text.as_str()),
            value: None,
            flow: None,
        })
    });
    let mut events: Vec<_> = bars.chain(arrows).chain(marks).chain(counts).collect();
    // A stable sort: the bars of a line are in order, and each one's end comes after its beginning.
    events.sort_by_key(|event| event.at);
    events
}

fn bars(line: &Line, uuid: u64) -> impl Iterator<Item = Event<'_>> {
    line.bars.iter().flat_map(move |bar| {
        let end = |at, kind, name| Event { at, kind, uuid, name, value: None, flow: None };
        [end(bar.from, BEGIN, Some(bar.name.as_str())), end(bar.to, END, None)]
    })
}

struct Out<W> {
    to: W,
    packets: u64,
}

impl<W: Write> Out<W> {
    fn track(&mut self, uuid: u64, name: &str, parent: Option<u64>, counts: bool) -> io::Result<()> {
        let mut track = Message::default();
        track.number(UUID, uuid);
        track.bytes(NAME, name.as_bytes());
        if let Some(parent) = parent {
            track.number(PARENT, parent);
        }
        if counts {
            track.bytes(COUNTER, &[]);
        }
        let mut packet = Message::default();
        packet.bytes(TRACK_DESCRIPTOR, &track.0);
        self.packet(packet)
    }

    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        let mut inner = Message::default();
        inner.number(TYPE, event.kind);
        inner.number(TRACK, event.uuid);
        if let Some(name) = event.name {
            inner.bytes(EVENT_NAME, name.as_bytes());
        }
        if let Some(value) = event.value {
            inner.number(VALUE, value);
        }
        if let Some((field, flow)) = event.flow {
            inner.fixed(field, flow);
        }
        let mut packet = Message::default();
        packet.number(TIMESTAMP, u64::try_from(event.at.as_nanos()).unwrap_or(u64::MAX));
        packet.bytes(TRACK_EVENT, &inner.0);
        self.packet(packet)
    }

    fn packet(&mut self, mut packet: Message) -> io::Result<()> {
        packet.number(SEQUENCE, 1);
        if self.packets == 0 {
            packet.number(SEQUENCE_FLAGS, CLEARED);
        }
        self.packets += 1;
        let mut framed = Message::default();
        framed.bytes(PACKET, &packet.0);
        self.to.write_all(&framed.0)
    }
}

/// A protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn fixed(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }
}
