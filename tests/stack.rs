//! Stacks of both runtimes: as large as promised, as small as they can be, and an overflow names its thread.

#[path = "support/child.rs"]
mod child;
#[path = "stack/memory.rs"]
mod memory;
#[path = "stack/overflow.rs"]
mod overflow;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::hint::black_box;

/// Not a test: what the tests run in processes of their own.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let mut table = overflow::ROLES.to_vec();
    table.extend(memory::ROLES);
    child::play(&table);
}

/// Uses at least `bytes` of stack, and a few KiB more.
fn dive(bytes: usize) -> usize {
    let here = 0_u8;
    dive_to((&raw const here).addr().saturating_sub(bytes))
}

#[inline(never)]
fn dive_to(lowest: usize) -> usize {
    let frame = black_box([1_u8; 1024]);
    let here = frame.as_ptr().addr();
    if here <= lowest { 1 } else { dive_to(lowest) + usize::from(frame[here % 1024]) }
}
