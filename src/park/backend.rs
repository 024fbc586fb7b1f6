//! The seam: what `sync` and `thread` need of whatever runs a thread.
//!
//! A thread of control is a [`ThreadCore`](super::thread::ThreadCore). Behind it stands a [`Backend`], which knows how to
//! put it to sleep and how to make it runnable; it is looked up on slow paths only. A sleep has one word ([`Sleep`]);
//! whoever moves that word away from *asleep* has won the sleep (I3) and must call [`Backend::wake`] exactly once, with
//! no queue lock held.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::time::Instant;

use super::priority::Priority;
use super::reason::WaitReason;
use super::relay::Held;
use super::thread::ThreadRef;
use super::wait_queue::Grants;
use crate::shim::atomic::AtomicU32;

/// One sleep of one thread. It lives on the sleeper's stack, from before the sleeper is visible as asleep until
/// [`Backend::block`] has returned.
pub(crate) trait Sleep {
    /// The word that says how the sleep stands. A kernel thread waits on it as a futex.
    fn word(&self) -> &AtomicU32;

    /// Whether the word still says asleep (a load with acquire ordering: what the winner wrote is visible after
    /// `false`).
    fn is_asleep(&self) -> bool;

    /// Kernel threads only: whether it may pay to look at the word for a while before the futex wait.
    fn may_spin(&self) -> bool {
        true
    }

    /// Kernel threads only, by the sleeper, just before the futex wait: from now on the winner must wake. Gives the
    /// value to pass to the futex, or `None` if the sleep is already over.
    fn commit_kernel(&self) -> Option<u32>;

    /// Ends the sleep because its deadline has passed. `true`: this call won, and its caller makes the thread
    /// runnable (a kernel thread that expired its own sleep just returns). Takes the queue lock for queue waits, so it
    /// must be called without one. A grant that came first wins.
    fn expire(&self) -> bool;

    /// Ends the sleep because its thread has been interrupted. `true`: this call won, and its caller wakes the thread, unless it is
    /// the thread itself, which then does not block. As [`expire`](Self::expire) in all else; but for a kernel thread it may be called
    /// by another one, so the thread may be looking at the word, or committing.
    fn interrupt(&self) -> bool;
}

/// How a kind of thread sleeps and wakes. One value for all kernel threads, one for each `mxn` runtime.
pub(crate) trait Backend: Sync {
    /// Sleeps until `sleep` is over. At `deadline` somebody calls [`Sleep::expire`]. Called by the thread itself, with
    /// no queue lock held, under a `NoPreempt` (I9); the sleep may be over before the call. May return only after the sleep is over.
    fn block(&self, me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Instant>, reason: WaitReason);

    /// [`block`](Self::block) of a thread that holds `lock` until then, which it unlocks, or passes on to the one that runs next in its
    /// place, if that wants the lock of `_key` (`relay.rs`).
    fn block_with(
        &self,
        me: &ThreadRef,
        sleep: &dyn Sleep,
        reason: WaitReason,
        _key: usize,
        lock: &dyn Held,
    ) {
        lock.release();
        self.block(me, sleep, None, reason);
    }

    /// Makes `target` runnable. Called once for each sleep, by the thread that won it. The caller holds no
    /// queue lock, and has held a `NoPreempt` since it won. `word` is the address of the sleep's word: it may
    /// be dead already, and must not be read through.
    fn wake(&self, target: ThreadRef, word: *const AtomicU32);

    /// [`wake`](Self::wake) of one of several, and of as many of the `others` as it likes, which come next and whose number it gives: the
    /// caller has just woken another, and these may run after that.
    fn wake_behind(&self, target: ThreadRef, word: *const AtomicU32, _others: &mut Grants) -> usize {
        self.wake(target, word);
        0
    }

    /// Lets another runnable thread go first.
    fn yield_now(&self, me: &ThreadRef);

    /// `me` is about to call something that may block its kernel thread for long: its slot may be given away.
    fn enter_blocking(&self, _me: &ThreadRef) {}

    /// The end of what `enter_blocking` began; may wait for a slot.
    fn exit_blocking(&self, _me: &ThreadRef) {}

    /// In the child of a fork that `me` called: `me` goes on as a kernel thread, not as a thread of this
    /// backend.
    fn forked(&self, _me: &ThreadRef) {}

    /// `me` may be preempted again: if its slice was over meanwhile, others go first.
    fn leave_if_asked(&self, _me: &ThreadRef) {}

    /// Whether a sleep of this backend's threads must be settled with a compare-and-swap, because the sleeper decides
    /// by itself whether to enter the kernel (see [`Sleep::commit_kernel`]). Green threads are published as asleep
    /// once and for all: a plain store settles them.
    fn sleeps_in_kernel(&self) -> bool;

    /// Whether each of its threads has a thread register, and with it native thread-locals, of its own.
    fn has_own_register(&self) -> bool {
        true
    }
}

/// What becomes of a thread that nobody runs any more. Not a part of [`Backend`], because a handle may outlive the runtime
/// that the backend was: a keeper is as static as the cores it keeps.
pub(crate) trait Keeper: Sync {
    /// `ended` has said that it has ended, and its handle is used up: what is left of it may be waited for, shortly.
    fn joined(&self, _ended: ThreadRef) {}

    /// The handle of `thread` was dropped: nobody will join it.
    fn detached(&self, _thread: ThreadRef) {}

    /// `thread` has got another priority. It may be anywhere, and may have ended: the caller has a counted reference.
    fn reprioritized(&self, _thread: ThreadRef) {}

    /// The last reference to an ended thread is gone: its core may be used again.
    fn recycle(&self, core: ThreadRef);
}

/// What a new thread is to be.
#[derive(Debug, Default, Clone)]
pub(crate) struct SpawnOptions {
    pub(crate) name: Option<Box<str>>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) bound: bool,
    /// In ns, `u64::MAX` for ever; `None`: the runtime's.
    pub(crate) time_slice: Option<u64>,
    pub(crate) priority: Priority,
    /// The processors that its kernel thread may use, by number; not empty.
    pub(crate) cpus: Option<Box<Cpus>>,
}

/// A set of processors, by number, in order.
#[derive(Debug, Clone)]
pub(crate) struct Cpus(pub(crate) Vec<usize>);

/// Bytes that a thread has for its closure and its result.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Room(Cell<MaybeUninit<[u8; ROOM]>>);

/// Enough for a closure that captures sixteen words.
const ROOM: usize = 128;

impl Room {
    pub(crate) fn new() -> Self {
        Self(Cell::new(MaybeUninit::uninit()))
    }
}

/// What a new thread is to run, while it still lies with its spawner.
#[derive(Debug)]
pub(crate) struct Packing<'a> {
    parcel: NonNull<()>,
    pack: unsafe fn(NonNull<()>, Option<NonNull<Room>>) -> Start,
    _parcel: PhantomData<&'a mut ()>,
}

impl<'a> Packing<'a> {
    /// # Safety
    /// `pack` may be called once with `parcel` within `'a`, and with any room that nobody else uses.
    #[inline]
    pub(crate) unsafe fn new(
        parcel: NonNull<()>,
        pack: unsafe fn(NonNull<()>, Option<NonNull<Room>>) -> Start,
    ) -> Self {
        Self { parcel, pack, _parcel: PhantomData }
    }

    /// Moves the closure into the room, or to the heap if it does not fit.
    ///
    /// # Safety
    /// Nobody else uses the room before the start has been dropped, or its thread has ended and the references that it was
    /// spawned with are released.
    #[inline]
    pub(crate) unsafe fn into_room(self, room: &'static Room) -> Start {
        // SAFETY: once, since `self` is used up; the rest is the caller's promise.
        unsafe { (self.pack)(self.parcel, Some(NonNull::from(room))) }
    }

    /// Moves the closure to the heap.
    pub(crate) fn onto_heap(self) -> Start {
        // SAFETY: once, since `self` is used up.
        unsafe { (self.pack)(self.parcel, None) }
    }
}

/// What a new thread runs: a cell with the closure and room for its result (`thread/packet.rs`), type-erased.
/// Dropping it unrun drops the closure.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) cell: AnyCell,
    pub(crate) verbs: &'static Verbs,
}

/// A cell of any types: where it is, and in the lowest bit whether it is on the heap. In one word, so that a start and a join
/// handle are two, which fit in registers: what is passed on in memory by parts and then read as a whole waits for its
/// own stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyCell(pub(crate) NonNull<()>);

/// What can be done with a cell without knowing its types.
#[derive(Debug)]
pub(crate) struct Verbs {
    /// Runs the closure, catches its panic, stores the result. Called once, on the new thread, which is passed, and whether
    /// it is to leave its result for good. Never unwinds. `true`: the result's fate is open.
    pub(crate) run: unsafe fn(AnyCell, ThreadRef, bool) -> bool,
    /// Drops the closure unrun, and frees the cell.
    pub(crate) cancel: unsafe fn(AnyCell),
    /// Drops the result, and frees the cell; `true`: it was a panic. Never unwinds.
    pub(crate) discard: unsafe fn(AnyCell) -> bool,
}

/// The runtime that a thread belongs to: where `thread::spawn` puts new threads.
pub(crate) trait Ambient: Sync {
    /// Starts a thread. The counted reference that is returned is shared by the thread and its one join handle: whoever goes
    /// second releases it (`exit.rs`). What the thread keeps of the options is taken from them. (They are lent: moved, they are
    /// copied, and a copy of what was just written by parts waits for it.)
    fn spawn(&self, packing: Packing<'_>, options: &mut SpawnOptions) -> io::Result<ThreadRef>;

    /// Whether all its threads are to end: every wait of theirs that can be interrupted is, once and again. Asked by them.
    fn interrupts_all(&self) -> bool;
}
