//! Threads that own a kernel thread: all of the 1:1 runtime's, and the bound ones of `mxn`.
//!
//! **Problem.** The end of such a thread is spread out: its closure returns, then its thread-local destructors run, then
//! those of C libraries, then the kernel takes it down. `join` may return only after the destructors.
//!
//! **Rejected.** *The end of the closure as the end*: destructors would run after `join`. *The end of the kernel thread*: it has
//! no timeout, and a green thread cannot wait for it.
//!
//! **Protocol.** The new kernel thread first registers one thread-local destructor, [`LastWords`]. The C library runs them last
//! in, first out, so it comes after all that the closure has registered. There the thread says that it has ended, and gives up its
//! core. Whoever joins it waits for that, and then joins the kernel thread, which is as good as gone (`park/remains.rs`): the
//! pthread keys of C libraries are destroyed in between.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::sync::{Arc, mpsc};
use std::thread as kernel;

use crate::park::backend::{Ambient, Cpus, Packing, SpawnOptions, Start};
use crate::park::current::{restamp, set_current};
use crate::park::thread::ThreadRef;
use crate::park::{registry, remains, specific};
use crate::sys::kthread::own_share_of_stacks;
use crate::thread::place::{self, Place};

pub(crate) use crate::park::remains::Graveyard;

/// The runtime that a kernel thread belongs to.
pub(crate) trait Host: Ambient + Send + Sync + 'static {
    /// One of its threads has ended: all of it has run. Called on that thread, once for each `spawn` that succeeded.
    fn thread_ended(&self);

    /// Whether this is the process that has it, and not a fork of that.
    fn is_here(&self) -> bool;

    /// Where its detached threads leave what is to be joined.
    fn graveyard(&self) -> &Graveyard;

    /// Lets the calling kernel thread run on these processors only.
    fn pin(&self, cpus: &Cpus) -> io::Result<()>;

    /// Runs `start` on the new thread `me`, and watches over its stack.
    fn run(&self, me: ThreadRef, start: Start);
}

/// Starts a kernel thread of `host` that runs what is packed; `stack_size` is used where the options name none.
pub(crate) fn spawn<H: Host>(
    host: &Arc<H>,
    packing: Packing<'_>,
    options: &mut SpawnOptions,
    stack_size: usize,
) -> io::Result<ThreadRef> {
    let stack_size = options.stack_size.unwrap_or(stack_size);
    // Static thread-locals lie on the stack, but are not part of the size that was asked for.
    let mapped = stack_size.saturating_add(own_share_of_stacks());
    let mut builder = kernel::Builder::new().stack_size(mapped);
    if let Some(name) = &options.name {
        builder = builder.name(name.to_string());
    }
    // SAFETY: only the thread itself asks its core for the ambient runtime, and it owns a share of it until its last words.
    let ambient: &'static dyn Ambient = unsafe { &*Arc::as_ptr(host) };
    let place = Place::take().map_err(|error| explain(&error, stack_size))?;
    let start = packing.onto_heap();
    // One reference that handle and thread share, one for the thread's last words.
    let core = registry::take(2, Some(ambient), options.name.take());
    core.priority.begin(options.priority);
    let unstarted = Unstarted(core);
    let theirs: Arc<dyn Host> = Arc::<H>::clone(host);
    let kernel = match options.cpus.take() {
        Some(cpus) => spawn_pinned(builder, core, theirs, start, place, cpus, stack_size)?,
        None => builder
            .spawn(move || live(core, theirs, start, place))
            .map_err(|error| explain(&error, stack_size))?,
    };
    mem::forget(unstarted);
    remains::started(core, kernel);
    Ok(core)
}

/// The core of a thread that has not started. Dropping this gives up both references, even if dropping the
/// thread's closure panics.
struct Unstarted(ThreadRef);

impl Drop for Unstarted {
    fn drop(&mut self) {
        self.0.release();
        self.0.release();
    }
}

/// `spawn` for a thread that is to run on some processors only: it sees to that itself, before anything else, and its creator
/// waits for how that went. (Rejected: to set it from outside, when the thread may have run already; to have it inherited, which
/// would move the creator.)
#[cold]
fn spawn_pinned(
    builder: kernel::Builder,
    core: ThreadRef,
    host: Arc<dyn Host>,
    start: Start,
    place: Place,
    cpus: Box<Cpus>,
    stack_size: usize,
) -> io::Result<kernel::JoinHandle<()>> {
    let (tell, told) = mpsc::sync_channel(1);
    let started = builder.spawn(move || {
        let pinned = host.pin(&cpus);
        let fine = pinned.is_ok();
        // Its creator waits, so it hears it.
        let _ = tell.send(pinned);
        if fine {
            live(core, host, start, place);
        }
    });
    let kernel = started.map_err(|error| explain(&error, stack_size))?;
    match super::blocking(|| told.recv()).expect("it tells before anything else") {
        Ok(()) => Ok(kernel),
        Err(error) => {
            // No code of the user has run on it; the closure is dropped with it.
            let _ = kernel.join();
            Err(error)
        }
    }
}

/// The life of a kernel thread.
fn live(core: ThreadRef, host: Arc<dyn Host>, start: Start, place: Place) {
    // It has its mappings.
    drop(place);
    set_current(Some(core));
    restamp();
    let runtime = Arc::clone(&host);
    LAST_WORDS.set(Some(LastWords { core, host }));
    runtime.run(core, start);
    specific::end(core);
}

#[cold]
fn explain(error: &io::Error, stack_size: usize) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "cannot start a kernel thread with a stack of {} KiB: {error}; the limit may be that of threads (ulimit -u, \
             kernel.threads-max, the control group's pids.max), of memory (ulimit -v) or of mappings (vm.max_map_count)",
            stack_size >> 10
        ),
    )
}

thread_local! {
    static LAST_WORDS: RefCell<Option<LastWords>> = const { RefCell::new(None) };
}

/// What a kernel thread does last of all.
struct LastWords {
    core: ThreadRef,
    host: Arc<dyn Host>,
}

impl Drop for LastWords {
    fn drop(&mut self) {
        // What destructors have put there.
        specific::end(self.core);
        if self.core.leaves_robust() {
            self.core.dies_with_robust();
        }
        place::ended();
        let detached = self.core.finish();
        if self.host.is_here() {
            remains::ended(self.core, self.host.graveyard());
            self.host.thread_ended();
        }
        set_current(None);
        if detached {
            self.core.release();
        }
        self.core.release();
    }
}
