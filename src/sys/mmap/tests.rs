//! Guards, residency and limits, on the real kernel.

use super::*;

const KIB: usize = 1 << 10;

impl Mapping {
    /// Returns the lowest page in `range` that is in memory, as an offset; `None` if none is.
    pub(crate) fn lowest_resident(&self, range: Range<usize>) -> Option<usize> {
        const PAGES: usize = 256;
        self.check(&range);
        let mut resident = [0_u8; PAGES];
        range.clone().step_by(PAGES * page_size()).find_map(|from| {
            let pages = ((range.end - from) / page_size()).min(PAGES);
            // SAFETY: within this mapping, and `resident` has a byte for each page.
            let rc =
                unsafe { libc::mincore(self.at(from).cast(), pages * page_size(), resident.as_mut_ptr()) };
            if rc != 0 {
                return None;
            }
            let lowest = resident[..pages].iter().position(|state| state & 1 == 1)?;
            Some(from + lowest * page_size())
        })
    }
}

/// Returns `true` if a byte can be read, without a fault: the kernel copies it into a pipe, or says that it
/// cannot.
fn readable(at: *const u8) -> bool {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: a bad address is an error, not a fault.
    let written = unsafe { libc::write(ends[1], at.cast(), 1) };
    for end in ends {
        // SAFETY: opened above.
        unsafe { libc::close(end) };
    }
    written == 1
}

fn guard_works(kind: Guard) {
    let page = page_size();
    let mapping = Mapping::reserve(8 * page).unwrap();
    // SAFETY: the third page is in the mapping, which no other code knows.
    unsafe { mapping.start().wrapping_add(2 * page).write(7) };
    assert_eq!(mapping.guard(page..3 * page, kind).unwrap(), kind);
    assert!(readable(mapping.start()));
    assert!(!readable(mapping.start().wrapping_add(page)));
    assert!(!readable(mapping.start().wrapping_add(3 * page - 1)));
    assert!(readable(mapping.start().wrapping_add(3 * page)));
    // SAFETY: nothing is kept there.
    unsafe { mapping.discard(0..8 * page) };
    assert!(!readable(mapping.start().wrapping_add(page)), "a guard outlives a discard");
}

#[test]
fn no_access_guards() {
    guard_works(Guard::NoAccess);
}

#[test]
fn marker_guards() {
    if Guard::best() == Guard::Marker {
        guard_works(Guard::Marker);
    } else {
        eprintln!("skipped: this kernel has no MADV_GUARD_INSTALL");
    }
}

#[test]
fn residency_and_discard() {
    let page = page_size();
    let mapping = Mapping::reserve(1000 * page).unwrap();
    mapping.forbid_huge_pages();
    mapping.set_name(c"selvedge test");
    assert_eq!(mapping.lowest_resident(0..1000 * page), None);
    // SAFETY: in the mapping, which no other code knows.
    unsafe { mapping.start().wrapping_add(700 * page).write(1) };
    assert_eq!(mapping.lowest_resident(0..1000 * page), Some(700 * page));
    assert_eq!(mapping.lowest_resident(701 * page..1000 * page), None);
    // SAFETY: nothing is kept there.
    unsafe { mapping.discard(0..1000 * page) };
    assert_eq!(mapping.lowest_resident(0..1000 * page), None);
}

#[test]
fn too_much_is_a_clear_error() {
    let error = Mapping::reserve(1 << 52).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("ulimit -v"), "{error}");
}

#[test]
fn sizes_read_well() {
    let shown = [0, 100, 4 * KIB, 256 * KIB, 3 << 20, 1 << 30].map(|size| Bytes(size).to_string());
    assert_eq!(shown, ["0 bytes", "100 bytes", "4 KiB", "256 KiB", "3 MiB", "1 GiB"]);
}
