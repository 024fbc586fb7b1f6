//! The bytes of a recording, as far as a process that crashes must know them.
//!
//! ```text
//! "selvedge trace 1"                          16 bytes
//! section*                                    until the end of the file
//!
//! section = tag     4 bytes
//!           zero    4 bytes
//!           length  u64       of the payload
//!           payload
//! ```
//!
//! | tag | payload |
//! |---|---|
//! | `RING` | runtime u64 (0: none), LWP u32 (2^32 - 1: none), ring u32 (0: not known), then events |
//! | `CLCK` | count, ns, counts, ns: an anchor, and how many counts are how many ns |
//! | `RTIM` | nine u64 for each runtime (`runtime/registry.rs`), the first of which is its number |
//! | `CPUS` | u64: how many CPUs the process might use |
//! | `SMPL` | u64: of how many threads one recorded events; if it is missing, all did |
//! | `LOST` | u64: the count before which LWPs' events may be missing; 0: none is |
//! | `NAME` | for each named thread: its identity u64, the length of its name u64, its name, UTF-8 |
//! | `WHY ` | the reason why the file was written, UTF-8 |
//!
//! Numbers are little-endian. A reader skips sections that it does not know. A file may end within a section:
//! the whole events before that count. Rings, runtimes and names may be in several sections. Of a runtime,
//! the last facts count, of `LOST` the largest count, and of other sections, the last one. A crash may leave
//! out a runtime or a name that was about to change. `event.rs` has the four words of an event.

use super::event::WORDS;

pub(crate) const MAGIC: &[u8; 16] = b"selvedge trace 1";
pub(crate) const RING: [u8; 4] = *b"RING";
pub(crate) const CLOCK: [u8; 4] = *b"CLCK";
pub(crate) const RUNTIMES: [u8; 4] = *b"RTIM";
pub(crate) const CPUS: [u8; 4] = *b"CPUS";
pub(crate) const SAMPLE: [u8; 4] = *b"SMPL";
pub(crate) const LOST: [u8; 4] = *b"LOST";
pub(crate) const NAMES: [u8; 4] = *b"NAME";
pub(crate) const WHY: [u8; 4] = *b"WHY ";

/// The bytes of a section before its payload.
pub(crate) const HEADER: usize = 16;

/// The bytes of an event.
pub(crate) const EVENT: usize = WORDS * 8;

/// Returns what stands before a payload.
pub(crate) fn header(tag: [u8; 4], length: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&tag);
    header[8..].copy_from_slice(&length.to_le_bytes());
    header
}
