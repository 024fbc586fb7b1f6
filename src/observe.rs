//! What is observed of threads and locks: owners of locks, contention, names, and a view of all threads.
//!
//! Nothing here is needed for a wait or a wake-up. `park` holds the switch (`park/observed.rs`) and what a
//! thread says of itself (`park/wait_state.rs`). `sync` says what happens at its locks, while the switch is
//! on. `thread` and `sync/stats.rs` show it.

mod by_address;
pub(crate) mod contention;
pub(crate) mod lock_owners;
pub(crate) mod names;
mod system_box;
pub(crate) mod thread_snapshot;
