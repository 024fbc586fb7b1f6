//! Tells valgrind where stacks are.
//!
//! valgrind takes a move of the stack pointer for a call or a return, unless it leads to another stack
//! that it knows. It then declares what lies between to be garbage. Stacks of one mapping lie so close
//! that it would. If valgrind is absent, to tell it costs half a dozen instructions without effect, so
//! nothing needs configuring. A stack is announced when it is cut, not at each use, and for good: that
//! memory never becomes anything else.

use std::ops::Range;

use super::isa::valgrind_request;

const STACK_REGISTER: usize = 0x1501;

/// Announces a stack: its lowest byte, and the end, which no stack pointer on it reaches.
pub(crate) fn announce(stack: Range<*mut u8>) {
    let last = stack.end.addr() - 1;
    // The answer is a number by which to withdraw it.
    valgrind_request(&[STACK_REGISTER, stack.start.addr(), last, 0, 0, 0], 0);
}

/// Returns `true` if valgrind runs this program.
pub(crate) fn is_running() -> bool {
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    valgrind_request(&[RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0], 0) != 0
}
