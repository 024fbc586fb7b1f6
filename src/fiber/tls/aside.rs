//! A context of its own below the frames of its caller, for code that is left from any depth.
//!
//! The C library of musl runs the destructors of a thread's values only on the way to its end. So that way is
//! begun, and left (`sys/tcb/musl/keys.rs`). No frame is unwound: what is left behind must hold nothing.
//!
//! **Rejected**: `setjmp`. A function that returns twice cannot be called from Rust.

use crate::arch::{self, SavedSp};
use crate::sys::tcb::Aside;

/// How far below its caller's data the context begins, in bytes. The caller's frame lies in between.
const GAP: usize = 2048;

pub(super) static ASIDE: Aside = Aside { call, back };

/// The two sides of a call.
struct Way {
    caller: SavedSp,
    function: unsafe extern "C" fn(*mut (), *mut ()) -> !,
    data: *mut (),
}

/// Runs `function` until it calls [`back`].
///
/// # Safety
/// `function` takes `data`. What it leaves behind holds nothing.
#[inline(never)]
unsafe fn call(function: unsafe extern "C" fn(*mut (), *mut ()) -> !, data: *mut ()) {
    let mut way = Way { caller: SavedSp::NONE, function, data };
    let way = &raw mut way;
    let below = way.cast::<u8>().map_addr(|here| (here - GAP) & !63);
    // SAFETY: this part of the stack is not in use: the caller's frame ends above it. `inside` never returns.
    let start = unsafe { arch::init(below, inside, way.cast()) };
    // SAFETY: `way` lives until the switch comes back.
    let caller = unsafe { &raw mut (*way).caller };
    // SAFETY: the context was just made, and runs with the same thread register.
    unsafe { arch::switch(caller, start, 0) };
}

unsafe extern "C" fn inside(_arg: usize, way: *mut ()) -> ! {
    // SAFETY: `call` lends it until `back`.
    let Way { function, data, .. } = unsafe { &*way.cast::<Way>() };
    // SAFETY: the caller's promise.
    unsafe { function(*data, way) }
}

/// Goes back to the caller.
///
/// # Safety
/// `way` is what the function of a `call` that has not come back was given.
unsafe fn back(way: *mut ()) -> ! {
    // SAFETY: `call` lends it until now.
    let caller = unsafe { (*way.cast::<Way>()).caller };
    let mut spent = SavedSp::NONE;
    // SAFETY: saved by the switch in `call`, on the same stack and kernel thread, with the same register.
    unsafe { arch::switch(&mut spent, caller, 0) };
    unreachable!("a context that was left was taken up again")
}
