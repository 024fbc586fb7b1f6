//! The primitives, between kernel threads.

mod barrier;
mod condvar;
mod mutex;

use crate::park::tests::watched;
