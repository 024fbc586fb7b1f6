//! Where the code is that may hold the allocator's, the loader's and the C library's other locks.
//!
//! **The problem.** A thread that loses its slice with a lock of the allocator holds up all others that allocate, until it is next run: hundreds of them sleep
//! in the kernel, each on an LWP of its own, and who makes LWPs allocates too. Such locks are held for some hundred nanoseconds; so are the others of the C library, but
//! for those that it holds while it calls back.
//!
//! **The way.** Who is there is not preempted now, but a moment later: whole objects as they are loaded (the C library, the loader, and
//! whichever has `malloc`), by two comparisons each. An allocator that is part of the program itself is not known.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

/// A function of each object that is meant.
const SIGNS: [&CStr; 4] = [c"pthread_create", c"getpid", c"malloc", c"__tls_get_addr"];

/// The executable parts of those objects.
static TEXT: OnceLock<Box<[Range<usize>]>> = OnceLock::new();

/// Finds out where the code is, once. Before [`contains`] is asked for the first time.
pub(super) fn find() {
    TEXT.get_or_init(|| {
        let mut search = Search::default();
        // SAFETY: names that end.
        let address = |sign: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, sign.as_ptr()) }.addr();
        search.signs = SIGNS.map(address);
        // SAFETY: `visit` takes what it is given here.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found.into()
    });
}

/// Whether an instruction is there. Async-signal-safe.
pub(super) fn contains(pc: usize) -> bool {
    TEXT.get().is_some_and(|text| text.iter().any(|range| range.contains(&pc)))
}

#[derive(Default)]
struct Search {
    signs: [usize; SIGNS.len()],
    found: Vec<Range<usize>>,
}

/// Looks at one object. Our own, and the program, are not meant, whatever else is linked into them: there are the loops that are to be ended.
unsafe extern "C" fn visit(object: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: as `find` calls it.
    let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
    // SAFETY: the object's own table.
    let parts = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    let start = |part: &libc::Elf64_Phdr| (object.dlpi_addr as usize).wrapping_add(part.p_vaddr as usize);
    let text: Vec<_> = parts
        .iter()
        .filter(|part| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_X != 0)
        .map(|part| start(part)..start(part).saturating_add(part.p_memsz as usize))
        .collect();
    let has = |address: usize| text.iter().any(|range| range.contains(&address));
    if search.signs.into_iter().any(has) && !has(contains as fn(usize) -> bool as usize) {
        search.found.extend(text);
    }
    0
}
