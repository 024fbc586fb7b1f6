//! When is an LWP stuck? All policy of the monitor, as one pure function with a table of cases.
//!
//! The monitor never looks inside a thread: it compares two samples. An LWP whose dispatch tick has not moved since the last
//! round is a suspect only if somebody waits for a slot; of suspects, and of them only, it asks the kernel.

use crate::sys::task_state::TaskState;

/// What the monitor saw of one LWP in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) tick: u32,
    /// It has a slot.
    pub(crate) holds_slot: bool,
    /// It announced that it may block.
    pub(crate) announced: bool,
    /// It sleeps idle, on its own bed.
    pub(crate) idle: bool,
}

/// What is to be done about an LWP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Healthy,
    /// It has not dispatched while others wait: ask the kernel, and judge again.
    Suspect,
    /// It sleeps in the kernel, having said so: its slot may be retaken.
    BlockedAnnounced,
    /// It sleeps in the kernel: a spare LWP gets its slot.
    Blocked,
}

/// Judges one LWP. `waiting`: a thread waits that no idle LWP is about to take. `kernel`: its state, where it was asked.
pub(crate) fn judge(before: &Sample, now: &Sample, waiting: bool, kernel: Option<TaskState>) -> Verdict {
    if !waiting || now.idle || !(now.holds_slot || now.announced) {
        return Verdict::Healthy;
    }
    if now.announced {
        return Verdict::BlockedAnnounced;
    }
    if !before.holds_slot || before.tick != now.tick || before.idle {
        return Verdict::Healthy;
    }
    match kernel {
        None => Verdict::Suspect,
        Some(TaskState::Sleeping | TaskState::DiskSleep) => Verdict::Blocked,
        Some(_) => Verdict::Healthy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Sample = Sample { tick: 7, holds_slot: true, announced: false, idle: false };

    #[test]
    fn cases() {
        let moved = Sample { tick: 8, ..RUNS };
        let idle = Sample { idle: true, ..RUNS };
        let announced = Sample { holds_slot: false, announced: true, ..RUNS };
        let spare = Sample { holds_slot: false, ..RUNS };
        let table = [
            ("nobody waits", RUNS, RUNS, false, Some(TaskState::Sleeping), Verdict::Healthy),
            ("it dispatches", RUNS, moved, true, Some(TaskState::Sleeping), Verdict::Healthy),
            ("it is idle", RUNS, idle, true, Some(TaskState::Sleeping), Verdict::Healthy),
            ("it was idle", idle, RUNS, true, Some(TaskState::Sleeping), Verdict::Healthy),
            ("it is a spare", spare, spare, true, Some(TaskState::Sleeping), Verdict::Healthy),
            ("it has just got a slot", spare, RUNS, true, None, Verdict::Healthy),
            ("it stands still", RUNS, RUNS, true, None, Verdict::Suspect),
            ("it sleeps", RUNS, RUNS, true, Some(TaskState::Sleeping), Verdict::Blocked),
            ("it waits for a disk", RUNS, RUNS, true, Some(TaskState::DiskSleep), Verdict::Blocked),
            ("it computes", RUNS, RUNS, true, Some(TaskState::Running), Verdict::Healthy),
            ("it said so", announced, announced, true, None, Verdict::BlockedAnnounced),
            ("it said so, nobody waits", announced, announced, false, None, Verdict::Healthy),
        ];
        for (what, before, now, waiting, kernel, verdict) in table {
            assert_eq!(judge(&before, &now, waiting, kernel), verdict, "{what}");
        }
    }
}
