//! Why a thread sleeps: one name for each kind of wait, shown in dumps and traces.

/// What a blocked thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WaitReason {
    /// `thread::park`.
    Park,
    /// `thread::sleep`.
    Sleep,
    /// The end of another thread.
    Join,
    /// A mutex.
    Mutex,
    /// A condition variable.
    Condvar,
    /// A barrier.
    Barrier,
}
