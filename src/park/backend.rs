//! The seam: what `sync` and `thread` need of the code that runs a thread.
//!
//! A thread of control is a [`ThreadCore`](super::thread::ThreadCore). Behind it stands a [`Backend`], which
//! can put it to sleep and make it runnable. Only slow paths look it up. A sleep has one word ([`Sleep`]).
//! The party that changes that word from *asleep* has won the sleep (I3). It must call [`Backend::wake`]
//! exactly once, with no queue lock held.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;

use super::mutex_handoff::HeldMutex;
use super::priority::Priority;
use super::reason::WaitReason;
pub(crate) use super::sleep_word::Sleep;
use super::thread::ThreadRef;
use super::waiter::Grants;
use crate::recorder::ring::Ring;
use crate::recorder::waits::Waits;
use crate::shim::atomic::AtomicU32;
use crate::time::Moment;

/// How a kind of thread sleeps and wakes. There is one value for all kernel threads, and one for each `mxn`
/// runtime.
pub(crate) trait Backend: Sync {
    /// Sleeps until `sleep` is over. At `deadline`, some thread calls [`Sleep::expire`]. Called by the
    /// thread itself, with no queue lock held, under a `NoPreempt` (I9). The sleep may be over before the
    /// call. Returns only after the sleep is over.
    fn block(&self, me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Moment>, reason: WaitReason);

    /// Blocks as [`block`](Self::block) does, for a thread that holds `lock` until then. It unlocks the
    /// lock, or passes it to the thread that runs next in its place, if that thread wants it
    /// (`mutex_handoff.rs`).
    fn block_with(&self, me: &ThreadRef, sleep: &dyn Sleep, reason: WaitReason, lock: &dyn HeldMutex) {
        lock.release();
        self.block(me, sleep, None, reason);
    }

    /// Makes `target` runnable. Called once for each sleep, by the thread that won it. The caller holds no
    /// queue lock, and has held a `NoPreempt` since it won. `word` is the address of the sleep's word. The
    /// word may be dead already, and must not be read through.
    fn wake(&self, target: ThreadRef, word: *const AtomicU32);

    /// Wakes `target`, one of several threads, as [`wake`](Self::wake) does. The caller has just woken
    /// another thread, and these may run after that one. The backend may also wake as many of the `others`,
    /// which come next, as it likes. Returns how many of those it woke.
    fn wake_behind(&self, target: ThreadRef, word: *const AtomicU32, _others: &mut Grants) -> usize {
        self.wake(target, word);
        0
    }

    /// Lets another runnable thread go first.
    fn yield_now(&self, me: &ThreadRef);

    /// Notes that `me` is about to call something that may block its kernel thread for long. Its slot may be
    /// released.
    fn enter_blocking(&self, _me: &ThreadRef) {}

    /// Ends what `enter_blocking` began. May wait for a slot.
    fn exit_blocking(&self, _me: &ThreadRef) {}

    /// Turns `me` into a kernel thread, which is not a thread of this backend. Called in the child of a fork
    /// that `me` called.
    fn forked(&self, _me: &ThreadRef) {}

    /// Notes that `me` may be preempted again. If its slice was over meanwhile, others go first.
    fn leave_if_asked(&self, _me: &ThreadRef) {}

    /// Returns the ring for events that the running thread `me` causes, if events are recorded there. It
    /// stays that ring as long as `me` is not preempted.
    fn ring(&self, _me: &ThreadRef) -> Option<&'static Ring> {
        None
    }

    /// Returns the number of the runtime whose green threads these are; 0 for kernel threads.
    fn runtime(&self) -> u32 {
        0
    }

    /// Has events of `descriptor` reported to the entry of `token` (`reactor`), unless `by`, which belongs to
    /// that entry, says that this backend does so already. Returns `false` if threads of this backend block
    /// in their system calls instead.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be waited for.
    fn watch(&self, _descriptor: i32, _token: u64, _by: &AtomicU32) -> io::Result<bool> {
        Ok(false)
    }

    /// Has what `descriptor` is at this moment reported to the entry of `token`, and its events from now on.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be waited for, or if threads of this backend block in their system calls.
    fn watch_anew(&self, _descriptor: i32, _token: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns `true` if `me`, the running thread, may wait where its stack pointer is `sp` without its
    /// kernel thread. A handler of a signal, on a stack of its own, may not.
    fn may_wait_at(&self, _me: &ThreadRef, _sp: usize) -> bool {
        false
    }

    /// Returns `true` if the kernel thread of `me`, the running thread, blocks the signals that it blocks as
    /// a rule. In a handler of a signal it blocks more.
    fn has_usual_mask(&self, _me: &ThreadRef) -> bool {
        false
    }

    /// Returns the signals that `me`, the running thread, blocks outside of handlers, if it has a mask of its
    /// own: a bit for each, the lowest for signal 1.
    fn mask_of(&self, _me: &ThreadRef) -> Option<u64> {
        None
    }

    /// Notes that `me`, the running thread, had `before` blocked and has `now`. Returns `false` if that is
    /// not for long, or not here: it is in a handler, whose end restores the mask, or the child of a `vfork`.
    fn mask_changed(&self, _me: &ThreadRef, _before: u64, _now: u64) -> bool {
        false
    }

    /// Returns the bytes that the frames of `thread`, which has not ended, may use, if this backend made its
    /// stack.
    fn stack_of(&self, _thread: &ThreadRef) -> Option<Range<usize>> {
        None
    }

    /// Returns the kernel thread on which `thread` runs, if it does.
    fn runs_on(&self, _thread: &ThreadRef) -> Option<u32> {
        None
    }

    /// Interrupts `thread` if it runs. It then looks for a request to end it where it is. Returns `false` if
    /// it does not run.
    fn interrupt_running(&self, _thread: &ThreadRef) -> bool {
        false
    }

    /// Returns `true` if each of its threads has its own thread register, and with it its own native
    /// thread-locals.
    fn has_own_register(&self) -> bool {
        true
    }
}

/// Runs `f`, which may block the kernel thread of `me`, the running thread, for long. Its slot may be
/// released meanwhile.
pub(crate) fn blocking<R>(me: ThreadRef, f: impl FnOnce() -> R) -> R {
    struct Leave(ThreadRef);
    impl Drop for Leave {
        fn drop(&mut self) {
            self.0.backend().exit_blocking(&self.0);
        }
    }
    me.backend().enter_blocking(&me);
    let _leave = Leave(me);
    f()
}

/// What becomes of a thread that has ended. Not a part of [`Backend`]: a handle may outlive the runtime that
/// was the backend. A pool is as static as its cores.
pub(crate) trait CorePool: Sync {
    /// Notes that `ended` has said that it has ended, and that its handle is used up. May wait shortly for
    /// what is left of the thread.
    fn joined(&self, _ended: ThreadRef) {}

    /// Notes that the handle of `thread` was dropped, so no thread will join it.
    fn detached(&self, _thread: ThreadRef) {}

    /// Notes that `thread` has got another priority. It may be anywhere, and may have ended. The caller has
    /// a counted reference.
    fn reprioritized(&self, _thread: ThreadRef) {}

    /// Takes the core back: the last reference to an ended thread is gone, so its core may be used again.
    fn recycle(&self, core: ThreadRef);
}

/// The options of a new thread.
#[derive(Debug, Default, Clone)]
pub(crate) struct SpawnOptions {
    pub(crate) name: Option<Box<str>>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) bound: bool,
    /// In ns; `u64::MAX` is forever, and `None` takes the runtime's.
    pub(crate) time_slice: Option<u64>,
    pub(crate) priority: Priority,
    /// The processors that its kernel thread may use, by number; not empty.
    pub(crate) cpus: Option<Box<Cpus>>,
    /// The signals that it blocks when it starts, if it is green; `None`: as its runtime's LWPs did.
    pub(crate) mask: Option<u64>,
}

/// A set of processors, by number, in order.
#[derive(Debug, Clone)]
pub(crate) struct Cpus(pub(crate) Vec<usize>);

/// Bytes in which a thread keeps its closure, if it is small, and its result.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct InlineStorage(Cell<MaybeUninit<[u8; ROOM]>>);

/// Enough for six words.
const ROOM: usize = 48;

/// Bytes beside a thread's stack, for a larger closure that it has not run yet. Unlike an [`InlineStorage`],
/// they are in a page that the thread touches anyway. They go with the stack, so no result lies there.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Porch(MaybeUninit<[u8; PORCH]>);

/// Enough for a closure that captures sixteen words.
const PORCH: usize = 128;

/// Where a new thread has room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rooms {
    pub(crate) inline: NonNull<InlineStorage>,
    pub(crate) porch: *mut Porch,
}

impl InlineStorage {
    pub(crate) fn new() -> Self {
        Self(Cell::new(MaybeUninit::uninit()))
    }
}

/// What a new thread will run, while the spawner still holds it.
#[derive(Debug)]
pub(crate) struct TaskRef<'a> {
    new_task: NonNull<()>,
    pack: unsafe fn(NonNull<()>, Option<Rooms>) -> Task,
    _new_task: PhantomData<&'a mut ()>,
}

impl<'a> TaskRef<'a> {
    /// # Safety
    /// `pack` may be called once with `new_task` within `'a`, and with any rooms that are otherwise unused.
    #[inline]
    pub(crate) unsafe fn new(
        new_task: NonNull<()>,
        pack: unsafe fn(NonNull<()>, Option<Rooms>) -> Task,
    ) -> Self {
        Self { new_task, pack, _new_task: PhantomData }
    }

    /// Moves the closure into one of the rooms, or to the heap if it does not fit.
    ///
    /// # Safety
    /// Both rooms are memory. Until the task has been dropped or begins to run, nothing else uses the porch.
    /// Until one of two things has happened, nothing else uses the other. Either the task has been dropped,
    /// or its thread has ended and the references that it was spawned with are released.
    #[inline]
    pub(crate) unsafe fn into_room(self, rooms: Rooms) -> Task {
        // SAFETY: once, since `self` is used up; the rest is the caller's promise.
        unsafe { (self.pack)(self.new_task, Some(rooms)) }
    }

    /// Moves the closure to the heap.
    pub(crate) fn onto_heap(self) -> Task {
        // SAFETY: once, since `self` is used up.
        unsafe { (self.pack)(self.new_task, None) }
    }
}

/// What a new thread runs: a type-erased cell with the closure and room for its result (`thread/task.rs`).
/// If it is dropped before it has run, the closure is dropped.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) cell: TaskCell,
    pub(crate) vtable: &'static VTable,
}

/// A cell of any types: its address, and in the lowest bit if it is on the heap. Both are in one word, so a
/// task and a join handle are two words, which fit in registers. A value that is passed in memory is
/// written in parts and then read as a whole. Such a read waits for the stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskCell(pub(crate) NonNull<()>);

/// What can be done with a cell without knowing its types.
#[derive(Debug)]
pub(crate) struct VTable {
    /// Runs the closure, catches its panic, and stores the result. Called once, on the new thread, which is
    /// the second argument. The third is `true` if the thread leaves its result for good. Never unwinds.
    /// Returns `true` if the result's fate is open.
    pub(crate) run: unsafe fn(TaskCell, ThreadRef, bool) -> bool,
    /// Drops the closure that has not run, and frees the cell.
    pub(crate) cancel: unsafe fn(TaskCell),
    /// Drops the result, and frees the cell. Returns `true` if the result was a panic. Never unwinds.
    pub(crate) discard: unsafe fn(TaskCell) -> bool,
}

/// The runtime that a thread belongs to: where `thread::spawn` puts new threads.
pub(crate) trait Spawner: Sync {
    /// Starts a thread. The thread and its one join handle share the counted reference that is returned: the
    /// one that goes second releases it (`exit.rs`). What the thread keeps of the options is taken out of
    /// them. They are borrowed because moving them would copy them: a copy of what was just written in parts
    /// waits for those stores.
    fn spawn(&self, task: TaskRef<'_>, options: &mut SpawnOptions) -> io::Result<ThreadRef>;

    /// Returns `true` if all its threads are to end. Then each interruptible wait of these threads is
    /// interrupted, again and again. Called by those threads.
    fn interrupts_all(&self) -> bool;

    /// Returns where it is counted how long threads that own kernel threads waited until they ran, if that is
    /// counted.
    fn waits_for_cpu(&self) -> Option<&Waits> {
        None
    }

    /// Returns `true` if threads that std or the C library starts can be green threads of this runtime.
    fn takes_pthreads(&self) -> bool {
        false
    }

    /// Returns whether threads that its threads start by std or the C library are green threads of this
    /// runtime; `None`: the program has not said.
    fn green_std_threads(&self) -> Option<bool> {
        None
    }

    /// Makes its kernel threads block these signals, and no others, while they run no threads. Returns when
    /// they block `added`.
    fn set_idle_mask(&self, _mask: u64, _added: u64) {}
}
