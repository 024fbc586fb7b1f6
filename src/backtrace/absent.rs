//! The names of `present.rs` for builds without backtraces.

use std::collections::HashMap;
use std::convert::Infallible;

use super::{Backtrace, Function};
use crate::sys::registers::Registers;

/// There is none.
#[derive(Debug)]
pub(crate) struct Unwinder(Infallible);

impl Unwinder {
    /// Says why there is none.
    pub(crate) fn new() -> Result<Self, &'static str> {
        Err("no backtraces: these take the feature `backtraces`, and Linux on x86-64, aarch64 or riscv64")
    }

    stand_in! {
        pub(crate) fn copy(&mut self, from: usize, end: usize) -> Result<(), &'static str> = match self.0 {};
        pub(crate) fn copy_again(&mut self) -> bool = match self.0 {};
        pub(crate) fn adopt(&mut self, from: usize, bytes: &[u8]) = match self.0 {};
        pub(crate) fn word(&self, at: usize) -> Option<usize> = match self.0 {};
        pub(crate) fn unwind(&mut self, registers: Registers) -> Backtrace = match self.0 {};
        pub(crate) fn resolve(
            &self, addresses: impl Iterator<Item = usize>
        ) -> HashMap<usize, Vec<Function>> = match self.0 {};
    }
}

pub(crate) fn of_kernel_thread(_tid: Option<u32>, unwinder: &mut Unwinder) -> Backtrace {
    match unwinder.0 {}
}
