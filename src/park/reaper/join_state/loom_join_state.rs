//! Models of two threads that join one kernel thread: a future's waker and its poll. None goes on before the
//! kernel thread is gone. A negative model does not say that the right is in use.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::JoinState;
use crate::park::tests::loom_model::{body, model, together};
use crate::shim::atomic::{AtomicBool, Ordering};

struct Model {
    join_state: JoinState,
    gone: AtomicBool,
}

impl Model {
    /// Does what `joined` does in `reaper.rs`.
    fn join(&self, take: fn(&JoinState) -> Option<JoinHandle<()>>) {
        if let Some(kernel) = take(&self.join_state) {
            kernel.join().unwrap();
            self.gone.store(true, Ordering::Relaxed);
            self.join_state.joined();
        } else if self.join_state.is_being_joined() {
            // It looks again, until this is over.
            return;
        }
        assert!(self.gone.load(Ordering::Relaxed), "the kernel thread is still there");
    }
}

fn two_joins(take: fn(&JoinState) -> Option<JoinHandle<()>>) {
    model(move || {
        let this = Arc::new(Model { join_state: JoinState::new(), gone: AtomicBool::new(false) });
        // No thread of the model: it has no steps of its own.
        this.join_state.started(std::thread::spawn(|| ()));
        let joins = || body(&this, move |it: &Model| it.join(take));
        together([joins(), joins()]);
    });
}

#[test]
fn both_of_two_joins_wait_for_the_kernel_thread() {
    two_joins(JoinState::take_to_join);
}

#[test]
#[should_panic(expected = "the kernel thread is still there")]
fn negative_the_right_is_taken_without_a_word() {
    two_joins(JoinState::take);
}
