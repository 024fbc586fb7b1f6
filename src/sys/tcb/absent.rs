//! For C libraries that this crate cannot make blocks of. `get` says so, and there is no value to call the
//! rest on.

use std::io;

use super::unfit::Unfit;
use super::{Aside, Renewed};

/// `true` if this target has a C library and an instruction set for which blocks can be made.
pub(crate) const SUPPORTED: bool = false;

/// A type without values.
#[derive(Debug)]
pub(crate) enum Library {}

impl Library {
    stand_in! {
        pub(crate) fn get() -> Result<&'static Self, Unfit> = Err(Unfit::Missing("_dl_allocate_tls"));
        #[allow(dead_code, reason = "glibc on other architectures has threads that are asked to end")]
        pub(crate) fn cancellation(&self) -> *const std::sync::atomic::AtomicU32 = match *self {};
        pub(crate) unsafe fn found() -> &'static Self = unreachable!("`get` returns no value");
        pub(crate) fn relay_setxid(&self, write: unsafe fn(usize)) -> Result<(), Unfit> = match *self {};
        pub(crate) fn reserve(&self) -> usize = match *self {};
        pub(crate) unsafe fn create(&self, top: *mut u8, lowest: *mut u8) -> io::Result<usize> =
            match *self {};
        pub(crate) unsafe fn renew(&self, tp: usize) -> io::Result<Renewed> = match *self {};
        pub(crate) unsafe fn enter(&self) = match *self {};
        pub(crate) unsafe fn exit(&self, aside: &Aside) = match *self {};
        pub(crate) unsafe fn destroy(&self, tp: usize) = match *self {};
    }
}

stand_in! {
    /// Returns 0: no capabilities are known.
    pub(crate) fn hwcap2() -> usize = 0;
    /// Returns an error: there is no block to check it on.
    pub(crate) fn check_library() -> Result<(), &'static str> = Err("the C library");
}
