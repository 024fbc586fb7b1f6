//! Perfetto's format, decoded by prost: its messages nest, its arrows have two ends, and its times add up.
//!
//! The messages here are the part of Perfetto's that is used, with the numbers of its sources. (The whole
//! schema, of the crate `perfetto_protos`, takes minutes to compile. It has read such files without an
//! unknown field.)

use std::collections::HashMap;
use std::time::Duration;

use prost::Message;
use selvedge::trace::{Level, Recording, Timeline, set_level};
use selvedge::{Mxn, Runtime, thread};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    event: Option<Event>,
    #[prost(message, optional, tag = "60")]
    track: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
struct Track {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flows: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    ending_flows: Vec<u64>,
}

/// Records threads that compute, yield and sleep.
fn record() -> Recording {
    set_level(Level::Events);
    let rt = Mxn::builder().concurrency(2).build().expect("a runtime");
    rt.run(|| {
        let threads = (0..4).map(|n| {
            let named = thread::Builder::new().name(format!("sleeper-{n}"));
            let sleeps = || {
                for _ in 0..20 {
                    thread::yield_now();
                    thread::sleep(Duration::from_micros(300));
                }
            };
            named.spawn(sleeps).expect("a thread")
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("it ends well"));
    });
    let recording = Recording::take();
    set_level(Level::Off);
    recording
}

#[test]
fn perfetto_reads_it() {
    let recording = record();
    let mut bytes = Vec::new();
    recording.write_perfetto(&mut bytes).expect("it is written");
    let trace = Trace::decode(&*bytes).expect("it is a trace");
    let mut names: HashMap<u64, (String, Option<u64>)> = HashMap::new();
    let mut open: HashMap<u64, u64> = HashMap::new();
    let mut sums: HashMap<u64, u64> = HashMap::new();
    let mut flows = HashMap::new();
    let (mut last, mut counts) = (0, 0);
    for packet in &trace.packet {
        assert_eq!(packet.sequence, Some(1));
        if let Some(track) = &packet.track {
            let name = track.name.clone().expect("a name");
            assert!(names.insert(track.uuid.expect("a number"), (name, track.parent)).is_none());
        }
        let Some(event) = &packet.event else { continue };
        let (at, track) = (packet.timestamp.expect("a time"), event.track.expect("a track"));
        assert!(at >= last && names.contains_key(&track), "in the order of time, on a known track");
        last = at;
        match event.kind {
            Some(1) => {
                assert!(event.name.is_some());
                assert!(open.insert(track, at).is_none(), "bars of one track do not overlap");
            }
            Some(2) => *sums.entry(track).or_default() += at - open.remove(&track).expect("it began"),
            Some(3) => {
                event.flows.iter().for_each(|flow| assert!(flows.insert(*flow, at).is_none()));
                for flow in &event.ending_flows {
                    assert!(flows.remove(flow).expect("it has a beginning") <= at);
                }
            }
            Some(4) => counts += u32::from(event.value.expect("a number") >= 0),
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty() && flows.is_empty() && counts > 10);
    let timeline = Timeline::of(&recording);
    let mut compared = 0;
    for line in timeline.threads() {
        let Some(name) = recording.name(line.id).filter(|name| name.starts_with("sleeper-")) else {
            continue;
        };
        let (uuid, _) =
            names.iter().find(|(_, (it, parent))| it == name && *parent == Some(2)).expect("a track");
        assert_eq!(Duration::from_nanos(sums[uuid]), line.length(), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 4);
}
