//! What threads do over time: how long each was in each state, and the last events before something
//! happened.
//!
//! Both are off at first, and cost nothing then. They are switched on in a running process by [`set_level`],
//! or from the start by `SELVEDGE_TRACE`, which names the file to write at the end. With [`Level::Times`],
//! each change of a thread's state takes about 20 ns. With [`Level::Events`], the event is recorded, too, in
//! a ring of the kernel thread on which it happens. A ring keeps the last 16,000 events of an LWP, and the
//! last 500 of any other kernel thread. [`set_ring_events`] and `SELVEDGE_TRACE_EVENTS` make them longer.
//! [`Recording::take`] copies all rings at any time.
//!
//! A dispatch says on which CPU the thread began to run. The kernel may move its kernel thread while it runs,
//! of which nothing tells. The CPU is known on x86-64 Linux.
//!
//! If a thread sleeps in the kernel and has not announced that, its runtime's monitor finds it: after two
//! rounds if other threads wait for the slot, otherwise after 100 ms. Until then, and at the end for some 10
//! ms more, the thread counts as running. [`Level::Times`] does not tell such a sleep from running.
//!
//! With events, a yield takes up to twice as long. If that is too much, let [one thread of so
//! many](set_sample) record events: `SELVEDGE_TRACE=1/16:file`.
//!
//! # `SELVEDGE_TRACE`
//!
//! The file is created when the first runtime is built, and written when the process exits: `main` returns,
//! or [`exit`](std::process::exit) is called. The end of its name says how:
//!
//! | file | written as | read by |
//! |---|---|---|
//! | `*.json` | [`Recording::write_chrome`] | <https://ui.perfetto.dev>, Chrome, Speedscope |
//! | `*.pftrace`, `*.perfetto-trace` | [`Recording::write_perfetto`] | <https://ui.perfetto.dev> |
//! | any other | [`Recording::write`] | `threadmon explain`, `threadmon export`, [`Recording::read`] |
//!
//! If something goes wrong, the last events are written at once, to a file beside it, in the last of these
//! formats. `.panic` is appended to the name for the first thread of a runtime that panics, `.deadlock` if
//! threads [wait forever](crate::mxn::Builder::on_deadlock), and `.abort` if the process aborts. A process
//! that another signal ends, or `_exit`, leaves nothing. Nor does one that handles `SIGABRT` itself. If a
//! thread that no runtime has started overflows its stack, there may be no room for the handler on std's
//! alternate stack. Then the process ends by `SIGSEGV` instead of `SIGABRT`, and leaves nothing.
//!
//! Forked children are not traced, and do not write the file. But a program that is started with the same
//! variable has the same file, unless `%p` is in the name: `SELVEDGE_TRACE=trace-%p.json`. It stands for the
//! process's id.
//!
//! # States
//!
//! The states are ThreadMon's: B. Cantrill, *Runtime Performance Analysis of the M-to-N Scheduling Model*
//! (1996), section 3.2.1.
//!
//! # Examples
//!
//! ```
//! use selvedge::trace::{self, Level, Recording};
//! use selvedge::{OneToOne, Runtime, thread};
//! use std::time::Duration;
//!
//! trace::set_level(Level::Events);
//! let rt = OneToOne::new()?;
//! rt.run(|| thread::sleep(Duration::from_millis(2)));
//! let recording = Recording::take();
//! trace::set_level(Level::Off);
//! assert!(recording.events().len() >= 2);
//! # std::io::Result::Ok(())
//! ```

mod chrome;
mod drawing;
mod event;
pub(crate) mod file;
mod groups;
pub(crate) mod history;
pub(crate) mod json;
mod level;
mod order;
pub(crate) mod parts;
mod perfetto;
mod raw;
mod recording;
mod timeline;

pub use self::event::{Event, EventKind, SlotCause, Track};
#[cfg(unix)]
pub(crate) use self::level::want_level;
pub use self::level::{Level, level, set_level, set_ring_events, set_sample};
pub use self::recording::{Recording, RuntimeFacts};
pub use self::timeline::{CpuLine, Span, State, ThreadLine, Timeline, TrackLine, TrackState, Wake};
