//! The seam between who waits and how a thread sleeps.

pub(crate) mod backend;
pub(crate) mod current;
pub(crate) mod exit;
pub(crate) mod fork;
pub(crate) mod interrupt;
pub(crate) mod kernel_park;
pub(crate) mod no_preempt;
pub(crate) mod owner;
pub(crate) mod permit;
pub(crate) mod priority;
pub(crate) mod queue_lock;
pub(crate) mod reason;
pub(crate) mod registry;
pub(crate) mod remains;
pub(crate) mod shared_futex;
mod sleep_word;
pub(crate) mod sleeper;
pub(crate) mod spin;
mod table;
pub(crate) mod thread;
pub(crate) mod wait_queue;
pub(crate) mod whereabouts;

#[cfg(test)]
pub(crate) mod tests;
