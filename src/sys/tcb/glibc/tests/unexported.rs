//! The reader of full symbol tables, on this very program. What it reads in `libpthread.so.0` is used on old
//! versions of glibc only (`ci/glibcs.sh`).

use crate::sys::objects;
use crate::sys::tcb::glibc::unexported::{is_build_id, value};

#[used]
#[unsafe(export_name = "selvedge_test_of_unexported_symbols")]
static MARK: u64 = 4711;
const NAME: &[u8] = b"selvedge_test_of_unexported_symbols\0";

#[test]
fn a_symbol_is_found_in_a_whole_file_only() {
    let file = std::fs::read("/proc/self/exe").unwrap();
    let mut base = None;
    // The main program comes first.
    objects::each(|object| base = base.or(Some(object.base())));
    let found = value(&file, NAME).map(|value| base.unwrap() + value);
    assert_eq!(found, Some((&raw const MARK).addr()));
    assert_eq!(value(&file, b"selvedge_test_of_unexported_symbol\0"), None);
    for part in 0..64 {
        assert_eq!(value(&file[..file.len() / 64 * part], NAME), None, "{part}");
    }
}

#[test]
fn a_build_id_may_have_any_length() {
    for len in [8, 16, 20] {
        let id = [&[4, 0, 0, 0, len, 0, 0, 0, 3, 0, 0, 0], &b"GNU\0"[..], &[7; 20]].concat();
        assert!(is_build_id(&id), "{len}");
    }
    assert!(!is_build_id(b"\x04\0\0\0\x10\0\0\0\x01\0\0\0GNU\0"), "the version of the kernel");
}
