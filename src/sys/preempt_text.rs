//! Where code lies: in the program itself, or where locks are held that everybody wants.
//!
//! **The problem.** A thread that loses its slice with a lock of the allocator in its hands stops all others that come to that lock: hundreds of them sleep in the
//! kernel, each on an LWP of its own, and then who makes LWPs, for that takes memory too. 300 threads that allocated stood still for ever within a second.
//!
//! **Rejected**: to look for return addresses into the allocator (its locks are also held in system calls and copies that lie elsewhere); more spares
//! (there may be a thousand threads).
//!
//! **The way.** Who is in the C library, in the loader, or in whatever else has `malloc`, is not preempted at that instruction, but a moment later. Their locks
//! are held for some hundred nanoseconds, and while they call nobody back, but for the loader's and a few more. An allocator that is linked into the program is not known:
//! behind that, threads that sleep make room in turn (`Monitor::compensate`).

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;

use crate::sys::fork::held_off;
use crate::sys::once::OnceLock;

/// The executable parts of a loaded object.
type Text = Vec<Range<usize>>;

/// A function of each object that is meant.
const SIGNS: [&CStr; 4] = [c"pthread_create", c"getpid", c"malloc", c"__tls_get_addr"];

/// Those of the objects that are meant.
static LIBRARY: OnceLock<Text> = OnceLock::new();

/// Finds them, before [`in_library`] is asked for the first time. Takes locks of the loader.
pub(super) fn find_library() {
    LIBRARY.get_or_init(|| {
        // SAFETY: names that end.
        let signs = SIGNS.map(|sign| unsafe { libc::dlsym(libc::RTLD_DEFAULT, sign.as_ptr()) }.addr());
        // There the loops are that must end, whatever is linked into it.
        let others = objects().into_iter().skip(1);
        others.filter(|text| signs.into_iter().any(|sign| contains(text, sign))).flatten().collect()
    });
}

/// Whether an instruction is in one of them. Async-signal-safe.
pub(super) fn in_library(pc: usize) -> bool {
    LIBRARY.get().is_some_and(|text| contains(text, pc))
}

/// Whether an instruction is in the main program. Takes a lock of the loader.
pub(super) fn in_main_program(pc: usize) -> bool {
    objects().first().is_some_and(|text| contains(text, pc))
}

fn contains(text: &Text, pc: usize) -> bool {
    text.iter().any(|part| part.contains(&pc))
}

/// All that is loaded, the main program first.
fn objects() -> Vec<Text> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, all: *mut c_void) -> c_int {
        // SAFETY: the loader's, during the call.
        let info = unsafe { &*info };
        // SAFETY: what was passed below.
        let all = unsafe { &mut *all.cast::<Vec<Text>>() };
        // SAFETY: the program headers of an object that is loaded.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let code =
            headers.iter().filter(|part| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_X != 0);
        let range = |part: &libc::Elf64_Phdr| {
            let start = info.dlpi_addr.wrapping_add(part.p_vaddr) as usize;
            start..start.saturating_add(part.p_memsz as usize)
        };
        all.push(code.map(range).collect());
        0
    }
    let mut all: Vec<Text> = Vec::new();
    // SAFETY: the function keeps to what it is passed.
    held_off(|| unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut all).cast()) });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_not_the_program() {
        find_library();
        let ours = find_library as fn() as usize;
        assert!(in_main_program(ours) && !in_library(ours));
        for theirs in [c"free", c"strlen", c"pthread_join"] {
            // SAFETY: a name that ends.
            let theirs = unsafe { libc::dlsym(libc::RTLD_DEFAULT, theirs.as_ptr()) }.addr();
            assert!(!in_main_program(theirs) && in_library(theirs));
        }
        assert!(!in_library(0) && !in_main_program(0));
    }
}
