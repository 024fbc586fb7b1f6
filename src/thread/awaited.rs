//! What wakes the futures that wait for the ends of threads.
//!
//! When an awaited thread has ended, a new thread of its runtime calls the waker: the ended one has no
//! thread-locals any more. Why it is a new thread stands in `park/exit.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::spawning::spawn_detached;
use crate::park::backend::Spawner;
use crate::park::exit::Awaiter;

/// Wakes a future when it is dropped. If no thread can be started, it is dropped in the thread that has
/// ended: late, but not never.
struct Wakes(Arc<Awaiter>);

impl Drop for Wakes {
    fn drop(&mut self) {
        // The panic has been reported by its hook. There is no code that could handle it.
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.wake()));
    }
}

/// Has a new thread of the runtime wake what awaits the thread that calls, which has ended.
#[cold]
pub(crate) fn hand_over(spawner: &dyn Spawner, awaiter: Arc<Awaiter>) {
    let wakes = Wakes(awaiter);
    let _ = spawn_detached(spawner, move || {
        let ended = wakes.0.thread();
        if ended.is_kernel() {
            // So that the future need not wait for it.
            ended.pool().joined(ended);
        }
        drop(wakes);
    });
}
