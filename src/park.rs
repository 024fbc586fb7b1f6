//! The seam between the code that waits and the way in which a thread sleeps.

pub(crate) mod all_threads;
pub(crate) mod backend;
pub(crate) mod backoff;
pub(crate) mod company;
pub(crate) mod core_pool;
pub(crate) mod current;
pub(crate) mod debugger;
pub(crate) mod exit;
pub(crate) mod fetches;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod interrupt;
pub(crate) mod kernel_park;
pub(crate) mod mutex_handoff;
pub(crate) mod no_preempt;
pub(crate) mod observed;
pub(crate) mod owner;
pub(crate) mod pending;
pub(crate) mod permit;
pub(crate) mod priority;
#[cfg(unix)]
pub(crate) mod process;
pub(crate) mod queue_lock;
pub(crate) mod reaper;
pub(crate) mod reason;
pub(crate) mod robust;
#[cfg(unix)]
pub(crate) mod shared_futex;
mod sleep_word;
pub(crate) mod sleeper;
pub(crate) mod specific;
pub(crate) mod spin;
pub(crate) mod table;
pub(crate) mod task_sleep;
pub(crate) mod thread;
pub(crate) mod traced;
pub(crate) mod turns;
pub(crate) mod wait;
pub(crate) mod wait_queue;
pub(crate) mod wait_state;
mod waiter;
pub(crate) mod watched_count;
pub(crate) mod word_queues;

#[cfg(test)]
pub(crate) mod tests;
