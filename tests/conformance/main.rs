//! What a program may rely on, on either runtime: each scenario is written once, generic over the
//! runtime, and runs on every leg.

#[cfg(unix)]
#[path = "../support/unseen.rs"]
mod unseen;
#[cfg(windows)]
#[path = "../support/unseen_windows.rs"]
mod unseen;
#[path = "../support/waiting.rs"]
mod waiting;
#[path = "../support/watchdog.rs"]
mod watchdog;

#[macro_use]
mod legs;
mod subprocess;

#[cfg(target_os = "linux")]
mod affinity;
mod as_std;
mod blocking;
mod builder;
mod channel;
mod channel_async;
mod channel_events;
mod channel_flow;

mod channel_given_back;
mod channel_select;
mod channel_time;
mod checked;
mod condvar;
#[cfg(unix)]
mod forked;
mod forms;
mod futures;
mod futures_join;
mod interrupt;
#[cfg(all(unix, feature = "net"))]
mod io;
mod join;
#[cfg(unix)]
mod keys;
mod lifetime;
#[cfg(unix)]
mod limits;
mod locals;
mod mixed;
mod mutexes;
mod names;
#[cfg(all(unix, feature = "net"))]
mod net;
#[cfg(all(unix, feature = "net"))]
mod net_ends;
#[cfg(all(unix, feature = "net"))]
mod net_limits;
mod no_time;
mod once;
mod once_forms;
mod once_lock;
mod parking;
mod poison;
mod priorities;
#[cfg(unix)]
mod pthread;
mod reentrant;
mod robust;
mod rwlock;
mod scopes;
mod select;
mod semaphore;
mod shutdown;
mod statistics;
mod task_group;
mod task_limits;
mod thread_changes;
mod threads;
mod time;
mod tsd;
mod wait_group;
mod waits;
#[cfg(windows)]
mod windows;
