//! The shim over loom: the same names as `std.rs`.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic;

/// Cells of an LWP's run queue, small so that the model meets full rings and wrap-around.
pub(crate) const LOCAL_QUEUE_CAPACITY: u32 = 4;

/// Lets the model run another thread: a spin loop that does not yield would never end under loom.
pub(crate) fn spin_hint() {
    loom::thread::yield_now();
}

/// `const fn` on std; a plain `fn` under loom, whose atomics cannot be made in constants.
macro_rules! const_new {
    ($(#[$meta:meta])* $vis:vis const fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        $(#[$meta])* $vis fn $name($($arg: $ty),*) -> $ret $body
    };
}
pub(crate) use const_new;
