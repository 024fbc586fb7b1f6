//! The seam between who waits and how a thread sleeps.

pub(crate) mod backend;
pub(crate) mod backoff;
mod by_address;
pub(crate) mod contention;
pub(crate) mod current;
pub(crate) mod everybody;
pub(crate) mod exit;
pub(crate) mod fork;
pub(crate) mod interrupt;
pub(crate) mod kernel_park;
pub(crate) mod ledger;
pub(crate) mod names;
pub(crate) mod no_preempt;
pub(crate) mod owner;
pub(crate) mod permit;
pub(crate) mod priority;
pub(crate) mod process;
pub(crate) mod queue_lock;
pub(crate) mod reason;
pub(crate) mod registry;
pub(crate) mod relay;
pub(crate) mod remains;
pub(crate) mod robust;
pub(crate) mod shared_futex;
mod sleep_word;
pub(crate) mod sleeper;
pub(crate) mod specific;
pub(crate) mod spin;
mod system_box;
mod table;
pub(crate) mod thread;
pub(crate) mod wait_queue;
pub(crate) mod whereabouts;
pub(crate) mod word_queues;

#[cfg(test)]
pub(crate) mod tests;
