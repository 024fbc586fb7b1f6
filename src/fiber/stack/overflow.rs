//! What the fault handler says about an overflow of a green thread's stack.

use super::mapped;
use crate::park::current;
use crate::sys::sigstack::{self, Overflow};

/// Makes an overflow of a green thread's stack print which thread it was, and abort. Process-wide, once.
pub(crate) fn report_overflows() -> std::io::Result<()> {
    sigstack::explain_with(explain);
    sigstack::install_handler()
}

/// Explains a fault. Runs in the fault handler: takes no lock and allocates nothing.
///
/// A fault in a red zone is an overflow only if the faulting thread is the one that uses the span. Otherwise
/// it is a wild pointer, which is left to the earlier handler of such faults.
fn explain(fault: usize) -> Option<Overflow> {
    let stack = mapped::find(fault)?;
    if !mapped::red_zone(stack).contains(&fault) {
        return None;
    }
    let thread = current::try_current();
    let here: *const () = thread.map_or(std::ptr::null(), |thread| std::ptr::from_ref(thread.core()).cast());
    if stack.owner().cast_const() != here {
        return None;
    }
    let core = thread.map(|thread| thread.core());
    Some(Overflow {
        name: core.and_then(|core| core.name()),
        id: core.map(|core| core.id().get()),
        size: stack.usable(),
    })
}
