//! Tells valgrind where stacks are.
//!
//! It takes a move of the stack pointer for a call or a return unless it leads to another stack that it knows of, and then
//! declares what lies between to be garbage. Stacks cut from one mapping lie so close that it would. Telling it costs
//! half a dozen instructions without effect where it is absent, so nothing needs configuring, and a stack is announced
//! when it is cut, not at each use.

use std::ops::Range;

use super::isa::valgrind_request;

const RUNNING_ON_VALGRIND: usize = 0x1001;
const STACK_REGISTER: usize = 0x1501;
const STACK_DEREGISTER: usize = 0x1502;

/// A stack that valgrind knows of; dropping it changes nothing.
#[derive(Debug)]
pub(crate) struct StackId(usize);

/// Whether valgrind runs this program.
pub(crate) fn is_running() -> bool {
    valgrind_request(&[RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0], 0) != 0
}

/// Announces a stack.
#[inline]
pub(crate) fn register(stack: Range<*mut u8>) -> StackId {
    let last = stack.end.addr() - 1;
    StackId(valgrind_request(&[STACK_REGISTER, stack.start.addr(), last, 0, 0, 0], 0))
}

/// Withdraws one, before its memory is used for anything else.
#[inline]
pub(crate) fn deregister(StackId(id): StackId) {
    valgrind_request(&[STACK_DEREGISTER, id, 0, 0, 0, 0], 0);
}
