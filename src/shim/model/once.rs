//! What `Once` is made of: its phase, and the thread that runs the closure.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::thread::{self, ThreadId};

use super::{Monitor, also_unwinding};
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
pub(crate) struct Protocol(Monitor<Progress>);

#[derive(Clone)]
struct Progress {
    phase: Phase,
    /// The thread that runs the closure.
    runner: Option<ThreadId>,
}

impl Protocol {
    pub(crate) const fn new(phase: Phase) -> Self {
        Self(Monitor::new(Progress { phase, runner: None }))
    }

    pub(crate) fn phase(&self) -> Phase {
        // The values of a failed model are dropped, too. None of them is examined.
        also_unwinding(|| self.0.with(|progress| progress.phase)).unwrap_or(Phase::Runs)
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
        let begin = |progress: &mut Progress| {
            let has_begun = matches!(progress.phase, Phase::Fresh | Phase::Failed);
            if has_begun {
                *progress = Progress { phase: Phase::Runs, runner: Some(thread::current().id()) };
            }
            has_begun
        };
        let found = self.wait_for(what, force, wait, begin)?;
        if found == Phase::Done {
            return Ok(());
        }
        let end = |phase| self.0.change(|progress| *progress = Progress { phase, runner: None });
        match catch_unwind(AssertUnwindSafe(|| f(found == Phase::Failed))) {
            Ok(phase) => end(phase),
            Err(panic) => {
                // The model may have failed. Then nothing of loom's can be used.
                let _ = catch_unwind(AssertUnwindSafe(|| end(Phase::Failed)));
                resume_unwind(panic);
            }
        }
        Ok(())
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str, force: bool, wait: Wait) -> Result<(), WaitError> {
        self.wait_for(what, force, wait, |_| false).map(drop)
    }

    /// Waits until this is done, or `begin` returns `true`. Returns the phase before. Panics if that can
    /// never be.
    #[track_caller]
    fn wait_for(
        &self,
        what: &str,
        force: bool,
        wait: Wait,
        begin: impl Fn(&mut Progress) -> bool,
    ) -> Result<Phase, WaitError> {
        let me = Some(thread::current().id());
        let attempt = |progress: &mut Progress| {
            let found = progress.phase;
            let is_hopeless = found == Phase::Failed && !force || progress.runner == me;
            (is_hopeless || found == Phase::Done || begin(progress)).then_some((found, is_hopeless))
        };
        match self.0.wait(wait, attempt, |_| ())? {
            (Phase::Runs, true) => panic!("reentrant init: the closure of this {what} waits for its own end"),
            (_, true) => panic!("{what} instance has previously been poisoned"),
            (found, false) => Ok(found),
        }
    }
}
