//! A pipe to block on in the kernel, with calls that no runtime knows of.

use std::io::{PipeReader, PipeWriter, Write};

use crate::unseen;

/// A pipe of single bytes.
pub(crate) struct Pipe(PipeReader, PipeWriter);

impl Pipe {
    pub(crate) fn new() -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        Self(reader, writer)
    }

    /// Waits in the kernel for one byte.
    pub(crate) fn read(&self) {
        assert!(unseen::read(&self.0));
    }

    /// Lets `n` readers go on.
    pub(crate) fn write(&self, n: usize) {
        (&self.1).write_all(&vec![0; n]).unwrap();
    }
}
