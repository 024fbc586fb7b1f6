//! Doing something once: `Once`, and on top of it [`OnceLock`] and [`LazyLock`].
//!
//! **Problem.** Nearly every look finds that all is done, and should cost what a load costs. Before, one thread works and all
//! others wait; the one that works may fail, and it may need what it is just making.
//!
//! **Rejected.** A mutex beside a flag: a mutex that is never used again. Waiters chained through the word (std, before it used
//! futexes): the wait queue has the chain, with deadlines and interrupts. Four bytes without an owner (std, parking_lot): a
//! closure that needs its own result waits for itself for ever. Waiting awake while the closure runs: it may take any time.
//!
//! **Protocol.** One word: the state, whether anybody waits, and while the closure runs, the address of the core of the thread
//! that runs it.
//!
//! - *Run*: not begun, or failed and that does not matter -> running, by compare-and-swap. When the closure has returned or
//!   unwound, done or failed by a swap; if it finds `WAITERS`, all waiters are taken off the queue.
//! - *Wait*: with the bucket lock held, look again; if there is still something to wait for, set `WAITERS` and queue. Whoever
//!   is granted looks again: one who waits for the end of a closure is content with any end, one who waits for success
//!   only with that.
//!
//! **Proof.** No lost wake-up: `WAITERS` is set with the bucket lock held in a word that is not final, so whatever swaps that
//! word away sees the bit, and takes the lock after the waiter has been linked. That swap clears the bit, and those who wait
//! for another end set it again. A waiter that gives up leaves the bit: the queue is then looked at in vain, once. *Who runs is
//! known*: a thread cannot end, and its core not become another's, before its closure has returned (a forked child has another
//! core, and no thread to wait for: `park/fork.rs`).
//!
//! **Cost** in read-modify-writes: a look 0, the first call 2.

mod lazy;
mod lock;
mod wait;
mod word;

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use crate::park::current::current;
use crate::park::ledger;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::const_new;
use crate::time;
use word::{Phase, Seen, Word};

pub use lazy::LazyLock;
pub use lock::OnceLock;
use wait::Ended;

const ENDED: Token = Token(0);

/// Something that is done once, by whichever thread comes first, while the others wait: [`std::sync::Once`] for threads of any
/// kind.
///
/// # Examples
///
/// ```
/// use selvedge::sync::Once;
///
/// static SETUP: Once = Once::new();
///
/// SETUP.call_once(|| println!("only once"));
/// SETUP.call_once(|| unreachable!());
/// assert!(SETUP.is_completed());
/// ```
///
/// # Blocks
///
/// Who comes while another thread runs its closure, until that has ended. The closure may block as it likes, and a green thread may
/// migrate meanwhile.
pub struct Once {
    word: Word,
}

/// What [`Once::call_once_force`] tells its closure.
pub struct OnceState {
    poisoned: bool,
    then: Cell<Phase>,
}

impl OnceState {
    /// Whether an earlier closure has panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use std::panic;
    ///
    /// let once = Once::new();
    /// assert!(panic::catch_unwind(|| once.call_once(|| panic!("on purpose"))).is_err());
    /// once.call_once_force(|state| assert!(state.is_poisoned()));
    /// once.call_once(|| unreachable!());
    /// ```
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// The closure has failed without a panic.
    fn fail(&self) {
        self.then.set(Phase::Failed);
    }
}

impl Once {
    const_new! {
        /// Something that has not been done.
        #[must_use]
        pub const fn new() -> Self {
            Self { word: Word::new(Phase::Fresh) }
        }
    }

    const_new! {
        /// Something that is done.
        const fn completed() -> Self {
            Self { word: Word::new(Phase::Done) }
        }
    }

    #[inline]
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Calls `f`, if this is the first call. If another thread runs its closure just now, waits for that one's end. When this
    /// returns, a closure has returned, and what it did is visible.
    ///
    /// # Panics
    ///
    /// If `f` does: this `Once` is then *poisoned*. If it is poisoned. If the running thread is the one that runs the
    /// closure: it would wait for itself.
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if self.is_completed() {
            return;
        }
        self.call("Once", false, None, |_| f());
    }

    /// [`call_once`](Self::call_once) that does not mind poisoning: after a panic, the closure of the next such call is called, and
    /// told of it; if that returns, this is done.
    ///
    /// # Panics
    ///
    /// If `f` does: this `Once` is then poisoned. If the running thread is the one that runs the closure.
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[inline]
    #[track_caller]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if self.is_completed() {
            return;
        }
        self.call("Once", true, None, f);
    }

    /// [`call_once`](Self::call_once) that waits for another thread's closure at most for `timeout`: whether a closure has returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use std::time::Duration;
    ///
    /// let once = Once::new();
    /// let slow = once.call_once_for(|| assert!(!once.is_completed()), Duration::ZERO);
    /// assert!(slow, "nobody else runs one, and its own may take any time");
    /// ```
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn call_once_for<F: FnOnce()>(&self, f: F, timeout: Duration) -> bool {
        // The clock is asked only if it is not done.
        self.is_completed() || self.call("Once", false, time::after(timeout), |_| f())
    }

    /// [`call_once`](Self::call_once) that waits for another thread's closure at most until `deadline`: whether a closure has
    /// returned.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn call_once_until<F: FnOnce()>(&self, f: F, deadline: Instant) -> bool {
        self.is_completed() || self.call("Once", false, Some(deadline), |_| f())
    }

    /// Whether a closure has returned. What it did is visible then. `false` while one runs, and after a panic.
    #[inline]
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.word.is_done()
    }

    /// Runs `f`, at most once, if it falls to this thread; else waits for who runs another. Whether one has ended; `false`: the deadline
    /// came first. `what` this is, the panics say.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn call(&self, what: &str, force: bool, deadline: Option<Instant>, f: impl FnOnce(&OnceState)) -> bool {
        let seen = self.word.look();
        let turn = if seen.is_fresh()
            && let Some(mine) = self.begin(seen, current())
        {
            mine
        } else {
            self.turn(what, force, deadline)
        };
        match turn {
            Turn::Mine { poisoned, recorded } => {
                // Failed, if anything unwinds.
                let mut end = End { once: self, recorded, phase: Phase::Failed };
                let state = OnceState { poisoned, then: Cell::new(Phase::Done) };
                f(&state);
                end.phase = state.then.get();
                true
            }
            Turn::Over => true,
            Turn::Expired => false,
        }
    }

    /// Waits until the running thread is the one that runs its closure, or need not.
    #[track_caller]
    fn turn(&self, what: &str, force: bool, deadline: Option<Instant>) -> Turn {
        let me = current();
        loop {
            let seen = self.word.look();
            match seen.phase() {
                Phase::Done => return Turn::Over,
                Phase::Failed if !force => poisoned(what),
                Phase::Fresh | Phase::Failed => {
                    if let Some(mine) = self.begin(seen, me) {
                        return mine;
                    }
                }
                Phase::Runs if seen.is_run_by(me.place()) => recursive(what),
                Phase::Runs => {
                    let woken = self.queue(&options(deadline), |phase| phase == Phase::Runs);
                    if matches!(woken, Some(Woken::Expired { .. })) {
                        return Turn::Expired;
                    }
                }
            }
        }
    }

    /// The turn of the running thread `me`, if the word is still as `seen`: nobody's.
    #[inline]
    fn begin(&self, seen: Seen, me: ThreadRef) -> Option<Turn> {
        // Before the read-modify-write: what is loaded after it waits for it, and the next one for that.
        let recorded = ledger::is_on();
        if !self.word.try_run(seen, me.place()) {
            return None;
        }
        if recorded {
            ledger::waits_for(self.key(), me);
        }
        Some(Turn::Mine { poisoned: seen.phase() == Phase::Failed, recorded })
    }

    /// Sleeps until a closure ends, if `waits` says so of the phase; `None`: it does not.
    #[inline(never)]
    fn queue(&self, options: &Options, waits: impl Fn(Phase) -> bool) -> Option<Woken> {
        wait_queue::wait(self.key(), options, || self.word.announce(waits), || ()).ok()
    }
}

/// A wait without interrupts.
fn options(deadline: Option<Instant>) -> Options {
    Options::new(WaitReason::Once, deadline)
}

/// What becomes of a call.
enum Turn {
    /// The word says that the running thread runs its closure: an [`End`] is due.
    Mine { poisoned: bool, recorded: bool },
    /// A closure has returned.
    Over,
    /// The deadline came first.
    Expired,
}

/// The end of a closure, whether it returns or unwinds.
struct End<'a> {
    once: &'a Once,
    /// It is written down that the running thread runs it.
    recorded: bool,
    phase: Phase,
}

impl Drop for End<'_> {
    #[inline]
    fn drop(&mut self) {
        let key = self.once.key();
        if self.recorded {
            ledger::leaves(key);
        }
        if self.once.word.end(self.phase) {
            wake_all(key);
        }
    }
}

/// A closure has ended that others have waited for. (By the key only: whoever sees the end may drop the rest.)
#[cold]
fn wake_all(key: usize) {
    if let Some(all) = wait_queue::grant_all(key, ENDED, || true) {
        all.wake_all();
    }
}

#[cold]
#[track_caller]
fn poisoned(what: &str) -> ! {
    panic!("{what} instance has previously been poisoned");
}

#[cold]
#[track_caller]
fn recursive(what: &str) -> ! {
    panic!("recursive initialization: the closure of this {what} waits for its own end");
}

impl Default for Once {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once { .. }")
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.poisoned).finish()
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_once.rs"]
mod loom_once;
