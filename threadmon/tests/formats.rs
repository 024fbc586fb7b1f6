//! Perfetto's format, decoded by `prost-reflect`: its messages nest, its arrows have two ends, and its times
//! add up.
//!
//! The schema is Perfetto's own text, as far as it is used (`formats/perfetto.proto`), compiled by `protox`.
//! A field that it does not declare fails the test. Both crates take 33 s of CPU time to compile.
//!
//! Generated bindings of the whole schema were rejected. Those of `perfetto_protos` take 104 s to compile,
//! and those of `perfetto-sdk` 85 s and a C++ compiler. `tracing-perfetto-sdk-schema`, `perfetto-trace-proto`
//! and `synthetto` need `protoc`, and `micromegas-perfetto` a database engine. `tracing-perfetto` and
//! `perfetto-recorder` keep their bindings private.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use protox::prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage, Value};
use selvedge::trace::{Level, Recording, Timeline, set_level};
use selvedge::{Mxn, Runtime, thread};

/// Returns the message that a file is.
fn schema() -> MessageDescriptor {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats");
    let files = protox::compile(["perfetto.proto"], [folder]).expect("the schema is sound");
    let pool = DescriptorPool::from_file_descriptor_set(files).expect("the schema is whole");
    pool.get_message_by_name("perfetto.protos.Trace").expect("the schema has it")
}

/// Returns the value of a field, if the message has one.
fn value<'a>(message: &'a DynamicMessage, field: &str) -> Option<Cow<'a, Value>> {
    let value = message.get_field_by_name(field).unwrap_or_else(|| panic!("the schema has no {field}"));
    message.has_field_by_name(field).then_some(value)
}

fn number(message: &DynamicMessage, field: &str) -> Option<u64> {
    value(message, field).map(|it| it.as_u64().expect("a number"))
}

fn text(message: &DynamicMessage, field: &str) -> Option<String> {
    value(message, field).map(|it| it.as_str().expect("a text").to_owned())
}

fn message(message: &DynamicMessage, field: &str) -> Option<DynamicMessage> {
    value(message, field).map(|it| it.as_message().expect("a message").clone())
}

fn list(message: &DynamicMessage, field: &str) -> Vec<Value> {
    value(message, field).map_or_else(Vec::new, |it| it.as_list().expect("a list").to_vec())
}

/// Returns the name of an event's type.
fn type_of(event: &DynamicMessage) -> Option<String> {
    let number = value(event, "type")?.as_enum_number().expect("a number");
    let field = event.descriptor().get_field_by_name("type").expect("the schema has it");
    let kind = field.kind();
    let values = kind.as_enum().expect("an enumeration");
    Some(values.get_value(number).expect("a known type").name().to_owned())
}

/// Returns `true` if the schema declares all that the message and its parts have.
fn is_known(message: &DynamicMessage) -> bool {
    let is_known_value = |value: &Value| match value {
        Value::Message(part) => is_known(part),
        Value::List(parts) => parts.iter().filter_map(Value::as_message).all(is_known),
        _ => true,
    };
    message.unknown_fields().next().is_none() && message.fields().all(|(_, value)| is_known_value(value))
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
    let trace = DynamicMessage::decode(schema(), &*bytes).expect("it is a trace");
    assert!(is_known(&trace), "{trace}");
    let mut names: HashMap<u64, (String, Option<u64>)> = HashMap::new();
    let (mut counters, mut open) = (HashSet::new(), HashMap::new());
    let mut sums: HashMap<u64, u64> = HashMap::new();
    let mut flows = HashMap::new();
    let (mut last, mut counts) = (0, 0);
    for (packet, position) in list(&trace, "packet").iter().zip(0..) {
        let packet = packet.as_message().expect("a packet");
        assert_eq!(value(packet, "trusted_packet_sequence_id").as_deref(), Some(&Value::U32(1)));
        // `SEQ_INCREMENTAL_STATE_CLEARED`
        let is_first = value(packet, "sequence_flags").as_deref() == Some(&Value::U32(1));
        assert_eq!(is_first, position == 0);
        if let Some(track) = message(packet, "track_descriptor") {
            let (uuid, name) = (number(&track, "uuid").expect("a number"), text(&track, "name"));
            let parent = number(&track, "parent_uuid");
            assert!(names.insert(uuid, (name.expect("a name"), parent)).is_none());
            counters.extend(message(&track, "counter").map(|_| uuid));
        }
        let Some(event) = message(packet, "track_event") else { continue };
        let at = number(packet, "timestamp").expect("a time");
        let track = number(&event, "track_uuid").expect("a track");
        assert!(at >= last && names.contains_key(&track), "in the order of time, on a known track");
        last = at;
        let kind = type_of(&event).expect("a type");
        assert_eq!(kind == "TYPE_COUNTER", counters.contains(&track), "{event}");
        match kind.as_str() {
            "TYPE_SLICE_BEGIN" => {
                assert!(text(&event, "name").is_some());
                assert!(open.insert(track, at).is_none(), "bars of one track do not overlap");
            }
            "TYPE_SLICE_END" => {
                *sums.entry(track).or_default() += at - open.remove(&track).expect("it began");
            }
            "TYPE_INSTANT" => {
                for flow in list(&event, "flow_ids") {
                    assert!(flows.insert(flow.as_u64(), at).is_none());
                }
                for flow in list(&event, "terminating_flow_ids") {
                    assert!(flows.remove(&flow.as_u64()).expect("it has a beginning") <= at);
                }
            }
            "TYPE_COUNTER" => {
                let value = value(&event, "counter_value").expect("a number");
                counts += u32::from(value.as_i64().expect("a number") >= 0);
            }
            other => panic!("{other}"),
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

/// A field that the schema does not declare is found, whichever message has it.
#[test]
fn what_the_schema_does_not_declare_is_found() {
    let is_known = |bytes: &[u8]| is_known(&DynamicMessage::decode(schema(), bytes).expect("it is a trace"));
    // A packet, in it an event, in it a type. Then the same, with field 7 in the place of field 9.
    assert!(is_known(b"\x0a\x04\x5a\x02\x48\x01"));
    assert!(!is_known(b"\x0a\x04\x5a\x02\x38\x01"));
    // A packet with an unknown field, and one beside the packets.
    assert!(!is_known(b"\x0a\x02\x38\x01"));
    assert!(!is_known(b"\x10\x01"));
}
