//! The reader of full symbol tables, on this very program. What it reads in `libpthread.so.0` is used on old
//! versions of glibc only (`ci/glibcs.sh`).

use crate::sys::objects;
use crate::sys::tcb::glibc::unexported::value;

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
