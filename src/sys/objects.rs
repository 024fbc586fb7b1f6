//! What the loader has loaded: the main program and libraries.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::slice;

use super::fork::held_off;

/// The tags of the table of names of dynamic symbols, and of its length in bytes.
const DT_STRTAB: usize = 5;
const DT_STRSZ: usize = 10;

/// An object, while it is shown.
pub(crate) struct Object<'a>(&'a libc::dl_phdr_info);

impl Object<'_> {
    fn headers(&self) -> &[libc::Elf64_Phdr] {
        // SAFETY: the program headers of an object that is loaded.
        unsafe { slice::from_raw_parts(self.0.dlpi_phdr, self.0.dlpi_phnum.into()) }
    }

    fn addresses(&self, part: &libc::Elf64_Phdr) -> Range<usize> {
        let start = self.0.dlpi_addr.wrapping_add(part.p_vaddr) as usize;
        start..start.saturating_add(part.p_memsz as usize)
    }

    /// Returns the path under which the loader found it. Empty for the main program.
    pub(super) fn path(&self) -> &CStr {
        // SAFETY: a string that ends with a zero byte, as long as the object is shown.
        unsafe { CStr::from_ptr(self.0.dlpi_name) }
    }

    /// Returns what its addresses are relative to.
    pub(super) fn base(&self) -> usize {
        self.0.dlpi_addr as usize
    }

    /// Returns its notes, each with its place in the file.
    pub(super) fn notes(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.headers().iter().filter(|part| part.p_type == libc::PT_NOTE).map(|part| {
            let start = std::ptr::with_exposed_provenance(self.addresses(part).start);
            // SAFETY: notes are loaded with the object that is shown, and never written.
            (part.p_offset as usize, unsafe { slice::from_raw_parts(start, part.p_filesz as usize) })
        })
    }

    /// Returns where its code is.
    pub(crate) fn code(&self) -> impl Iterator<Item = Range<usize>> {
        let is_code =
            |part: &&libc::Elf64_Phdr| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_X != 0;
        self.headers().iter().filter(is_code).map(|part| self.addresses(part))
    }

    /// Returns where the index of its unwind tables is (`.eh_frame_hdr`), if it has one. What follows it in
    /// memory belongs to the object up to the end of the range; the tables themselves are there, too, as a
    /// rule.
    pub(crate) fn unwind_tables(&self) -> Option<(Range<usize>, Range<usize>)> {
        let index = self.headers().iter().find(|part| part.p_type == libc::PT_GNU_EH_FRAME)?;
        let index = self.addresses(index);
        let loaded = self.headers().iter().filter(|part| part.p_type == libc::PT_LOAD);
        let within = loaded.map(|part| self.addresses(part)).find(|part| part.contains(&index.start))?;
        Some((index, within))
    }

    /// Returns `true` if it defines a symbol of this name, or uses one of another object. Looks at the names
    /// of all dynamic symbols. So an object may also have a library or a version of this name, or a name that
    /// ends with it.
    pub(crate) fn mentions(&self, name: &CStr) -> bool {
        let Some(part) = self.headers().iter().find(|part| part.p_type == libc::PT_DYNAMIC) else {
            return false;
        };
        let start = std::ptr::with_exposed_provenance(self.addresses(part).start);
        let count = part.p_memsz as usize / size_of::<[usize; 2]>();
        // SAFETY: pairs of tag and value, of an object that is shown.
        let dynamic: &[[usize; 2]] = unsafe { slice::from_raw_parts(start, count) };
        let value = |tag: usize| dynamic.iter().find(|pair| pair[0] == tag).map(|pair| pair[1]);
        let (Some(at), Some(len)) = (value(DT_STRTAB), value(DT_STRSZ)) else { return false };
        // Some loaders leave it relative to the object.
        let at = if at < self.base() { at + self.base() } else { at };
        // SAFETY: the table of names of an object that is shown.
        let names = unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(at), len) };
        // A name that another one ends with may be stored as its end.
        names.split(|&byte| byte == 0).any(|it| it.ends_with(name.to_bytes()))
    }

    /// Returns `true` if it has code that the compiler wants to put on stacks.
    pub(super) fn wants_executable_stacks(&self) -> bool {
        self.headers().iter().any(|part| part.p_type == libc::PT_GNU_STACK && part.p_flags & libc::PF_X != 0)
    }

    /// Returns the first values of its thread-locals, and how many bytes of zeros follow them; `None`: it has
    /// no thread-locals.
    pub(super) fn thread_locals(&self) -> Option<(&[u8], usize)> {
        let part = self.headers().iter().find(|part| part.p_type == libc::PT_TLS)?;
        let image = std::ptr::with_exposed_provenance(self.addresses(part).start);
        // SAFETY: the object is mapped while it is shown, and this is its initialisation image.
        let image = unsafe { slice::from_raw_parts(image, part.p_filesz as usize) };
        Some((image, part.p_memsz.saturating_sub(part.p_filesz) as usize))
    }

    /// Returns its number among the modules with thread-locals; 0 if it has none yet.
    pub(super) fn module(&self) -> usize {
        self.0.dlpi_tls_modid
    }
}

/// Shows all objects, the main program first. Takes a lock of the loader, which is held meanwhile.
pub(crate) fn each<F: FnMut(&Object<'_>)>(mut show: F) {
    unsafe extern "C" fn visit<F: FnMut(&Object<'_>)>(
        info: *mut libc::dl_phdr_info,
        size: usize,
        show: *mut c_void,
    ) -> c_int {
        if size >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: the loader lends it for the call, in full.
            let info = unsafe { &*info };
            // SAFETY: this is what was passed below.
            let show = unsafe { &mut *show.cast::<F>() };
            show(&Object(info));
        }
        0
    }
    // SAFETY: the function uses only what it is passed.
    held_off(|| unsafe { libc::dl_iterate_phdr(Some(visit::<F>), (&raw mut show).cast()) });
}
