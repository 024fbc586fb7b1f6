//! Guards, residency and limits, on the real kernel.

use super::*;

const KIB: usize = 1 << 10;

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

/// Returns all of a mapping, as one part.
fn whole(mapping: &Mapping) -> Parts {
    let mut parts = Parts::new();
    parts.push(mapping.start(), mapping.start().wrapping_add(mapping.len()));
    parts
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
    unsafe { whole(&mapping).discard() };
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
    let start = mapping.start().addr();
    let lowest = |range: Range<usize>| {
        let lowest = lowest_resident(start + range.start * page..start + range.end * page)?;
        Some((lowest - start) / page)
    };
    assert_eq!(lowest(0..1000), None);
    // SAFETY: in the mapping, which no other code knows.
    unsafe { mapping.start().wrapping_add(700 * page).write(1) };
    assert_eq!(lowest(0..1000), Some(700));
    assert_eq!(lowest(701..1000), None);
    // SAFETY: nothing is kept there.
    unsafe { whole(&mapping).discard() };
    assert_eq!(lowest(0..1000), None);
}

#[test]
fn too_much_is_a_clear_error() {
    let error = io::Error::from(Mapping::reserve(1 << 52).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("ulimit -v"), "{error}");
}

#[test]
fn sizes_read_well() {
    let shown = [0, 100, 4 * KIB, 256 * KIB, 3 << 20, 1 << 30].map(|size| Bytes(size).to_string());
    assert_eq!(shown, ["0 bytes", "100 bytes", "4 KiB", "256 KiB", "3 MiB", "1 GiB"]);
}

#[test]
fn parts_are_touched_marked_and_discarded() {
    let page = page_size();
    let mapping = Mapping::reserve(30 * page).unwrap();
    mapping.forbid_huge_pages();
    let at = |index: usize| mapping.start().wrapping_add(index * page);
    let parts = |indices: &[usize]| {
        let mut parts = Parts::new();
        indices.iter().for_each(|&index| parts.push(at(index), at(index + 2)));
        parts
    };
    let resident = |index: usize| lowest_resident(at(index).addr()..at(index + 1).addr()).is_some();
    let touched = parts(&[3, 10, 20]);
    touched.touch();
    if !resident(3) {
        eprintln!("skipped: this kernel has no call for many parts");
        return;
    }
    assert!([3, 4, 10, 11, 20, 21].into_iter().all(resident), "two pages of each");
    assert!([2, 5, 12, 22].into_iter().all(|index| !resident(index)), "and no others");
    // SAFETY: nothing is kept there.
    unsafe { touched.discard() };
    assert!(!(0..30).any(resident));
    assert_eq!(mapping.mark_each(&parts(&[5, 15])), 2);
    let faults = |index: usize| !readable(at(index));
    assert!([5, 6, 15, 16].into_iter().all(faults) && ![4, 7, 14, 17].into_iter().any(faults));
    assert_eq!(mapping.mark_each(&Parts::new()), 0);
}

#[test]
#[should_panic(expected = "is not in")]
fn parts_of_another_mapping_are_not_marked() {
    let page = page_size();
    let (mapping, other) = (Mapping::reserve(page).unwrap(), Mapping::reserve(page).unwrap());
    let mut parts = Parts::new();
    parts.push(other.start(), other.start().wrapping_add(page));
    mapping.mark_each(&parts);
}
