//! The names of `preempt.rs` for machines without a signal frame that this crate knows. No thread is
//! preempted by signal.

use std::ffi::c_int;
use std::io;
use std::ops::{Range, RangeInclusive};

use super::Tid;
use super::registers::Registers;
use super::system;
pub(crate) use super::system::keep_errno;

pub(crate) const SUPPORTED: bool = false;

/// The signal that the program would be told is used.
pub(crate) const DEFAULT_SIGNAL: c_int = system::SIGURG;

stand_in! {
    /// Returns `true` for the default signal. No thread is preempted by it, but no program should rely on
    /// that.
    #[cfg(feature = "signal")]
    pub(crate) fn is_used(signal: c_int) -> bool = signal == DEFAULT_SIGNAL;
    /// Accepts any signal: none is used.
    pub(crate) fn check(signal: c_int) -> io::Result<()> = Ok(());
    /// Returns `false`: no frame is known.
    #[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
    pub(crate) fn answer(context: &mut libc::ucontext_t, load: usize, failed: usize) -> bool = false;
    /// Returns `false`: no frame is known.
    #[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
    pub(crate) fn is_in_own_library(context: &libc::ucontext_t) -> bool = false;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mask(());

impl Mask {
    stand_in! {
        pub(crate) fn bits(self) -> u64 = 0;
        pub(crate) fn from_bits(bits: u64) -> Self = Self(());
    }
}

stand_in! {
    pub(crate) fn baseline_mask() -> Mask = Mask(());
    /// Does nothing: no call is inserted into interrupted code.
    pub(crate) fn block_all() = ();
    pub(crate) fn set_mask(mask: Mask) = ();
}

/// There is none.
pub(crate) struct Interrupted<'a>(std::convert::Infallible, std::marker::PhantomData<&'a mut ()>);

impl Interrupted<'_> {
    stand_in! {
        pub(crate) fn is_marked(&self) -> bool = match self.0 {};
        pub(crate) fn registers(&self) -> Registers = match self.0 {};
        pub(crate) fn claim(&mut self) = match self.0 {};
        pub(crate) fn in_library(&self) -> bool = match self.0 {};
        pub(crate) fn in_own_library(&self) -> bool = match self.0 {};
        pub(crate) fn end_call(&mut self, sp: usize, pc: usize) = match self.0 {};
        pub(crate) fn is_by_call(&self) -> bool = match self.0 {};
        pub(crate) fn is_at_call(&self) -> bool = match self.0 {};
        pub(crate) fn mask(&self) -> Mask = match self.0 {};
        pub(crate) fn machine_state(&self) -> u64 = match self.0 {};
        pub(crate) fn block_all(&mut self) = match self.0 {};
        pub(crate) fn takes_call(
            &self, mask: Option<Mask>, stack: &Range<usize>, enough: RangeInclusive<usize>
        ) -> bool = match self.0 {};
        pub(crate) fn takes_call_under_any_mask(
            &self, stack: &Range<usize>, enough: RangeInclusive<usize>
        ) -> bool = match self.0 {};
        pub(crate) unsafe fn redirect(
            &mut self, change: unsafe fn(&mut usize, &mut usize, u64)
        ) = match self.0 {};
    }
}

pub(crate) type Decide = fn(&mut Interrupted<'_>);

stand_in! {
    pub(crate) fn install(signal: c_int, decide: Decide) -> io::Result<()> = Err(io::Error::new(
        io::ErrorKind::Unsupported, "threads cannot be preempted by signal on this system"
    ));
    pub(crate) fn still_installed() -> bool = false;
    /// Does nothing: no signal is blocked for this crate.
    pub(crate) fn unblock(signal: c_int) = ();
    pub(crate) fn send(tid: Tid) -> io::Result<()> = Err(io::ErrorKind::Unsupported.into());
    /// Does nothing: no signal is sent here.
    pub(crate) fn block(signal: c_int) = ();
    pub(crate) fn queue_here(signal: c_int, value: usize) -> io::Result<()> =
        Err(io::ErrorKind::Unsupported.into());
    /// Returns `true`: no frame is known.
    pub(crate) fn may_be_in_handler(end: usize) -> bool = true;
    /// Returns `true`: no signal is sent here.
    pub(crate) fn may_queue() -> bool = true;
    /// Returns `false`. It is not called in a handler.
    pub(crate) fn own_thread_locals_are_static() -> bool = false;
}

/// Returns one that says nothing.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn info(_signal: c_int, _value: Option<usize>) -> libc::siginfo_t {
    // SAFETY: plain data.
    unsafe { std::mem::zeroed() }
}
