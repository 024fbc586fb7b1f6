//! Where code lies: in the program itself, or where locks are held that every thread wants.
//!
//! **The problem.** Suppose that a thread loses its slice while it holds a lock of the allocator. It stops
//! all others that come to that lock. Hundreds of them sleep in the kernel, each on an LWP of its own. Then
//! the thread that makes LWPs stops too, because that takes memory. 300 threads that allocated stood still
//! forever within a second.
//!
//! **Rejected**: to look for return addresses into the allocator (its locks are also held in system calls,
//! and in copies that lie elsewhere); more spares (there may be a thousand threads).
//!
//! **The way.** A thread may be in the C library, in the loader, or in another object that has `malloc`. It
//! is then not preempted at that instruction, but a moment later. Their locks are held for some hundred
//! nanoseconds. Except for the loader's and a few more, they are not held while other code is called. An
//! allocator that is linked into the program is not known. Behind that, threads that sleep make room in turn
//! (`Monitor::compensate`).

use std::ffi::CStr;
use std::ops::Range;

use crate::sys::objects;
use crate::sys::once::OnceLock;
use crate::sys::system::symbol;

/// The executable parts of a loaded object.
type Text = Vec<Range<usize>>;

/// A function of each object that is meant.
const SIGNS: [&CStr; 4] = [c"pthread_key_create", c"getpid", c"malloc", c"__tls_get_addr"];

/// The executable parts of the objects that are meant.
static LIBRARY: OnceLock<Text> = OnceLock::new();

/// The executable parts of the library that this crate is a part of, unless that is the main program. And
/// those of the kernel's own object: this crate calls it to read clocks.
static OWN: OnceLock<Text> = OnceLock::new();

/// Finds them, before the first call of [`in_library`]. Takes locks of the loader.
pub(super) fn find_library() {
    OWN.get_or_init(|| {
        // SAFETY: no memory is involved.
        let kernels = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        let signs = [find_library as fn() as usize, kernels];
        let others = all().into_iter().skip(1);
        others.filter(|text| signs.into_iter().any(|sign| contains(text, sign))).flatten().collect()
    });
    LIBRARY.get_or_init(|| {
        let signs = SIGNS.map(|sign| symbol(sign).map_or(0, |at| at.addr().get()));
        // The main program has the loops that must end, whatever is linked into it.
        let others = all().into_iter().skip(1);
        others.filter(|text| signs.into_iter().any(|sign| contains(text, sign))).flatten().collect()
    });
}

/// Returns `true` if an instruction is in one of them. Async-signal-safe.
pub(super) fn in_library(pc: usize) -> bool {
    LIBRARY.get().is_some_and(|text| contains(text, pc))
}

/// Returns `true` if an instruction is this crate's, where that is no part of the main program, or the
/// kernel's. Async-signal-safe.
pub(super) fn in_own_library(pc: usize) -> bool {
    OWN.get().is_some_and(|text| contains(text, pc))
}

/// Returns `true` if an instruction is in the main program. Takes a lock of the loader.
pub(super) fn in_main_program(pc: usize) -> bool {
    all().first().is_some_and(|text| contains(text, pc))
}

fn contains(text: &Text, pc: usize) -> bool {
    text.iter().any(|part| part.contains(&pc))
}

/// Returns all that is loaded, the main program first. Takes a lock of the loader.
fn all() -> Vec<Text> {
    let mut all = Vec::new();
    objects::each(|object| all.push(object.code().collect()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_not_the_program() {
        find_library();
        let ours = find_library as fn() as usize;
        assert!(in_main_program(ours) && !in_library(ours) && !in_own_library(ours));
        for theirs in [c"free", c"strlen", c"pthread_key_delete"] {
            let theirs = symbol(theirs).expect("the C library has it").addr().get();
            assert!(!in_main_program(theirs) && in_library(theirs));
        }
        // SAFETY: no memory is involved.
        let kernels = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        assert!(kernels == 0 || in_own_library(kernels) && !in_library(kernels));
        assert!(!in_library(0) && !in_main_program(0));
    }
}
