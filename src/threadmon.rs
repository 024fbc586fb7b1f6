//! ThreadMon: what another process sees of this one, live.
//!
//! A program that calls [`serve`], or that runs with `SELVEDGE_MON=on`, listens on a Unix socket in a private
//! directory. `threadmon PID` connects to it, and shows threads, LWPs and CPUs, and the mapping between them.
//! [`Client`] is the other end, for programs that want the same.
//!
//! One kernel thread serves all clients. It is no LWP, so threads that keep all LWPs cannot keep it out. Its
//! cost is that of the questions. Without clients it sleeps.
//!
//! The socket is in `$XDG_RUNTIME_DIR/selvedge`, or in `selvedge-UID` in the directory for temporary files.
//! The directory must belong to the user, with access for the user only. Only processes of the same user, or
//! of root, are served. A client looks in both places: services do not have that variable.
//!
//! The idea is that of B. Cantrill, *Runtime Performance Analysis of the M-to-N Scheduling Model* (1996).

mod client;
mod codec;
mod collect;
pub(crate) mod dump;
mod metrics;
pub(crate) mod server;
mod socket;
mod views;
pub mod wire;

pub use self::client::Client;
#[cfg(target_os = "linux")]
pub use self::dump::dump_on_quit;
pub use self::dump::{Dump, dump};
pub use self::metrics::metrics;
pub use self::server::serve;
pub use self::views::{HistoryView, LockView, LwpView, Overview, RuntimeView, ThreadPageView, ThreadView};
