//! Recordings: any bytes are read or refused. What is read can be drawn, and written in each format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge::trace::{Recording, Timeline};

fuzz_target!(|bytes: &[u8]| {
    let _ = Recording::read(bytes);
    // Most bytes do not begin like a recording.
    let Ok(recording) = Recording::read([b"selvedge trace 1", bytes].concat().as_slice()) else { return };
    let timeline = Timeline::of(&recording);
    for line in timeline.threads() {
        assert!(line.spans.windows(2).all(|pair| pair[0].to <= pair[1].from));
    }
    let sink = std::io::sink;
    recording.write(sink()).expect("it takes all bytes");
    recording.write_chrome(sink()).expect("it takes all bytes");
    recording.write_perfetto(sink()).expect("it takes all bytes");
});
