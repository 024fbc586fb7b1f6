//! The cores of all threads of the process.

use super::core_pool;
use super::thread::ThreadRef;
use crate::shim::OnceLock;

/// Calls back with every green thread's core, of every runtime, living or not.
type Greens = fn(&mut dyn FnMut(ThreadRef));

static GREENS: OnceLock<Greens> = OnceLock::new();

/// Includes the green threads that `greens` lists from now on.
pub(crate) fn tell_of_greens(greens: Greens) {
    // A second call passes the same function.
    let _ = GREENS.set(greens);
}

/// Calls back with the core of every thread, of every runtime or none, living or not, and with `true` if it
/// is a kernel thread's. Neither allocates nor takes a lock.
pub(crate) fn each(f: &mut dyn FnMut(ThreadRef, bool)) {
    core_pool::all().for_each(|kernel| f(kernel.thread(), true));
    if let Some(greens) = GREENS.get() {
        greens(&mut |green| f(green, false));
    }
}
