//! `ThreadCore`: what each thread of control has, whatever runs it. `ThreadRef`: a pointer to a core.
//!
//! Cores are **type-stable**: they are never freed while the process lives. When the last counted reference
//! to a core is gone, the core is used again for another thread. A `ThreadRef` of a thread that cannot end
//! meanwhile needs no count. An example is a thread that is asleep, with its sleep won by the holder. So hot
//! paths do not count. Handles of users are counted ([`crate::thread::Thread`], join handles), and so is the
//! running thread itself.
//!
//! The life of a core:
//!
//! 1. `begin`, by the spawner, before any other thread sees the core
//! 2. publication through its references
//! 3. `finish`, by the thread, last of all
//! 4. the last `release`, which calls [`CorePool::recycle`]; then `begin` again

use std::cell::Cell;
use std::fmt;
use std::mem::offset_of;
use std::num::NonZeroU64;
use std::ops::Deref;

use super::backend::{Backend, CorePool, Spawner};
use super::debugger::{Fact, Facts};
use super::exit::word::Exit;
use super::interrupt::record::Interrupt;
use super::mutex_handoff::Handoff;
use super::owner::OwnerWord;
use super::permit::word::Permit;
use super::priority::{Level, Priority};
use super::robust::held::Held;
use super::specific::Specific;
use super::wait_state::name::Name;
use super::wait_state::word::{self, WaitState};
use crate::fatal;
use crate::recorder::account::Account;
use crate::recorder::late::Late;
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::shim::fork::Generation;

/// The first id that is in no block yet.
static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Ids for threads that one LWP starts: it takes a block of them from all others at a time. Its owner alone
/// uses it.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    next: Cell<u64>,
    end: Cell<u64>,
}

impl Ids {
    /// How many ids a block has.
    const BLOCK: u64 = 64;

    /// Returns an id that no thread has.
    #[inline]
    pub(crate) fn take(&self) -> u64 {
        let id = self.next.get();
        if id == self.end.get() {
            return self.refill();
        }
        self.next.set(id + 1);
        id
    }

    #[cold]
    fn refill(&self) -> u64 {
        // Relaxed: only the numbers matter.
        let id = NEXT.fetch_add(Self::BLOCK, std::sync::atomic::Ordering::Relaxed);
        self.next.set(id + 1);
        self.end.set(id + Self::BLOCK);
        id
    }
}

/// The id of a life that has none before it is asked for.
pub(crate) const NO_ID: u64 = 0;

/// Returns the highest id that a thread may have.
pub(super) fn last_id() -> u64 {
    NEXT.load(std::sync::atomic::Ordering::Relaxed) - 1
}

/// The identity of one thread of control, and the state of its sleep.
///
/// `mxn` embeds it as the first field of its green thread (`repr(C)`), so a pointer to one is a pointer to
/// the other.
pub(crate) struct ThreadCore {
    /// The token of `thread::park`.
    pub(crate) permit: Permit,
    /// Counted references; at zero the core is recycled.
    refs: AtomicU32,
    /// Says if it has ended, and which thread waits for that.
    pub(super) exit: Exit,
    /// Says if it was interrupted, and where it sleeps if an interrupt may end that sleep.
    pub(super) interrupt: Interrupt,
    /// What can be seen of it from outside.
    pub(crate) wait_state: WaitState,
    /// What this thread writes into locks that it acquires, to say where it runs. Kept current by the code
    /// that mounts the thread.
    pub(crate) owner_hint: OwnerWord,
    /// Its priority.
    pub(crate) priority: Level,
    /// The lock that it acquires when it wakes.
    pub(crate) handoff: Handoff,
    /// The robust locks that it would leave behind.
    pub(super) robust: Held,
    /// [`NO_ID`] until it is asked for, unless the life began with one.
    id: AtomicU64,
    /// What owns the core between two lives.
    pool: &'static dyn CorePool,
    /// The values that it keeps under keys.
    pub(crate) specific: Specific,
    /// Constant from `begin` to the last `release`.
    fixed: UnsafeCell<Fixed>,
    /// Its name.
    pub(super) name: Name,
    /// Its times, while they are counted. Its next life has the same account.
    pub(crate) account: Late<Account>,
}

/// For debuggers.
pub(crate) static FACTS: Facts<6> = Facts::new([
    Fact::address("more", &raw const word::FACTS),
    Fact::number("core.id", offset_of!(ThreadCore, id)),
    Fact::number("core.name", offset_of!(ThreadCore, name)),
    Fact::number("core.exit", offset_of!(ThreadCore, exit)),
    Fact::number("core.permit", offset_of!(ThreadCore, permit)),
    Fact::number("core.wait", offset_of!(ThreadCore, wait_state)),
]);

/// What does not change during one life of a core.
struct Fixed {
    backend: &'static dyn Backend,
    spawner: Option<&'static dyn Spawner>,
    /// The process that has the thread.
    process: Generation,
}

// SAFETY: every field except `specific` and `fixed` is atomic. `specific` is used by the thread itself and by
// `begin`. Only `begin` writes `fixed`, and it has the core to itself.
unsafe impl Sync for ThreadCore {}
// SAFETY: the fields are atomic or written as said for `Sync`, and nothing in a core belongs to the kernel
// thread that created it.
unsafe impl Send for ThreadCore {}

impl ThreadCore {
    /// Creates a core that no thread has used yet.
    pub(crate) fn new(backend: &'static dyn Backend, pool: &'static dyn CorePool) -> Self {
        Self {
            permit: Permit::new(),
            refs: AtomicU32::new(0),
            exit: Exit::done(),
            interrupt: Interrupt::new(),
            wait_state: WaitState::new(),
            owner_hint: OwnerWord::new(),
            priority: Level::new(),
            handoff: Handoff::new(),
            robust: Held::new(),
            id: AtomicU64::new(0),
            pool,
            specific: Specific::new(),
            fixed: UnsafeCell::new(Fixed { backend, spawner: None, process: Generation::now() }),
            name: Name::new(),
            account: Late::new(),
        }
    }

    /// Starts a life with `refs` counted references. `id`: one of [`Ids`], or [`NO_ID`].
    ///
    /// # Safety
    /// The caller has this core to itself: it is new, or was given to [`CorePool::recycle`] and not begun
    /// since.
    #[inline]
    pub(crate) unsafe fn begin(
        &self,
        refs: u32,
        id: u64,
        backend: &'static dyn Backend,
        spawner: Option<&'static dyn Spawner>,
        name: Option<Box<str>>,
        priority: Priority,
    ) {
        self.permit.reset();
        // Relaxed: the code that passes the first reference on publishes the core.
        self.refs.store(refs, Ordering::Relaxed);
        self.wait_state.begin(spawner.map_or(0, |spawner| std::ptr::from_ref(spawner).addr()));
        self.id.store(id, Ordering::Relaxed);
        self.interrupt.reset();
        self.priority.begin(priority);
        self.specific.begin();
        debug_assert_eq!(self.robust.count(), 0, "the last life held robust locks to its end");
        self.fixed.with_mut(|fixed| {
            // SAFETY: the caller has the core to itself.
            unsafe { *fixed = Fixed { backend, spawner, process: Generation::now() } };
        });
        // SAFETY: the caller has the core to itself.
        unsafe { self.name.begin(name) };
        // Last: a look from outside that finds this life alive must not find the id or the name of the last
        // life.
        self.exit.begin();
    }

    #[inline]
    fn fixed(&self) -> &Fixed {
        // SAFETY: `begin` wrote it before this reference could exist, and nothing writes it while one does.
        self.fixed.with(|fixed| unsafe { &*fixed })
    }

    /// Returns the backend, which puts this thread to sleep and wakes it.
    #[inline]
    pub(crate) fn backend(&self) -> &'static dyn Backend {
        self.fixed().backend
    }

    /// Returns `true` if it owns a kernel thread. Such a thread itself decides to enter the kernel
    /// ([`Sleep::commit_kernel`](super::sleep_word::Sleep::commit_kernel)), so its sleeps are settled by a
    /// swap. A green thread is published as asleep once and for all, so a plain store settles its sleep.
    #[inline]
    pub(crate) fn is_kernel(&self) -> bool {
        // Relaxed: this bit is constant in the life of a core.
        self.owner_hint.get().is_kernel()
    }

    /// Returns the pool, which gets the core when the thread has ended.
    pub(crate) fn pool(&self) -> &'static dyn CorePool {
        self.pool
    }

    /// Returns the runtime that it belongs to, or `None` for a thread that no runtime started.
    #[inline]
    pub(crate) fn spawner(&self) -> Option<&'static dyn Spawner> {
        self.fixed().spawner
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.get()
    }

    /// Gives it a name, if it has none. The caller is the thread, or has a counted reference.
    pub(crate) fn give_name(&self, name: Box<str>) {
        self.name.give(name);
    }

    /// Returns an identity that no other thread of this process has had or will have. A thread that an LWP
    /// starts has one from the beginning. For others, the first call creates it.
    pub(crate) fn id(&self) -> NonZeroU64 {
        if let Some(id) = NonZeroU64::new(self.id.load(Ordering::Relaxed)) {
            return id;
        }
        let fresh = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Relaxed: only the number matters.
        let id = match self.id.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(theirs) => theirs,
        };
        NonZeroU64::new(id).expect("ids start at 1")
    }

    /// Returns its id, or 0 if it has not been asked for yet.
    pub(super) fn known_id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Gives the core the id that its thread had with another core; 0 if it had none. The caller has this
    /// core to itself.
    pub(super) fn go_on_with_id(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// Continues the thread that was `from` in the parent. Called in the child of a fork.
    ///
    /// # Safety
    /// Called in the child of a fork, by its only thread, which has both cores. The other one has no further
    /// life in this process.
    pub(super) unsafe fn go_on_as(&self, from: &Self) {
        self.id.store(from.known_id(), Ordering::Relaxed);
        self.permit.inherit(&from.permit);
        self.interrupt.inherit(&from.interrupt);
        self.priority.begin(from.priority.get());
        self.robust.inherit(&from.robust);
        self.name.inherit(&from.name);
        // SAFETY: the caller's promise.
        unsafe { self.specific.inherit(&from.specific) };
    }

    /// Returns `true` if it is a thread of a parent process. Nothing runs it here, so it neither ends nor
    /// wakes.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        !self.fixed().process.is_mine()
    }

    /// Adapts the core in the child of a fork: its thread called `fork` and is here. Threads that joined or
    /// interrupted it are not.
    ///
    /// # Safety
    /// Called in the child of a fork, by its only thread, which has this core.
    pub(super) unsafe fn survive_fork(&self) {
        self.fixed.with_mut(|fixed| {
            // SAFETY: there is no other thread, and the caller has no other reference into `fixed`.
            unsafe { (*fixed).process = Generation::now() };
        });
        self.exit.survive_fork();
        // SAFETY: the caller's promise.
        unsafe { self.interrupt.survive_fork() };
    }

    /// Returns `true` if it has been interrupted and none of its waits has reported that yet.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    /// Returns `true` if the thread has ended, destructors included.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.exit.is_done()
    }
}

crate::shown::debug! { [] ThreadCore: "ThreadCore", "id": |core| core.id(), "name": |core| core.name() }

/// A pointer to a thread's core. Copied freely; counted only by [`retain`](Self::retain) and
/// [`release`](Self::release).
#[derive(Clone, Copy)]
pub(crate) struct ThreadRef(&'static ThreadCore);

impl ThreadRef {
    /// Wraps a type-stable core.
    #[inline]
    pub(crate) fn new(core: &'static ThreadCore) -> Self {
        Self(core)
    }

    /// Returns one more counted reference.
    ///
    /// Aborts above `i32::MAX`, as `Arc` does. Forgotten handles stay counted, and a count that wraps would
    /// recycle the core of a living thread. The upper half of the numbers is for threads between their
    /// addition and the abort.
    pub(crate) fn retain(self) -> Self {
        // Relaxed: made from a reference that is counted already.
        if self.0.refs.fetch_add(1, Ordering::Relaxed) > i32::MAX as u32 {
            fatal::too_many_references();
        }
        self
    }

    /// Gives up one counted reference. The last one recycles the core.
    #[inline]
    pub(crate) fn release(self) {
        if self.release_was_last() {
            self.0.pool.recycle(self);
        }
    }

    /// Does what [`release`](Self::release) does, but leaves it to the caller to recycle the core. Returns
    /// `true` if the caller must do so.
    #[inline]
    #[must_use]
    pub(crate) fn release_was_last(self) -> bool {
        // A count of 1 is the caller's own. New references are made from counted ones only, so no other
        // thread can race, and no read-modify-write is needed. The next `begin` sets the count.
        // Acquire and AcqRel: everything done through any reference happens before the core is used again.
        self.0.refs.load(Ordering::Acquire) == 1 || self.0.refs.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns the core, for as long as the process lives.
    #[inline]
    pub(crate) fn core(self) -> &'static ThreadCore {
        self.0
    }
}

impl Deref for ThreadRef {
    type Target = ThreadCore;
    #[inline]
    fn deref(&self) -> &ThreadCore {
        self.0
    }
}

impl PartialEq for ThreadRef {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl fmt::Debug for ThreadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(all(test, loom))]
mod loom_references;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::park::priority::Priority;
    use crate::park::reason::WaitReason;
    use crate::park::wait::Wait;
    use crate::park::{core_pool, current, permit};

    #[test]
    fn a_thread_goes_on_with_another_core() {
        // They have no other life, as in a child.
        let (thread, heir) = (core_pool::take(1, None, Some("one".into())), core_pool::take(1, None, None));
        assert_eq!((thread.known_id(), heir.known_id()), (0, 0));
        let id = thread.id();
        assert_eq!(thread.known_id(), id.get());
        thread.holds_robust();
        thread.priority.begin(Priority::High);
        thread.interrupt();
        permit::unpark(thread);
        // SAFETY: this test has both cores, and neither has values.
        unsafe { heir.go_on_as(&thread) };
        assert_eq!((heir.id(), heir.name()), (id, Some("one")));
        assert_eq!(heir.priority.get(), Priority::High);
        assert!(heir.leaves_robust() && heir.is_interrupted(), "it has what it had");
        let before = current::try_current();
        current::set_current(Some(heir));
        assert_eq!(permit::park(|| Wait::timeout(Duration::ZERO), WaitReason::Park), Ok(()));
        current::set_current(before);
        let last = core_pool::take(1, None, None);
        last.go_on_with_id(id.get());
        assert_eq!(last.id(), id);
        last.release();
        let _ = (thread.finish(), heir.finish());
    }
}
