//! The names of `task_state.rs` for systems that do not say what a kernel thread is doing.

use std::io;

use super::Tid;

/// A type without values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {}

impl TaskState {
    pub(crate) fn is_asleep(self) -> bool {
        match self {}
    }
}

/// Access to nothing.
#[derive(Debug)]
pub(crate) struct Tasks(());

impl Tasks {
    pub(crate) const SHARED: Self = Self(());

    stand_in! {
        /// Returns [`SHARED`](Self::SHARED).
        pub(crate) fn private() -> Self = Self::SHARED;
        pub(crate) fn are_private(&self) -> bool = false;
        pub(crate) fn state(&self, tid: Tid) -> io::Result<TaskState> =
            Err(io::ErrorKind::Unsupported.into());
        pub(crate) fn cpu_time(&self, tid: Tid) -> io::Result<CpuTime> =
            Err(io::ErrorKind::Unsupported.into());
        pub(crate) fn in_kernel(&self, tid: Tid) -> Option<InKernel> = None;
        pub(crate) fn may_begin_again(&self, tid: Tid) -> bool = false;
    }
}

/// Where a kernel thread entered the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InKernel {
    pub(crate) sp: usize,
    pub(crate) pc: usize,
    pub(crate) begins_again: bool,
}

/// What the kernel says of a kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskLook {
    pub(crate) asleep: bool,
    pub(crate) cpu: Option<u32>,
}

/// What a kernel thread has had of its CPUs, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) ran: u64,
    pub(crate) waited: u64,
}

stand_in! {
    pub(crate) fn is_asleep(tid: u32) -> bool = false;
    pub(crate) fn look(tid: u32) -> Option<TaskLook> = None;
    pub(crate) fn cpu_clock(tid: Tid) -> io::Result<u64> = Err(io::ErrorKind::Unsupported.into());
    pub(crate) fn own_cpu_clock() -> io::Result<u64> = Err(io::ErrorKind::Unsupported.into());
    pub(crate) fn process_cpu_clock() -> io::Result<u64> = Err(io::ErrorKind::Unsupported.into());
}
