//! The operations that can be selected: a send, a receive, a moment, the end of a thread.

use std::cell::Cell;
use std::time::Instant;

use crate::channel::core::{After, Channel, Locked, Step};
use crate::channel::receiver::{Receiver, Source};
use crate::channel::sender::Sender;
use crate::channel::waiters::{Deal, Entry, Role};
use crate::park::exit::Watch;
use crate::park::no_preempt::NoPreempt;
use crate::park::sleeper::Sleeper;
use crate::park::thread::ThreadRef;
use crate::shim::UnsafeCell;

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
    unsafe fn begin(&self, mine: &Entry, after: &mut After) -> Result<Deal, Step>;

    /// Makes the sleep known here. Returns `false` if the operation is ready. If the thread only
    /// `watches`, it is woken to begin by itself.
    ///
    /// # Safety
    /// The caller holds the lock. `mine` is in no list, and stays where it is until `unlink` has been
    /// called.
    unsafe fn link(&self, mine: &Seat, watches: bool, after: &mut After) -> bool;

    /// Undoes `link`, if that did anything, and the seat has not been served. Takes the lock.
    fn unlink(&self, mine: &Seat, watches: bool);

    /// Brings what a [`Step`] of `begin` needs: only receives need something. Takes the lock.
    fn supply(&self, _step: Step) {}

    /// Gives back what `begin` got, or what the thread that settled the sleep has left. Takes the lock.
    fn give_back(&self, _deal: Deal) {}

    /// Returns the moment when the operation becomes ready by itself.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns the thread, if the operation is the end of one.
    fn thread(&self) -> Option<ThreadRef> {
        None
    }
}

impl<T> Port for Sender<T> {
    fn lock(&self) -> usize {
        address(&self.channel)
    }

    unsafe fn seize(&self, no_preempt: &NoPreempt, others: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.channel.seize(no_preempt, others) };
    }

    unsafe fn give_up(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.channel.give_up() };
    }

    unsafe fn look(&self) -> Deal {
        // SAFETY: the caller's promise.
        unsafe { self.channel.seized(|state| state.look_at_send()) }
    }

    unsafe fn begin(&self, _mine: &Entry, _after: &mut After) -> Result<Deal, Step> {
        // SAFETY: the caller's promise.
        Ok(unsafe { self.channel.seized(|state| state.begin_send()) })
    }

    unsafe fn link(&self, mine: &Seat, watches: bool, after: &mut After) -> bool {
        let link = |state: &mut Locked<'_, T>| {
            if watches {
                // SAFETY: the caller's promise.
                unsafe { state.send_watchers.link(&mine.entry) };
            } else {
                // SAFETY: the caller's promise.
                unsafe { state.senders.link(&mine.entry) };
                after.tell(&mut state.receive_watchers);
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.channel.seized(link) };
        true
    }

    fn unlink(&self, mine: &Seat, watches: bool) {
        self.channel.with(|state| {
            let list = if watches { &mut state.send_watchers } else { &mut state.senders };
            list.unlink(&mine.entry);
        });
    }

    fn give_back(&self, deal: Deal) {
        give_back(&self.channel, deal);
    }
}

impl<T> Port for Receiver<T> {
    fn lock(&self) -> usize {
        match &self.source {
            Source::Channel(channel) => address(channel),
            _ => 0,
        }
    }

    unsafe fn seize(&self, no_preempt: &NoPreempt, others: bool) {
        if let Source::Channel(channel) = &self.source {
            // SAFETY: the caller's promise.
            unsafe { channel.seize(no_preempt, others) };
        }
    }

    unsafe fn give_up(&self) {
        if let Source::Channel(channel) = &self.source {
            // SAFETY: the caller's promise.
            unsafe { channel.give_up() };
        }
    }

    unsafe fn look(&self) -> Deal {
        match &self.source {
            // SAFETY: the caller's promise.
            Source::Channel(channel) => unsafe { channel.seized(|state| state.look_at_receive()) },
            Source::Clock(clock, _) if clock.has_struck() => Deal::Ready,
            _ => Deal::Open,
        }
    }

    unsafe fn begin(&self, mine: &Entry, after: &mut After) -> Result<Deal, Step> {
        match &self.source {
            // SAFETY: the caller's promise.
            Source::Channel(channel) => unsafe { channel.seized(|state| state.begin_receive(mine, after)) },
            Source::Clock(clock, _) => Ok(clock.take().map_or(Deal::Open, Deal::Struck)),
            Source::Never => Ok(Deal::Open),
        }
    }

    unsafe fn link(&self, mine: &Seat, watches: bool, after: &mut After) -> bool {
        let Source::Channel(channel) = &self.source else { return true };
        let link = |state: &mut Locked<'_, T>| {
            if watches {
                // SAFETY: the caller's promise.
                unsafe { state.receive_watchers.link(&mine.entry) };
            } else {
                // SAFETY: the caller's promise.
                unsafe { state.receivers.link(&mine.entry) };
                after.tell(&mut state.send_watchers);
            }
        };
        // SAFETY: the caller's promise.
        unsafe { channel.seized(link) };
        true
    }

    fn unlink(&self, mine: &Seat, watches: bool) {
        let Source::Channel(channel) = &self.source else { return };
        channel.with(|state| {
            let list = if watches { &mut state.receive_watchers } else { &mut state.receivers };
            list.unlink(&mine.entry);
        });
    }

    fn supply(&self, step: Step) {
        if let Source::Channel(channel) = &self.source {
            channel.supply(step);
        }
    }

    fn give_back(&self, deal: Deal) {
        if let Source::Channel(channel) = &self.source {
            give_back(channel, deal);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.source {
            Source::Clock(clock, _) => clock.next(),
            _ => None,
        }
    }
}

fn address<T>(channel: &Channel<T>) -> usize {
    std::ptr::from_ref(channel).addr()
}

fn give_back<T>(channel: &Channel<T>, deal: Deal) {
    loop {
        let mut after = After::nothing();
        let step = channel.with(|state| state.give_back(deal, &mut after));
        after.finish();
        match step {
            Step::Done => return,
            step => channel.supply(step),
        }
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

    unsafe fn begin(&self, _mine: &Entry, _after: &mut After) -> Result<Deal, Step> {
        Ok(Deal::Ready)
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
