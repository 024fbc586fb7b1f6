//! The primitives, between kernel threads.

mod barrier;
mod condvar;
mod mutex;
mod shared;

use crate::park::tests::watched;
