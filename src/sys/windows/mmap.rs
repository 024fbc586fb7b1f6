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

/// Checks nothing: the system says when there is no room.
pub(crate) fn check_headroom(_len: usize) -> io::Result<()> {
    Ok(())
}

/// Returns `None`: there is no limit.
pub(crate) fn mappings_left() -> Option<usize> {
    None
}

/// A type without values.
#[derive(Debug)]
pub(crate) struct Mapping(Infallible);

impl Mapping {
    /// Returns an error.
    pub(crate) fn reserve(_len: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn start(&self) -> *mut u8 {
        match self.0 {}
    }

    pub(crate) fn len(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn forbid_huge_pages(&self) {
        match self.0 {}
    }

    pub(crate) fn set_name(&self, _name: &'static CStr) {
        match self.0 {}
    }

    pub(crate) fn guard(&self, _range: Range<usize>, _kind: Guard) -> io::Result<Guard> {
        match self.0 {}
    }

    /// # Safety
    /// Cannot be called.
    pub(crate) unsafe fn discard(&self, _range: Range<usize>) {
        match self.0 {}
    }
}
