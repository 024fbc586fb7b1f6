//! Symbols that `libpthread.so.0` has, but does not export.
//!
//! Up to glibc 2.33, threads are in a library of their own. It describes itself to debuggers by symbols that
//! are in its full symbol table only, and no loader looks there. So that table is read from the library's
//! file, as gdb does. Distributions strip the table off other libraries, but leave these symbols in this one:
//! without them gdb would see no threads.
//!
//! The file may have been replaced since it was loaded. So the notes in it, with the build id, must be those
//! of the library in memory. Otherwise there are no such symbols.

use std::ffi::{CStr, OsStr, c_void};
use std::fs;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use libc::{Elf64_Ehdr as Header, Elf64_Shdr as Section, Elf64_Sym as Symbol};

use super::super::super::objects::{self, Object};
use super::super::super::once::OnceLock;

const LIBRARY: &str = "libpthread.so.0";

/// `SHT_SYMTAB`: the section is the full table of symbols.
const SYMTAB: usize = 2;

/// The library, as loaded at an address.
struct Loaded {
    base: usize,
    file: Vec<u8>,
}

/// Returns where `name` is. `None`: the library is not loaded, as from glibc 2.34 on, or has no such symbol.
#[cold]
pub(super) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    static LOADED: OnceLock<Option<Loaded>> = OnceLock::new();
    let loaded = LOADED.get_or_init(Loaded::find).as_ref()?;
    let value = value(&loaded.file, name.to_bytes_with_nul())?;
    NonNull::new(std::ptr::with_exposed_provenance_mut(loaded.base.checked_add(value)?))
}

impl Loaded {
    fn find() -> Option<Self> {
        let mut found = None;
        objects::each(|object| {
            if Path::new(OsStr::from_bytes(object.path().to_bytes())).ends_with(LIBRARY) {
                found = Self::read(object);
            }
        });
        found
    }

    fn read(object: &Object<'_>) -> Option<Self> {
        let file = fs::read(OsStr::from_bytes(object.path().to_bytes())).ok()?;
        let same = object.notes().all(|(offset, note)| bytes(&file, offset, note.len()) == Some(note));
        let has_build_id = object.notes().any(|(_, note)| is_build_id(note));
        (same && has_build_id).then(|| Self { base: object.base(), file })
    }
}

/// Returns `true` if notes have a build id among them: `NT_GNU_BUILD_ID`, of any length.
pub(super) fn is_build_id(notes: &[u8]) -> bool {
    let is_head = |head: &[u8]| head.starts_with(b"\x04\0\0\0") && head.ends_with(b"\x03\0\0\0GNU\0");
    notes.windows(16).any(is_head)
}

/// Returns the value of the symbol with this name and the zero after it, in a file of the ELF format.
pub(super) fn value(file: &[u8], name: &[u8]) -> Option<usize> {
    let sections = number(file, offset_of!(Header, e_shoff), 8)?;
    let count = number(file, offset_of!(Header, e_shnum), 2)?;
    let section = |index: usize| sections.checked_add(index.checked_mul(size_of::<Section>())?);
    let of = |section: usize, field: usize, len: usize| number(file, section.checked_add(field)?, len);
    let table =
        (0..count).filter_map(section).find(|&at| of(at, offset_of!(Section, sh_type), 4) == Some(SYMTAB))?;
    let names = section(of(table, offset_of!(Section, sh_link), 4)?)?;
    let names = of(names, offset_of!(Section, sh_offset), 8)?;
    let start = of(table, offset_of!(Section, sh_offset), 8)?;
    let symbols = bytes(file, start, of(table, offset_of!(Section, sh_size), 8)?)?;
    let symbol = symbols.chunks_exact(size_of::<Symbol>()).find(|symbol| {
        let at = number(symbol, offset_of!(Symbol, st_name), 4).and_then(|at| names.checked_add(at));
        at.and_then(|at| bytes(file, at, name.len())) == Some(name)
    })?;
    number(symbol, offset_of!(Symbol, st_value), 8)
}

/// Returns `len` bytes from `at`.
fn bytes(file: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    file.get(at..at.checked_add(len)?)
}

/// Returns the number of `len` bytes at `at`.
fn number(file: &[u8], at: usize, len: usize) -> Option<usize> {
    let mut word = [0; 8];
    word[..len].copy_from_slice(bytes(file, at, len)?);
    Some(usize::from_le_bytes(word))
}
