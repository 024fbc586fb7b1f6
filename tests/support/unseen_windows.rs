//! Blocks a kernel thread where no call is answered for green threads.

use std::io::{PipeReader, Read};

/// Reads one byte. Returns `false` at the end.
pub(crate) fn read(mut pipe: &PipeReader) -> bool {
    pipe.read(&mut [0]).expect("a byte, or the end") == 1
}
