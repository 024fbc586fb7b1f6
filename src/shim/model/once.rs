//! What `Once` is made of: its phase, under a lock of loom's.

use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind, resume_unwind};

use loom::thread::{self, ThreadId};

use super::{Expiries, Lazy, also_unwinding};
use crate::park::wait::{Wait, WaitError};

/// How far the initialization is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Fresh,
    Failed,
    Runs,
    Done,
}

/// What a `Once` is made of in a model.
pub(crate) struct Protocol {
    initially: Phase,
    state: Lazy<OnceProgress>,
    expiries: Expiries,
}

// As for the real one.
impl RefUnwindSafe for Protocol {}

struct OnceProgress {
    progress: loom::sync::Mutex<Progress>,
    ended: loom::sync::Condvar,
}

struct Progress {
    phase: Phase,
    /// The thread that runs the closure.
    runner: Option<ThreadId>,
    waiting: usize,
}

type Held<'a> = loom::sync::MutexGuard<'a, Progress>;

impl OnceProgress {
    fn lock(&self) -> Held<'_> {
        self.progress.lock().expect("no poison")
    }

    fn end(&self, phase: Phase) {
        let mut progress = self.lock();
        (progress.phase, progress.runner) = (phase, None);
        let waiting = progress.waiting;
        drop(progress);
        if waiting > 0 {
            self.ended.notify_all();
        }
    }
}

impl Protocol {
    pub(crate) const fn new(phase: Phase) -> Self {
        Self { initially: phase, state: Lazy::new(), expiries: Expiries::new() }
    }

    fn state(&self) -> &OnceProgress {
        self.state.get(|| OnceProgress {
            progress: loom::sync::Mutex::new(Progress { phase: self.initially, runner: None, waiting: 0 }),
            ended: loom::sync::Condvar::new(),
        })
    }

    pub(crate) fn phase(&self) -> Phase {
        // The values of a failed model are dropped, too. None of them is examined.
        also_unwinding(|| self.state().lock().phase).unwrap_or(Phase::Runs)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.phase() == Phase::Done
    }

    #[track_caller]
    pub(crate) fn call(
        &self,
        what: &str,
        force: bool,
        wait: Wait,
        f: impl FnOnce(bool) -> Phase,
    ) -> Result<(), WaitError> {
        let mut progress = self.wait_while(what, force, wait, |phase| phase == Phase::Runs)?;
        if progress.phase == Phase::Done {
            return Ok(());
        }
        let has_failed = progress.phase == Phase::Failed;
        (progress.phase, progress.runner) = (Phase::Runs, Some(thread::current().id()));
        drop(progress);
        match catch_unwind(AssertUnwindSafe(|| f(has_failed))) {
            Ok(phase) => self.state().end(phase),
            Err(panic) => {
                // The model may have failed. Then nothing of loom's can be used.
                let _ = catch_unwind(AssertUnwindSafe(|| self.state().end(Phase::Failed)));
                resume_unwind(panic);
            }
        }
        Ok(())
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str, force: bool, wait: Wait) -> Result<(), WaitError> {
        self.wait_while(what, force, wait, |phase| phase != Phase::Done).map(drop)
    }

    /// Waits. With a deadline, the wait may be over at once, and fails.
    #[track_caller]
    fn wait_while(
        &self,
        what: &str,
        force: bool,
        wait: Wait,
        waits: impl Fn(Phase) -> bool,
    ) -> Result<Held<'_>, WaitError> {
        let state = self.state();
        let mut progress = state.lock();
        let mut looked = false;
        loop {
            if progress.phase == Phase::Failed && !force {
                drop(progress);
                panic!("{what} instance has previously been poisoned");
            }
            if !waits(progress.phase) {
                return Ok(progress);
            }
            if progress.runner == Some(thread::current().id()) {
                drop(progress);
                panic!("reentrant init: the closure of this {what} waits for its own end");
            }
            if wait.deadline.is_none() {
                progress.waiting += 1;
                progress = state.ended.wait(progress).expect("no poison");
                progress.waiting -= 1;
                continue;
            }
            drop(progress);
            if looked {
                self.expiries.one_more();
                return Err(WaitError::TimedOut);
            }
            looked = true;
            progress = state.lock();
        }
    }
}
