//! `ThreadCore`: what every thread of control is, whatever runs it; and `ThreadRef`, a pointer to one.
//!
//! Cores are **type-stable**: never freed while the process lives, used again for another thread once the last counted
//! reference is gone. So whoever holds a `ThreadRef` of a thread that cannot end meanwhile (it is asleep, and the holder
//! has won its sleep) needs no count, and hot paths do none. Handles that users hold ([`crate::thread::Thread`],
//! join handles, the running thread itself) are counted.
//!
//! A core's life: `begin` (by the spawner, nobody else sees it) - published through its references - `finish` (by the
//! thread, last of all) - the last `release` calls [`Keeper::recycle`] - `begin` again.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Deref;

use super::backend::{Ambient, Backend, Keeper};
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::owner::OwnerHint;
use super::permit::Permit;
use super::priority::{Level, Priority};
use super::relay::Relay;
use super::robust::Held;
use super::specific::Specific;
use super::whereabouts::{self, Whereabouts};
use crate::fatal;
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::shim::fork::Generation;

/// The id of the next thread that is asked for one.
static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// The last id that a thread has.
pub(super) fn last_id() -> u64 {
    NEXT.load(std::sync::atomic::Ordering::Relaxed) - 1
}

/// Identity and sleeping place of one thread of control.
///
/// `mxn` embeds it as the first field of its green thread (`repr(C)`), so a reference to the one is a pointer to the
/// other.
pub(crate) struct ThreadCore {
    /// The token of `thread::park`.
    pub(crate) permit: Permit,
    /// Counted references; at zero the core is recycled.
    refs: AtomicU32,
    /// Whether it has ended, and who waits for that.
    pub(super) exit: Exit,
    /// Whether it was interrupted, and where it sleeps that this may end.
    pub(super) interrupt: Interrupt,
    /// What can be seen of it from outside.
    pub(crate) whereabouts: Whereabouts,
    /// What this thread writes into locks it takes, to say where it runs; kept current by whoever mounts the thread.
    pub(crate) owner_hint: AtomicU16,
    /// How urgent it is.
    pub(crate) priority: Level,
    /// The lock that it takes when it wakes.
    pub(crate) relay: Relay,
    /// The locks that it would leave behind.
    pub(super) robust: Held,
    /// Zero until somebody asks.
    id: AtomicU64,
    /// Whose it is between two lives.
    keeper: &'static dyn Keeper,
    /// What it keeps under keys.
    pub(super) specific: Specific,
    /// Constant from `begin` to the last `release`.
    fixed: UnsafeCell<Fixed>,
    /// As `fixed`; changed under the lock of `whereabouts.rs`. Dropped by the next `begin`, not by the last `release`, which may run
    /// where nothing may be freed (I4).
    name: UnsafeCell<Option<Box<str>>>,
}

/// What does not change during one life of a core.
struct Fixed {
    backend: &'static dyn Backend,
    ambient: Option<&'static dyn Ambient>,
    /// The process that has the thread.
    process: Generation,
}

// SAFETY: every field but `specific`, `fixed` and `name` is atomic. The last two are written by `begin` alone, which has the core to
// itself, or shares it with those who look at the name under the lock that it takes for that; the first is used by the thread itself,
// and by `begin`.
unsafe impl Sync for ThreadCore {}
// SAFETY: as above; nothing in a core belongs to the kernel thread that made it.
unsafe impl Send for ThreadCore {}

impl ThreadCore {
    /// A core that no thread has used yet.
    pub(crate) fn new(backend: &'static dyn Backend, keeper: &'static dyn Keeper) -> Self {
        Self {
            permit: Permit::new(),
            refs: AtomicU32::new(0),
            exit: Exit::done(),
            interrupt: Interrupt::new(),
            whereabouts: Whereabouts::new(),
            owner_hint: AtomicU16::new(0),
            priority: Level::new(),
            relay: Relay::new(),
            robust: Held::new(),
            id: AtomicU64::new(0),
            keeper,
            specific: Specific::new(),
            fixed: UnsafeCell::new(Fixed { backend, ambient: None, process: Generation::now() }),
            name: UnsafeCell::new(None),
        }
    }

    /// Starts a life with `refs` counted references.
    ///
    /// # Safety
    /// The caller has this core to itself: it is new, or was given to [`Keeper::recycle`] and not begun since.
    #[inline]
    pub(crate) unsafe fn begin(
        &self,
        refs: u32,
        backend: &'static dyn Backend,
        ambient: Option<&'static dyn Ambient>,
        name: Option<Box<str>>,
    ) {
        self.permit.reset();
        // Relaxed: the core is published by whatever passes its first reference on.
        self.refs.store(refs, Ordering::Relaxed);
        self.whereabouts.begin(ambient.map_or(0, |ambient| std::ptr::from_ref(ambient).addr()));
        self.exit.begin();
        self.interrupt.reset();
        self.priority.begin(Priority::Normal);
        self.specific.begin();
        self.robust.reset();
        self.id.store(0, Ordering::Relaxed);
        self.fixed.with_mut(|fixed| {
            // SAFETY: the caller has the core to itself.
            unsafe { *fixed = Fixed { backend, ambient, process: Generation::now() } };
        });
        if name.is_some() || self.name().is_some() {
            self.rename(name);
        }
    }

    #[inline]
    fn fixed(&self) -> &Fixed {
        // SAFETY: `begin` wrote it before this reference could exist, and nobody writes it while one does.
        self.fixed.with(|fixed| unsafe { &*fixed })
    }

    /// How this thread sleeps and wakes.
    #[inline]
    pub(crate) fn backend(&self) -> &'static dyn Backend {
        self.fixed().backend
    }

    /// Whether it owns a kernel thread: [`Backend::sleeps_in_kernel`], without a call.
    #[inline]
    pub(crate) fn is_kernel(&self) -> bool {
        // Relaxed: the bit that is asked for is constant in the life of a core.
        OwnerHint::from_bits(self.owner_hint.load(Ordering::Relaxed)).is_kernel()
    }

    /// What becomes of it when it has ended.
    pub(crate) fn keeper(&self) -> &'static dyn Keeper {
        self.keeper
    }

    /// The runtime it belongs to; `None` for a thread that no runtime started.
    #[inline]
    pub(crate) fn ambient(&self) -> Option<&'static dyn Ambient> {
        self.fixed().ambient
    }

    /// The name given at the start.
    pub(crate) fn name(&self) -> Option<&str> {
        // SAFETY: `begin` wrote it before this reference could exist; one who has none holds the lock that `begin` takes.
        self.name.with(|name| unsafe { &*name }).as_deref()
    }

    #[cold]
    fn rename(&self, name: Option<Box<str>>) {
        // SAFETY: the caller has the core to itself, and the lock keeps out those who look from outside.
        let swap = |place: *mut Option<Box<str>>| std::mem::replace(unsafe { &mut *place }, name);
        let last = whereabouts::with_names(|| self.name.with_mut(swap));
        drop(last);
    }

    /// An identity that no other thread of this process has had or will have; made when first asked for, so that
    /// spawning pays no read-modify-write for it.
    pub(crate) fn id(&self) -> NonZeroU64 {
        if let Some(id) = NonZeroU64::new(self.id.load(Ordering::Relaxed)) {
            return id;
        }
        let fresh = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Relaxed: the number is all there is to see.
        let id = match self.id.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(theirs) => theirs,
        };
        NonZeroU64::new(id).expect("ids start at 1")
    }

    /// Its id, or 0 if nobody has asked for it.
    pub(super) fn known_id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// The thread had this id, with another core; 0: it had none. By who has the core to himself.
    pub(super) fn go_on_with_id(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// In the child of a fork: the thread was `from` in the parent.
    pub(super) fn go_on_as(&self, from: &Self) {
        self.id.store(from.known_id(), Ordering::Relaxed);
        self.robust.inherit(&from.robust);
    }

    /// Whether it is a thread of a parent process: nobody runs it here, so it neither ends nor wakes.
    pub(crate) fn is_lost(&self) -> bool {
        !self.fixed().process.is_mine()
    }

    /// The thread called `fork`, and this is the child: it is here, and whoever joined or interrupted it is not.
    ///
    /// # Safety
    /// In the child of a fork, by its only thread, whose core this is.
    pub(super) unsafe fn survive_fork(&self) {
        self.fixed.with_mut(|fixed| {
            // SAFETY: there is no other thread, and the caller has no other reference into `fixed`.
            unsafe { (*fixed).process = Generation::now() };
        });
        self.exit.survive_fork();
        // SAFETY: the caller's promise.
        unsafe { self.interrupt.survive_fork() };
    }

    /// Whether somebody has interrupted it, and no wait of its has reported that yet.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    /// Whether the thread has ended, destructors included.
    pub(crate) fn is_done(&self) -> bool {
        self.exit.is_done()
    }
}

impl fmt::Debug for ThreadCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadCore")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

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

    /// One counted reference less; the last one recycles the core.
    #[inline]
    pub(crate) fn release(self) {
        if self.release_was_last() {
            self.0.keeper.recycle(self);
        }
    }

    /// [`release`](Self::release) for a caller who recycles the core himself: true if he must.
    #[inline]
    #[must_use]
    pub(crate) fn release_was_last(self) -> bool {
        // A count of 1 is the caller's own, and new ones are made from counted ones only: nobody can be racing, and no
        // read-modify-write is needed. The next `begin` sets the count.
        // Acquire and AcqRel: everything done through any reference happens before the core is used again.
        self.0.refs.load(Ordering::Acquire) == 1 || self.0.refs.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The core, for as long as the process lives.
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
#[path = "tests/loom_references.rs"]
mod loom_references;
