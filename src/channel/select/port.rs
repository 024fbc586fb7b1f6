//! The operations that can be selected: a send, a receive, a moment, the end of a thread.

use std::cell::Cell;
use std::sync::Arc;

use crate::channel::clock::Clock;
use crate::channel::core::{After, Channel, Locked, Step};
use crate::channel::handles::Handle;
use crate::channel::receiver::{Receiver, Source};
use crate::channel::side::Side;
use crate::channel::waiters::{Deal, Entry, Role};
use crate::park::exit::Watch;
use crate::park::no_preempt::NoPreempt;
use crate::park::sleeper::Sleeper;
use crate::park::thread::ThreadRef;
use crate::shim::UnsafeCell;
use crate::thread::{JoinHandle, ScopedJoinHandle};
use crate::time::Moment;

/// The entry of a thread that selects and waits, for one of its operations.
pub(in crate::channel) struct Seat {
    pub(in crate::channel) entry: Entry,
    /// For the end of a thread.
    watch: Option<Watch>,
    /// `true` if the thread that may end knows of the watch.
    entered: Cell<bool>,
}

impl Seat {
    /// Creates the seat of the operation of that number.
    pub(in crate::channel) fn new(
        sleeper: &Sleeper,
        number: u32,
        deal: &UnsafeCell<Deal>,
        thread: Option<ThreadRef>,
    ) -> Self {
        Self {
            entry: Entry::new(sleeper, Role::OneOf { number, deal }),
            watch: thread.map(|thread| Watch::new(thread, sleeper, number)),
            entered: Cell::new(false),
        }
    }
}

/// One operation that may be selected. An operation without a lock needs none for the functions that
/// require it.
pub(in crate::channel) trait Port {
    /// Returns the lock's address, by which locks are ordered; 0: there is none.
    fn lock(&self) -> usize {
        0
    }

    /// Takes the lock. `others`: the caller holds locks of lower addresses already.
    ///
    /// # Safety
    /// The caller gives it up, while `no_preempt` lasts.
    unsafe fn seize(&self, _no_preempt: &NoPreempt, _others: bool) {}

    /// Frees the lock.
    ///
    /// # Safety
    /// The caller holds it.
    unsafe fn give_up(&self) {}

    /// Returns the state of the operation: [`Deal::Open`] if it would wait, [`Deal::Ready`], or
    /// [`Deal::Disconnected`].
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn look(&self) -> Deal;

    /// Does the first step of the operation. A selected sender may win a receive; it then settles `mine`.
    ///
    /// # Safety
    /// The caller holds the lock. `mine` is in no list, and stays where it is until it is settled.
    unsafe fn begin(&self, _mine: &Entry, _after: &mut After) -> Result<Deal, Step> {
        Ok(Deal::Ready)
    }

    /// Makes the sleep known here. Returns `false` if the operation is ready. If the thread only
    /// `watches`, it is woken to begin by itself.
    ///
    /// # Safety
    /// The caller holds the lock. `mine` is in no list, and stays where it is until `unlink` has been
    /// called.
    unsafe fn link(&self, _mine: &Seat, _watches: bool, _after: &mut After) -> bool {
        true
    }

    /// Undoes `link`, if that did anything, and the seat has not been served. Takes the lock.
    fn unlink(&self, _mine: &Seat, _watches: bool) {}

    /// Brings what a [`Step`] of `begin` needs: only receives need something. Takes the lock.
    fn supply(&self, _step: Step) {}

    /// Gives back what `begin` got, or what the thread that settled the sleep has left. Takes the lock.
    fn give_back(&self, _deal: Deal) {}

    /// Returns the moment when the operation becomes ready by itself.
    fn deadline(&self) -> Option<Moment> {
        None
    }

    /// Returns the thread, if the operation is the end of one.
    fn thread(&self) -> Option<ThreadRef> {
        None
    }
}

impl<T, S: Side> Port for Handle<T, S> {
    fn lock(&self) -> usize {
        std::ptr::from_ref::<Channel<T>>(self).addr()
    }

    unsafe fn seize(&self, no_preempt: &NoPreempt, others: bool) {
        // SAFETY: the caller's promise.
        unsafe { Channel::seize(self, no_preempt, others) };
    }

    unsafe fn give_up(&self) {
        // SAFETY: the caller's promise.
        unsafe { Channel::give_up(self) };
    }

    unsafe fn look(&self) -> Deal {
        // SAFETY: the caller's promise.
        unsafe { self.seized(S::look) }
    }

    unsafe fn begin(&self, mine: &Entry, after: &mut After) -> Result<Deal, Step> {
        // SAFETY: the caller's promise.
        unsafe { self.seized(|state| S::begin(state, mine, after)) }
    }

    unsafe fn link(&self, mine: &Seat, watches: bool, after: &mut After) -> bool {
        let link = |state: &mut Locked<'_, T>| {
            if watches {
                // SAFETY: the caller's promise.
                unsafe { S::parties(state).0.watching.link(&mine.entry) };
            } else {
                // SAFETY: the caller's promise.
                unsafe { state.link::<S>(&mine.entry, after) };
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.seized(link) };
        true
    }

    fn unlink(&self, mine: &Seat, watches: bool) {
        self.with(|state| {
            let (party, _) = S::parties(state);
            let list = if watches { &mut party.watching } else { &mut party.waiting };
            list.unlink(&mine.entry);
        });
    }

    fn supply(&self, step: Step) {
        Channel::supply(self, step);
    }

    fn give_back(&self, deal: Deal) {
        let _done = self.attempt(|state, after| state.give_back(deal, after));
    }
}

impl<T> Receiver<T> {
    pub(super) fn port(&self) -> &dyn Port {
        match &self.source {
            Source::Channel(channel) => channel,
            Source::Clock(clock, _) => clock,
            Source::Never => &Never,
        }
    }
}

impl Port for Arc<Clock> {
    unsafe fn look(&self) -> Deal {
        if self.has_struck() { Deal::Ready } else { Deal::Open }
    }

    unsafe fn begin(&self, _mine: &Entry, _after: &mut After) -> Result<Deal, Step> {
        Ok(self.take().map_or(Deal::Open, Deal::Struck))
    }

    fn deadline(&self) -> Option<Moment> {
        self.next()
    }
}

/// What never happens.
struct Never;

impl Port for Never {
    unsafe fn look(&self) -> Deal {
        Deal::Open
    }
}

/// The end of a thread, by its handle, which is borrowed by the selecting thread alone; `None`: it never
/// comes.
#[derive(Debug)]
pub struct Ending(pub(in crate::channel) Option<ThreadRef>);

impl Port for Ending {
    unsafe fn look(&self) -> Deal {
        // In the child of a fork, the end of a parent's thread is ready: joining it is an error.
        let ended = self.0.is_some_and(|thread| thread.is_done() || thread.is_lost());
        if ended { Deal::Ready } else { Deal::Open }
    }

    unsafe fn link(&self, mine: &Seat, _watches: bool, _after: &mut After) -> bool {
        let Some(watch) = &mine.watch else { return true };
        // SAFETY: the caller's promise: `unlink` is called before the seat goes.
        let entered = unsafe { watch.enter() };
        mine.entered.set(entered);
        entered
    }

    fn unlink(&self, mine: &Seat, _watches: bool) {
        if let (Some(watch), true) = (&mine.watch, mine.entered.get()) {
            watch.leave();
        }
    }

    fn thread(&self) -> Option<ThreadRef> {
        self.0
    }
}

mod sealed {
    pub trait Sealed {
        fn ending(&self) -> super::Ending;
    }
}

/// Handles with which a `select!` can wait for the end of a thread: a [`JoinHandle`], a
/// [`ScopedJoinHandle`], or an `Option` of one. `None` is a thread that never ends.
///
/// An `Option` is for loops: `select!` takes the handle out of it when it joins, and the next round finds
/// `None`.
pub trait Join: sealed::Sealed {}

impl<T> sealed::Sealed for JoinHandle<T> {
    fn ending(&self) -> Ending {
        Ending(Some(self.thread().core()))
    }
}

impl<T> sealed::Sealed for ScopedJoinHandle<'_, T> {
    fn ending(&self) -> Ending {
        Ending(Some(self.thread().core()))
    }
}

impl<J: Join> sealed::Sealed for &mut J {
    fn ending(&self) -> Ending {
        (**self).ending()
    }
}

impl<J: Join> sealed::Sealed for Option<J> {
    fn ending(&self) -> Ending {
        self.as_ref().map_or(Ending(None), sealed::Sealed::ending)
    }
}

impl<T> Join for JoinHandle<T> {}
impl<T> Join for ScopedJoinHandle<'_, T> {}
impl<J: Join> Join for &mut J {}
impl<J: Join> Join for Option<J> {}
