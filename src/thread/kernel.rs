//! Threads that own a kernel thread: all of the 1:1 runtime's, and the bound ones of `mxn`.
//!
//! **Problem.** The end of such a thread has several steps. Its closure returns. Then its thread-local
//! destructors run, and then those of C libraries. Then the kernel takes it down. `join` may return only
//! after the destructors.
//!
//! **Rejected.** *The end of the closure as the end*: destructors would run after `join`. *The end of the
//! kernel thread*: it has no timeout, and a green thread cannot wait for it.
//!
//! **Protocol.** The new kernel thread first registers one thread-local destructor, [`LastWords`]. The C
//! library runs destructors last in, first out, so this one runs after all that the closure has registered.
//! There the thread says that it has ended, and gives up its core. A joining thread waits for that, and then
//! joins the kernel thread, which is as good as gone (`park/reaper.rs`). In between, the pthread keys of C
//! libraries are destroyed.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::ptr;
use std::sync::{Arc, mpsc};
use std::thread as kernel;

use crate::park::backend::{Cpus, SpawnOptions, Spawner, Task, TaskRef};
use crate::park::current::{recache_hint, set_current, set_ended, try_current};
use crate::park::thread::ThreadRef;
use crate::park::{core_pool, observed, reaper, traced};
use crate::sys::kthread::{self, own_share_of_stacks};
use crate::sys::{affinity, pthread, sigstack};
use crate::thread::current::blocking;
use crate::thread::map_headroom::{self, Headroom};
use crate::thread::spawning;

pub(crate) use crate::park::reaper::Reaper;

/// The runtime that a kernel thread belongs to.
pub(crate) trait Host: Spawner + Send + Sync + 'static {
    /// Notes that one of its threads has ended, and all of its code has run. Called on that thread, once for
    /// each `spawn` that succeeded.
    fn thread_ended(&self);

    /// Returns `true` in the process that has the runtime, and not in a fork of it.
    fn is_here(&self) -> bool;

    /// Puts the calling thread, a new one of it, on the CPUs that its threads have. Otherwise the thread has
    /// those of the thread that started it.
    fn place(&self) {}

    /// Returns where its detached threads leave what is to be joined.
    fn reaper(&self) -> &Reaper;

    /// Returns `true` if the calling thread is one of this runtime.
    fn is_own(&self) -> bool {
        let spawner = try_current().and_then(|me| me.spawner());
        spawner.is_some_and(|spawner| ptr::addr_eq(spawner, ptr::from_ref(self)))
    }
}

/// Starts a kernel thread of `host` that runs what is packed. If the options have no stack size, it is
/// `stack_size`.
pub(crate) fn spawn<H: Host>(
    host: &Arc<H>,
    task: TaskRef<'_>,
    options: &mut SpawnOptions,
    stack_size: usize,
) -> io::Result<ThreadRef> {
    let stack_size = options.stack_size.unwrap_or(stack_size);
    // Static thread-locals lie on the stack, but are not part of the requested size.
    let mapped = stack_size.saturating_add(own_share_of_stacks());
    let mut builder = kernel::Builder::new().stack_size(mapped);
    if let Some(name) = &options.name {
        builder = builder.name(name.to_string());
    }
    // SAFETY: only the thread itself asks its core for the spawner runtime, and it owns a share of it until
    // its last words.
    let spawner: &'static dyn Spawner = unsafe { &*Arc::as_ptr(host) };
    if observed::is_traced() {
        traced::about_to_spawn();
    }
    let headroom = Headroom::take().map_err(|error| explain(&error, stack_size))?;
    let task = task.onto_heap();
    // One reference that handle and thread share, and one for the thread's last words.
    let core = core_pool::take(2, Some(spawner), options.name.take());
    core.priority.begin(options.priority);
    let unstarted = Unstarted(core);
    let theirs: Arc<dyn Host> = Arc::<H>::clone(host);
    let kernel = match options.cpus.take() {
        Some(cpus) => spawn_pinned(builder, core, theirs, task, headroom, cpus, stack_size)?,
        None => {
            let body = move || {
                theirs.place();
                live(core, theirs, task, headroom);
            };
            pthread::kernel(|| builder.spawn(body)).map_err(|error| explain(&error, stack_size))?
        }
    };
    mem::forget(unstarted);
    reaper::started(core, kernel);
    Ok(core)
}

/// The core of a thread that has not started. Dropping this gives up both references, even if the drop of
/// the thread's closure panics. Looks from outside do not find the thread from then on.
struct Unstarted(ThreadRef);

impl Drop for Unstarted {
    fn drop(&mut self) {
        self.0.finish_without_handle();
        self.0.release();
        self.0.release();
    }
}

/// Starts a thread that runs on some processors only. The thread restricts itself before anything else, and
/// its creator waits for the result. (Rejected: to set it from outside, when the thread may have run
/// already. To let it be inherited, which would move the creator.)
#[cold]
fn spawn_pinned(
    builder: kernel::Builder,
    core: ThreadRef,
    host: Arc<dyn Host>,
    task: Task,
    headroom: Headroom,
    cpus: Box<Cpus>,
    stack_size: usize,
) -> io::Result<kernel::JoinHandle<()>> {
    let (tell, told) = mpsc::sync_channel(1);
    let body = move || {
        let pinned = affinity::pin(&cpus.0);
        let fine = pinned.is_ok();
        // The creator waits, so it receives this.
        let _ = tell.send(pinned);
        if fine {
            live(core, host, task, headroom);
        }
    };
    let kernel = pthread::kernel(|| builder.spawn(body)).map_err(|error| explain(&error, stack_size))?;
    match blocking(|| told.recv()).expect("it tells before anything else") {
        Ok(()) => Ok(kernel),
        Err(error) => {
            // No code of the user's has run on it. The closure is dropped with it.
            let _ = kernel.join();
            Err(error)
        }
    }
}

/// Runs a kernel thread, from its start to its end.
fn live(core: ThreadRef, host: Arc<dyn Host>, task: Task, headroom: Headroom) {
    // By now it has its mappings.
    drop(headroom);
    set_current(Some(core));
    recache_hint();
    if observed::is_traced() {
        traced::runs(core);
    }
    LAST_WORDS.set(Some(LastWords { core, host }));
    core_pool::tell_tid(core, kthread::gettid().cast_unsigned());
    sigstack::watched(core.name(), Some(core.id().get()), || task.run_for_good(core));
    core.specific.end();
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
        // Values that destructors have stored.
        self.core.specific.end();
        if self.core.leaves_robust() {
            self.core.dies_with_robust();
        }
        map_headroom::ended();
        if observed::is_traced() {
            traced::ends(self.core);
        }
        let awaited = |awaiter| spawning::hand_over(&*self.host, awaiter);
        let detached = self.core.finish_with(awaited);
        if self.host.is_here() {
            reaper::ended(self.core, self.host.reaper());
            self.host.thread_ended();
        }
        set_ended();
        if detached {
            self.core.release();
        }
        self.core.release();
    }
}
