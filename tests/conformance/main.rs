//! What a program may rely on, on either runtime: each scenario is written once, generic over the
//! runtime, and runs on every leg.

#[path = "../support/unseen.rs"]
mod unseen;
#[path = "../support/watchdog.rs"]
mod watchdog;

#[macro_use]
mod legs;
mod subprocess;

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
mod forked;
mod forms;
mod futures;
mod futures_join;
mod interrupt;
mod io;
mod join;
mod keys;
mod lifetime;
mod limits;
mod locals;
mod mixed;
mod mutexes;
mod names;
mod net;
mod net_ends;
mod no_time;
mod once;
mod once_forms;
mod once_lock;
mod parking;
mod poison;
mod priorities;
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
mod threads;
mod time;
mod tsd;
mod wait_group;
