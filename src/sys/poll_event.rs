//! What a set of descriptors (`poll_set.rs`) says of one of them.

/// What has happened to a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) token: u64,
    /// `None`: nothing has happened in this direction.
    pub(crate) read: Option<Report>,
    pub(crate) write: Option<Report>,
}

/// What has happened in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// A call may not block.
    Ready,
    /// The same, and there are urgent bytes. A call that reads stops before them, whatever comes after.
    Urgent,
    /// No more bytes will come, or can be sent.
    Closed,
}

/// Why a bell could not be rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unrung {
    /// The caller has a table of descriptors of its own, and the bell is not in there.
    OtherTable,
    /// The program has closed it.
    Closed,
}
