//! Sending and receiving by async tasks.
//!
//! **Problem.** A task takes its turn among threads that wait. What is given to it must not be lost if its
//! future is dropped before the next poll. No entry of a dropped future may stay in a list. A task may be
//! polled by another thread each time, with another waker, while it is being served.
//!
//! **Rejected.**
//!
//! - To tell a task only that it may try again. Threads that came later would be served before it. A future
//!   that is dropped would have to find another task to tell.
//! - To put a message that was given to a dropped future behind the others. A task that receives in a loop,
//!   each time with a deadline, would get its messages in another order.
//!
//! **Protocol.** A task waits by the same entry as a thread (`waiters.rs`), in counted memory of its own,
//! with its message (`park/task_sleep.rs`). The list has one share of it, and the party that wins the entry
//! gets that share. The waker lies under a lock, with the state of the future:
//!
//! | state | meaning | left by |
//! |---|---|---|
//! | `Waits` | the future waits, with this waker | a poll: another one; the winner: `Told`; a drop: `Left` |
//! | `Told` | the winner has taken the waker | none |
//! | `Left` | the future was dropped before the sleep was settled | the winner: `Told`, and it cleans up |
//!
//! The winner settles the sleep, and then takes what the state has. A poll looks if the sleep is settled,
//! then leaves its waker, and looks again. A future that is dropped takes its entry out of the list. If it is
//! out already, the party that comes second cleans up: the drop if the sleep is settled, otherwise the
//! winner.
//!
//! To clean up is to return the message that a receiver got, or to drop the one that a sender has kept. A
//! returned message goes to the next receiver that waits, or else comes before all others in the channel
//! (`staging.rs`). While there is one, the receivers' end is shut.
//!
//! The winner may be a select that gives up ([`AGAIN`]). Messages that are not `Send` may belong to another
//! thread, because a `Select` is `Send` whatever the messages are. So the winner drops none
//! ([`leave_messages`](Handle::leave_messages)), nor do the senders drop theirs whose waits it ends
//! ([`ABANDONED`]). All other winners have a sender or receiver, and may.
//!
//! **Proof.** *No wake-up is lost*: of a poll and the winner, one comes first at the lock. If the winner
//! does, it has settled the sleep before, and the poll's second look finds that. Otherwise the winner takes
//! the poll's waker. *One party cleans up*: the drop looks at the sleep with the lock held, and says `Left`
//! only if it is not settled. The winner settles it before it takes the lock.
//!
//! **Cost**: a task that need not wait pays what a thread pays. One that waits allocates once.

use std::cell::OnceCell;
use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::core::{ABANDONED, AGAIN, After, SERVED, Step};
use super::handles::Handle;
use super::head_tail::Passed;
use super::side::{Receives, Sends, Side};
use super::waiters::Entry;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::task_sleep::TaskSleep;
use crate::shim::UnsafeCell;

/// A task that waits at a channel. `repr(C)`, with the sleep first.
#[repr(C)]
struct Waiter<T, S: Side> {
    sleep: TaskSleep,
    state: QueueLock<State<T, S>>,
    /// Made when the waiter has its place.
    entry: OnceCell<Entry>,
    /// The message.
    frame: UnsafeCell<MaybeUninit<T>>,
}

/// See the header.
enum State<T, S: Side> {
    Waits(Waker),
    Told,
    Left(Handle<T, S>),
}

// SAFETY: the entry is made before the waiter is shared, and used with the channel's lock held. The frame
// belongs to the future; to the winner until the sleep is settled; then to the party that cleans up.
unsafe impl<T: Send, S: Side> Sync for Waiter<T, S> {}
// SAFETY: nothing in it belongs to the thread that created it.
unsafe impl<T: Send, S: Side> Send for Waiter<T, S> {}

impl<T, S: Side> Waiter<T, S> {
    fn new(frame: MaybeUninit<T>, waker: Waker) -> Arc<Self> {
        let this = Arc::new(Self {
            sleep: TaskSleep::new(told::<T, S>),
            state: QueueLock::new(Rank::Pool, State::Told),
            entry: OnceCell::new(),
            frame: UnsafeCell::new(frame),
        });
        this.state.with(|state| *state = State::Waits(waker));
        TaskSleep::expose(Arc::as_ptr(&this).cast());
        this.entry.get_or_init(|| Entry::alone(this.sleep.sleeper(), &this.frame));
        this
    }

    fn entry(&self) -> &Entry {
        self.entry.get().expect("it is made with the waiter")
    }

    fn at(&self) -> *mut T {
        self.frame.with_mut(|frame| frame.cast())
    }

    /// Moves out what is in the frame.
    ///
    /// # Safety
    /// The frame is the caller's.
    unsafe fn frame(&self) -> MaybeUninit<T> {
        // SAFETY: the caller's promise.
        self.frame.with(|frame| unsafe { frame.read() })
    }

    /// Returns the winner's code. If there is none yet, the winner will call `waker`.
    fn poll(&self, waker: &Waker) -> Option<u32> {
        let settled = || self.sleep.sleeper().settled();
        if let Some(code) = settled() {
            return Some(code);
        }
        let is_there = |state: &mut State<T, S>| matches!(state, State::Waits(old) if old.will_wake(waker));
        if self.state.with(is_there) {
            return None;
        }
        let new = State::Waits(waker.clone());
        // The old waker is dropped without the lock.
        let _old = self.state.with(|state| match state {
            State::Waits(_) => mem::replace(state, new),
            _ => new,
        });
        settled()
    }

    /// Disposes of what a future that was dropped would have had. If the caller `drops` no messages, the last
    /// sender drops one that was not sent.
    ///
    /// # Safety
    /// The sleep is settled, and the frame is the caller's.
    unsafe fn clean_up(&self, handle: &Handle<T, S>, drops: bool) {
        let served = self.sleep.sleeper().settled() == Some(SERVED);
        // SAFETY: the caller's promise.
        let frame = unsafe { self.frame() };
        // A message that was received, or one that was not sent.
        if (S::INDEX == Receives::INDEX) != served {
            return;
        }
        if !served && drops {
            // SAFETY: its message was not sent.
            drop(unsafe { frame.assume_init() });
            return;
        }
        let message = frame.as_ptr();
        // SAFETY: there is a message, as just seen. It is not used again.
        let _done = handle.attempt(|state, after| unsafe { state.give_back_message(message, after) });
    }
}

/// Wakes the task that is waiting here, or cleans up after it.
///
/// # Safety
/// `sleep` is that of a waiter of these types. The caller has won and settled it, and gives up its share.
unsafe fn told<T, S: Side>(sleep: *const TaskSleep) {
    // SAFETY: the share of the list, which the winner has got.
    let waiter = unsafe { Arc::from_raw(sleep.cast::<Waiter<T, S>>()) };
    let state = waiter.state.with(|state| mem::replace(state, State::Told));
    match state {
        State::Waits(waker) => {
            drop(waiter);
            waker.wake();
        }
        State::Left(handle) => {
            let code = waiter.sleep.sleeper().settled();
            // SAFETY: settled by the caller, and the future is gone.
            unsafe { waiter.clean_up(&handle, code != Some(ABANDONED)) };
            if code == Some(AGAIN) {
                handle.leave_messages();
            }
        }
        State::Told => {}
    }
}

/// One operation of a task, from its first poll to its end.
pub(super) struct Operation<'a, T, S: Side> {
    handle: &'a Handle<T, S>,
    waiter: Option<Arc<Waiter<T, S>>>,
}

/// A frame with a message that was received or not sent, and `true` if the operation was done.
type Outcome<T> = (MaybeUninit<T>, bool);

impl<'a, T, S: Side> Operation<'a, T, S> {
    pub(super) fn new(handle: &'a Handle<T, S>) -> Self {
        Self { handle, waiter: None }
    }

    /// Goes on with the operation. `first` is its frame, at the first poll. If the operation waits, the frame
    /// is in its keeping.
    ///
    /// # Safety
    /// A send: there is a message in the frame.
    pub(super) unsafe fn poll(
        &mut self,
        context: &Context<'_>,
        first: Option<MaybeUninit<T>>,
    ) -> Poll<Outcome<T>> {
        let mut again = None;
        if let Some(waiter) = &self.waiter {
            let Some(code) = waiter.poll(context.waker()) else { return Poll::Pending };
            // SAFETY: settled, and the future is here.
            let frame = unsafe { waiter.frame() };
            self.waiter = None;
            if code != AGAIN {
                return Poll::Ready((frame, code == SERVED));
            }
            again = Some(frame);
        }
        let mut frame = again.or(first).expect("polled after it was ready");
        let at = frame.as_mut_ptr();
        // SAFETY: the caller's promise.
        if unsafe { self.handle.pass::<S>(at) } == Passed::Yes {
            return Poll::Ready((frame, true));
        }
        // SAFETY: the caller's promise.
        match self.handle.attempt(|state, after| unsafe { S::step(state, at, None, after) }) {
            Step::Done => return Poll::Ready((frame, true)),
            Step::Disconnected => return Poll::Ready((frame, false)),
            _ => {}
        }
        let waker = match catch_unwind(AssertUnwindSafe(|| context.waker().clone())) {
            Ok(waker) => waker,
            Err(payload) => {
                if S::INDEX == Sends::INDEX {
                    // SAFETY: its message was not sent.
                    drop(unsafe { frame.assume_init() });
                }
                resume_unwind(payload);
            }
        };
        let waiter = Waiter::<T, S>::new(frame, waker);
        loop {
            let mut after = After::nothing();
            let step = self.handle.with(|state| {
                // SAFETY: the caller's promise.
                let step = unsafe { S::step(state, waiter.at(), Some(waiter.entry()), &mut after) };
                if step == Step::Waits {
                    // SAFETY: in no list; the share of the list keeps it where it is.
                    unsafe { state.link::<S>(waiter.entry(), &mut after) };
                }
                if matches!(step, Step::Waits | Step::Won) {
                    // The share of the list, or of the selected sender that has won the entry.
                    mem::forget(Arc::clone(&waiter));
                }
                step
            });
            after.finish();
            match step {
                Step::Waits | Step::Won => {
                    self.waiter = Some(waiter);
                    return Poll::Pending;
                }
                // SAFETY: no other party knows the waiter.
                Step::Done | Step::Disconnected => unsafe {
                    return Poll::Ready((waiter.frame(), step == Step::Done));
                },
                step => self.handle.supply(step),
            }
        }
    }
}

impl<T, S: Side> Drop for Operation<'_, T, S> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if self.handle.with(|state| S::parties(state).0.waiting.unlink(waiter.entry())) {
            // SAFETY: the share of the list, in which the entry is no more.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(&waiter)) });
            if S::INDEX != Receives::INDEX {
                // SAFETY: no other party knows the waiter.
                let frame = unsafe { waiter.frame() };
                // SAFETY: its message was not sent.
                drop(unsafe { frame.assume_init() });
            }
            return;
        }
        let left = State::Left(self.handle.clone());
        let settled = || waiter.sleep.sleeper().settled().is_some();
        // What is not needed is dropped without the lock.
        let (_unused, mine) = waiter.state.with(|state| match settled() {
            true => (left, true),
            false => (mem::replace(state, left), false),
        });
        if mine {
            // SAFETY: settled, and the future is here.
            unsafe { waiter.clean_up(self.handle, true) };
        }
    }
}

#[cfg(all(test, loom))]
mod loom_async;

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::channel::core::DISCONNECTED;
    use crate::channel::receiver::Source;
    use crate::channel::rendezvous;
    use crate::park::sleeper::Sleeper;

    /// The future was dropped when its sleep was won and not settled. So the winner drops the message, and
    /// has other threads to wake.
    #[test]
    fn a_message_that_panics_does_not_reach_the_winner() {
        /// What the panic leaves panics, too.
        struct Payload;
        impl Drop for Payload {
            fn drop(&mut self) {
                panic!("as the test wants");
            }
        }
        struct Message {
            _counted: Arc<()>,
        }
        impl Drop for Message {
            fn drop(&mut self) {
                std::panic::panic_any(Payload);
            }
        }
        let (s, _r) = rendezvous();
        let dropped = Arc::new(());
        let message = MaybeUninit::new(Message { _counted: Arc::clone(&dropped) });
        let waiter = Waiter::<_, Sends>::new(message, Waker::noop().clone());
        waiter.state.with(|state| mem::replace(state, State::Left(s.channel.clone())));
        let sleeper = ptr::from_ref(waiter.sleep.sleeper());
        // The share of the winner.
        mem::forget(Arc::clone(&waiter));
        // SAFETY: in no list, so it is won, and this settles it once.
        unsafe { Sleeper::settle(sleeper, DISCONNECTED) }.wake();
        assert_eq!((Arc::strong_count(&dropped), Arc::strong_count(&waiter)), (1, 1));
    }

    /// A select has given up the last receiver, so the sender's wait ends. The select may not hold its
    /// message, which waits for the last sender.
    #[test]
    fn a_message_that_is_left_waits_for_the_last_sender() {
        let (s, r) = rendezvous();
        let dropped = Arc::new(());
        let waiter = Waiter::<_, Sends>::new(MaybeUninit::new(Arc::clone(&dropped)), Waker::noop().clone());
        s.channel.with(|state| {
            // The share of the list.
            mem::forget(Arc::clone(&waiter));
            // SAFETY: in no list; the share of the list keeps it where it is.
            unsafe { state.link::<Sends>(waiter.entry(), &mut After::nothing()) };
        });
        // The future is dropped when its sleep is won and not settled.
        waiter.state.with(|state| mem::replace(state, State::Left(s.channel.clone())));
        let Source::Channel(receives) = r.source else { unreachable!("it is a channel") };
        receives.leave_messages();
        assert_eq!((Arc::strong_count(&dropped), Arc::strong_count(&waiter)), (2, 1));
        drop(s);
        assert_eq!(Arc::strong_count(&dropped), 1);
    }
}
