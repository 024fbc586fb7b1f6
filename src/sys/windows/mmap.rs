//! The names of `mmap.rs` where green threads have no stacks: there is no mapping.

use std::convert::Infallible;
use std::ffi::CStr;
use std::io;
use std::ops::Range;

/// How a range is made to fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Marker,
    NoAccess,
}

impl Guard {
    pub(crate) fn best() -> Self {
        Self::NoAccess
    }
}

/// Returns the size of a page on all machines with this system.
pub(crate) fn page_size() -> usize {
    4096
}

/// Why nothing was mapped.
#[derive(Debug)]
pub(crate) struct Refusal;

impl Refusal {
    pub(crate) fn is_for_memory(&self) -> bool {
        false
    }
}

impl From<Refusal> for io::Error {
    fn from(_: Refusal) -> Self {
        io::ErrorKind::Unsupported.into()
    }
}

stand_in! {
    /// Checks nothing: the system says when there is no room.
    pub(crate) fn check_headroom(len: usize) -> Result<(), Refusal> = Ok(());
    /// Does nothing: there are no such stacks.
    pub(crate) fn heed_executable_stacks() = ();
    /// Returns `None`: there is no limit.
    pub(crate) fn mappings_left() -> Option<usize> = None;
    /// Returns `None`: nothing is mapped here.
    pub(crate) fn lowest_resident(range: Range<usize>) -> Option<usize> = None;
}

/// Parts of mappings. There are none.
#[derive(Debug)]
pub(crate) struct Parts;

impl Parts {
    pub(crate) const MOST: usize = 64;

    stand_in! {
        pub(crate) const fn new() -> Self = Self;
        pub(crate) fn push(&mut self, start: *mut u8, end: *mut u8) = ();
        pub(crate) fn touch(&self) = ();
        pub(crate) unsafe fn discard(&self) = ();
    }
}

/// A type without values.
#[derive(Debug)]
pub(crate) struct Mapping(Infallible);

impl Mapping {
    stand_in! {
        pub(crate) fn reserve(len: usize) -> Result<Self, Refusal> = Err(Refusal);
        pub(crate) fn start(&self) -> *mut u8 = match self.0 {};
        pub(crate) fn len(&self) -> usize = match self.0 {};
        pub(crate) fn forbid_huge_pages(&self) = match self.0 {};
        pub(crate) fn set_name(&self, name: &'static CStr) = match self.0 {};
        pub(crate) fn guard(&self, range: Range<usize>, kind: Guard) -> Result<Guard, Refusal> =
            match self.0 {};
        pub(crate) fn mark_each(&self, parts: &Parts) -> usize = match self.0 {};
    }
}
