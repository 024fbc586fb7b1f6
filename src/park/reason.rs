//! Why a thread sleeps: one name for each kind of wait, shown in reports, dumps and traces.

use std::fmt;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum WaitReason {
    /// `thread::park`.
    Park = 1,
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
    /// The end of a scope's threads, or of a runtime's.
    Scope,
    /// A lock for one writer or many readers.
    RwLock,
    /// A semaphore's permit.
    Semaphore,
    /// An initialization that another thread runs.
    Once,
    /// Room in a channel, or a receiver.
    Send,
    /// A message.
    Receive,
    /// The first of several events.
    Select,
    /// The members of a wait group.
    WaitGroup,
    /// Bytes, or a connection, at a descriptor.
    Readable,
    /// Room to send bytes at a descriptor, or the end of a connect.
    Writable,
    /// A future that it runs itself (`future::block_on`).
    Future,
    /// A futex: of the program (feature `interpose`), as a lock of std, or of a lock between processes.
    Futex,
}

impl WaitReason {
    const ALL: [Self; 18] = [
        Self::Park,
        Self::Sleep,
        Self::Join,
        Self::Mutex,
        Self::Condvar,
        Self::Barrier,
        Self::Scope,
        Self::RwLock,
        Self::Semaphore,
        Self::Once,
        Self::Send,
        Self::Receive,
        Self::Select,
        Self::WaitGroup,
        Self::Readable,
        Self::Writable,
        Self::Future,
        Self::Futex,
    ];

    /// Returns it in a word or two, as data have it.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(selvedge::thread::WaitReason::RwLock.as_str(), "rwlock");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Park => "park",
            Self::Sleep => "sleep",
            Self::Join => "join",
            Self::Mutex => "mutex",
            Self::Condvar => "condvar",
            Self::Barrier => "barrier",
            Self::Scope => "scope",
            Self::RwLock => "rwlock",
            Self::Semaphore => "semaphore",
            Self::Once => "once",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Select => "select",
            Self::WaitGroup => "wait group",
            Self::Readable => "readable",
            Self::Writable => "writable",
            Self::Future => "future",
            Self::Futex => "futex",
        }
    }

    /// Returns `true` if what ends the wait may come from outside the process.
    pub(crate) fn is_outside(self) -> bool {
        matches!(self, Self::Readable | Self::Writable | Self::Future | Self::Futex)
    }

    /// Returns the reason of this number.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Park => "its permit (park)",
            Self::Sleep => "the end of its sleep",
            Self::Join => "the end of a thread (join)",
            Self::Mutex => "a mutex",
            Self::Condvar => "a condition variable",
            Self::Barrier => "a barrier",
            Self::Scope => "the end of other threads (scope)",
            Self::RwLock => "a read-write lock",
            Self::Semaphore => "a semaphore",
            Self::Once => "an initialization (once)",
            Self::Send => "room in a channel (send)",
            Self::Receive => "a message (receive)",
            Self::Select => "the first of several events (select)",
            Self::WaitGroup => "a wait group",
            Self::Readable => "a descriptor to be readable",
            Self::Writable => "a descriptor to be writable",
            Self::Future => "a future (block_on)",
            Self::Futex => "a futex",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reasons() {
        assert_eq!(WaitReason::from_number(0), None);
        for reason in WaitReason::ALL {
            assert_eq!(WaitReason::from_number(reason as u8), Some(reason));
        }
        assert_eq!(WaitReason::from_number(19), None);
    }
}
