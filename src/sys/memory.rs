//! Copies of this process's own memory, which other threads may change, or unmap, meanwhile.
//!
//! The kernel copies (`process_vm_readv` on the process itself). So an address that is not mapped is an
//! error, not a fault. What the copy holds of memory that changes meanwhile is not known: the caller must
//! find out if it did.

use std::io;

/// What the kernel copies in whole: a copy ends at the first of these that is not readable.
const PIECE: usize = 4096;
/// The most pieces of one call.
const PIECES: usize = 64;

/// Copies the memory from `at` on into `into`, as far as it is readable. Returns how many bytes that is.
///
/// # Errors
///
/// The first byte is not readable, or a sandbox forbids the call.
pub(crate) fn read(at: usize, into: &mut [u8]) -> io::Result<usize> {
    let mut copied = 0;
    while copied < into.len() {
        match read_some(at.wrapping_add(copied), &mut into[copied..]) {
            Ok((read, wanted)) => {
                copied += read;
                if read < wanted {
                    break;
                }
            }
            Err(error) if copied == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(copied)
}

/// Returns `true` for the error that says that the first byte is not readable.
pub(crate) fn is_unmapped(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

/// Makes one call. Returns how many bytes were copied, and how many it asked for.
fn read_some(at: usize, into: &mut [u8]) -> io::Result<(usize, usize)> {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let (mut pieces, mut count, mut wanted) = ([nothing; PIECES], 0, 0);
    while wanted < into.len() && count < PIECES {
        let from = at.wrapping_add(wanted);
        let len = (PIECE - from % PIECE).min(into.len() - wanted);
        pieces[count] = libc::iovec { iov_base: std::ptr::without_provenance_mut(from), iov_len: len };
        (count, wanted) = (count + 1, wanted + len);
    }
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: wanted };
    // SAFETY: no memory is involved.
    let me = unsafe { libc::getpid() };
    // SAFETY: `to` lies in `into`. The kernel checks the pieces.
    let read =
        unsafe { libc::process_vm_readv(me, &raw const to, 1, pieces.as_ptr(), count as libc::c_ulong, 0) };
    usize::try_from(read).map(|read| (read, wanted)).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mmap::page_size;

    #[test]
    fn a_copy_ends_where_memory_does() {
        let (page, len) = (page_size(), 300 * PIECE);
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        assert_ne!(map, libc::MAP_FAILED);
        // SAFETY: the last page of the mapping above, which nothing has used.
        assert_eq!(unsafe { libc::munmap(map.wrapping_byte_add(len - page), page) }, 0);
        let (first, end) = (map.addr(), map.addr() + len - page);
        // SAFETY: the mapping is this test's, up to `end`.
        unsafe { map.cast::<u8>().write_bytes(7, len - page) };
        let mut bytes = vec![0; len];
        assert_eq!(read(first, &mut bytes).unwrap(), len - page);
        assert!(bytes[..len - page].iter().all(|&byte| byte == 7));
        assert_eq!(read(end - 24, &mut bytes[..100]).unwrap(), 24);
        assert_eq!(read(end - 24, &mut bytes[..20]).unwrap(), 20);
        assert!(is_unmapped(&read(end, &mut bytes[..8]).unwrap_err()));
        assert_eq!(read(first, &mut []).unwrap(), 0);
        // SAFETY: what is left of the mapping above.
        assert_eq!(unsafe { libc::munmap(map, len - page) }, 0);
    }
}
