//! A pipe to block on in the kernel, with calls that no runtime knows of.

use std::io::{PipeReader, PipeWriter, Write};
use std::sync::Arc;
use std::thread;

use crate::unseen;

/// More readers than any test has.
const MANY: usize = 100;

/// A pipe of single bytes. Clones are the same pipe.
#[derive(Clone)]
pub(crate) struct Pipe(Arc<(PipeReader, PipeWriter)>);

impl Pipe {
    pub(crate) fn new() -> Self {
        Self(Arc::new(std::io::pipe().unwrap()))
    }

    /// Waits in the kernel for one byte.
    pub(crate) fn read(&self) {
        assert!(unseen::read(&self.0.0));
    }

    /// Lets `n` readers go on.
    pub(crate) fn write(&self, n: usize) {
        (&self.0.1).write_all(&vec![0; n]).unwrap();
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The test has failed. Its runtime waits for the readers when it is dropped.
        if thread::panicking() {
            self.write(MANY);
        }
    }
}
