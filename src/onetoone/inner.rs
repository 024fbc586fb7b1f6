//! What the threads of a 1:1 runtime share: how they start, and how they are counted.

use std::io;
use std::mem;
use std::sync::{Arc, Weak};

use super::config::Settings;
use crate::observe::contention;
use crate::park::backend::{SpawnOptions, Spawner, TaskRef};
use crate::park::fork;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::park::wait_queue::{self, Options, Token};
use crate::recorder::waits::Waits;
use crate::runtime::registry;
use crate::settings;
use crate::shim;
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sys;
use crate::sys::fork::Generation;
use crate::sys::once::OnceLock;
use crate::thread::deadlock::watch;
use crate::thread::kernel::{self, Host, Reaper};
#[cfg(unix)]
use crate::threadmon;
use crate::trace;

/// The kernel keeps the futexes of a process in a hash table of 16 buckets for each CPU, until it is asked
/// for more. With this many, thousands of threads sleep without meeting in one bucket. A power of two.
const FUTEX_SLOTS: u32 = 16_384;

/// What the threads of a runtime share with it.
pub(crate) struct Inner {
    me: Weak<Inner>,
    /// Its number in the process.
    pub(super) number: u32,
    pub(super) live: Live,
    pub(super) reaper: Reaper,
    stack_size: usize,
    /// All threads are to end.
    interrupting: AtomicBool,
    /// How long threads waited until they ran, while times are counted.
    pub(super) waits: Waits,
    /// The process that has the threads.
    pub(super) process: Generation,
}

/// Starts a runtime.
pub(crate) fn start(settings: Settings) -> io::Result<Arc<Inner>> {
    static GROW_HASH: OnceLock<()> = OnceLock::new();
    // Not when a thread first waits for a lock: the answer allocates, and the lock may be the allocator's.
    shim::cpus();
    settings::misspelled::report();
    let Settings { stack_size, on_deadlock, lock_stats } = settings;
    trace::file::start(&settings::process)?;
    #[cfg(unix)]
    threadmon::server::serve_if_asked(&settings::process)?;
    #[cfg(target_os = "linux")]
    threadmon::dump::dump_if_asked(&settings::process)?;
    if lock_stats {
        contention::switch(true);
    }
    GROW_HASH.get_or_init(|| {
        // A kernel that cannot do this is slower with thousands of sleepers, but still right.
        sys::futex::grow_hash(FUTEX_SLOTS);
    });
    let process = fork::watch()?;
    let inner = Arc::new_cyclic(|me| Inner {
        me: Weak::clone(me),
        number: registry::take_number(),
        live: Live::new(me.as_ptr().addr()),
        reaper: Reaper::new(),
        stack_size,
        interrupting: AtomicBool::new(false),
        waits: Waits::new(),
        process,
    });
    watch::start(on_deadlock)?;
    registry::add(&inner);
    Ok(inner)
}

impl Inner {
    /// Makes all threads end their waits that can be interrupted, from now on.
    pub(super) fn interrupt(&self) {
        // Release: what the caller did comes before what the threads do about it.
        self.interrupting.store(true, Ordering::Release);
    }

    /// Returns how many threads live; in a fork, how many of them are there.
    pub(super) fn threads(&self) -> usize {
        if self.process.is_mine() { self.live.count() } else { fork::left_of(self.home()) }
    }
}

impl Spawner for Inner {
    fn interrupts_all(&self) -> bool {
        // Relaxed: a thread that misses it is interrupted in its sleep.
        self.interrupting.load(Ordering::Relaxed)
    }

    fn waits_for_cpu(&self) -> Option<&Waits> {
        Some(&self.waits)
    }

    fn spawn(&self, task: TaskRef<'_>, options: &mut SpawnOptions) -> io::Result<ThreadRef> {
        if !self.process.is_mine() {
            return Err(fork::refusal());
        }
        if self.interrupts_all() {
            return Err(io::Error::other("the runtime is shutting down: it starts no more threads"));
        }
        let host =
            self.me.upgrade().expect("the spawner owns a share: the runtime's value or a thread of it");
        // What the new thread maps by itself must still fit after its stack.
        sys::mmap::check_headroom(options.stack_size.unwrap_or(self.stack_size))?;
        let counted = host.live.enter();
        let spawned = kernel::spawn(&host, task, options, host.stack_size)?;
        counted.stays();
        Ok(spawned)
    }
}

impl Host for Inner {
    fn thread_ended(&self) {
        self.live.leave();
    }

    fn is_here(&self) -> bool {
        self.process.is_mine()
    }

    fn reaper(&self) -> &Reaper {
        &self.reaper
    }
}

/// Counts a runtime's living threads, in one word with a bit that says that a thread waits for zero. So if no
/// thread waits, threads end without a look at the wait queue.
///
/// | value | meaning |
/// |---|---|
/// | even | half of it threads live, and no thread waits |
/// | odd | the same, and a thread waits for 1 on the queue of the runtime's address |
///
/// By that address, a search for deadlocks knows for which threads the waiting one waits.
#[derive(Debug)]
pub(super) struct Live {
    word: AtomicUsize,
    key: usize,
}

const WAITED_FOR: usize = 1;
const ONE: usize = 2;

impl Live {
    /// Creates the count of the runtime at this address.
    fn new(home: usize) -> Self {
        Self { word: AtomicUsize::new(0), key: home }
    }

    pub(super) fn count(&self) -> usize {
        // Relaxed: a figure to show.
        self.word.load(Ordering::Relaxed) / ONE
    }

    /// Counts one thread more, which is about to be started.
    fn enter(&self) -> Entered<'_> {
        // Relaxed: the caller holds the runtime, or is counted itself, so no thread waits for the runtime's
        // end meanwhile.
        self.word.fetch_add(ONE, Ordering::Relaxed);
        Entered(self)
    }

    /// Counts one thread less. The caller keeps the word alive until this returns.
    fn leave(&self) {
        // Release: pairs with the acquire of `wait`.
        if self.word.fetch_sub(ONE, Ordering::Release) == ONE + WAITED_FOR
            && let Some(waiters) = wait_queue::grant_all(self.key, Token(0), || true)
        {
            waiters.wake_all();
        }
    }

    /// Waits until no thread lives. Called by one thread at a time: the owner of the runtime, when it drops
    /// that.
    pub(super) fn wait(&self) {
        // Acquire: pairs with `leave`, so all that the threads did happens before the return.
        if self.word.load(Ordering::Acquire) == 0 {
            return;
        }
        self.word.fetch_or(WAITED_FOR, Ordering::AcqRel);
        while self.word.load(Ordering::Acquire) != WAITED_FOR {
            // Under the queue lock: `leave` lowers the count before it acquires that lock to grant.
            let some_live = || self.word.load(Ordering::Relaxed) != WAITED_FOR;
            let options = Options::new(WaitReason::Scope, Wait::forever());
            let _ = wait_queue::wait_while(self.key, &options, some_live);
        }
    }
}

/// The count of a thread that may not start. If it is dropped, even by a panic, the thread has not started.
#[must_use = "the thread is counted only as long as this is there"]
struct Entered<'a>(&'a Live);

impl Entered<'_> {
    /// Keeps the count, because the thread has started. It leaves by itself.
    fn stays(self) {
        mem::forget(self);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}
