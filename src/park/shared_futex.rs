//! Sleeping on a word that several processes map.
//!
//! The wait queue belongs to one process, so only the kernel can queue threads of several processes. The
//! thread waits on the word itself, a futex that is found by what is mapped there. That blocks the kernel
//! thread, and an LWP with it. So the wait is announced, and the slot goes to another LWP meanwhile.
//!
//! Without a futex, a wake reaches threads of the same process only ([`ACROSS_PROCESSES`]). Then each wait
//! needs a deadline, after which the waiter looks at its word.

use std::time::Instant;

use super::current::current;
use super::spin::{GREEN_LOOKS, Spin};
use crate::shim::atomic::AtomicU32;
use crate::shim::futex;
pub(crate) use crate::shim::futex::{ACROSS_PROCESSES, Waited};

/// How often a green thread lets others of its LWP run before it blocks the LWP. The thread that it waits
/// for is often among them. A yield costs a thousandth of releasing the slot.
const YIELDS: u32 = 8;

/// Waits a little for `done`, without the kernel. Returns `false` if it did not come.
pub(crate) fn wait_awake(mut done: impl FnMut() -> bool) -> bool {
    let me = current();
    if me.is_kernel() {
        let mut spin = Spin::new(GREEN_LOOKS);
        while spin.pause() {
            if done() {
                return true;
            }
        }
        return false;
    }
    (0..YIELDS).any(|_| {
        me.backend().yield_now(&me);
        done()
    })
}

/// Sleeps while `word` holds `expected`, at most until `deadline`. A return may be spurious. Blocks the LWP.
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> Waited {
    let me = current();
    me.backend().enter_blocking(&me);
    let waited = futex::wait_shared(word, expected, deadline);
    me.backend().exit_blocking(&me);
    waited
}

/// Wakes up to `n` threads, of any process, that sleep on the word.
pub(crate) fn wake(word: &AtomicU32, n: u32) {
    futex::wake_shared(word, n);
}
