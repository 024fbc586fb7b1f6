//! Short files that the kernel writes, read without an allocation: for the monitor (I4), for children of
//! forks, and for what is asked often.

use std::ffi::{CStr, c_int};
use std::io;

/// The folder against which paths from the root are looked up.
pub(super) const ROOT: c_int = libc::AT_FDCWD;

/// Reads the file at `path` into `into`, as far as there is room. A path that is not from the root is one in
/// `folder`.
pub(super) fn read<'a>(folder: c_int, path: &CStr, into: &'a mut [u8]) -> io::Result<&'a [u8]> {
    const FLAGS: c_int = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero byte.
    let fd = again(|| unsafe { libc::openat(folder, path.as_ptr(), FLAGS) } as isize)? as c_int;
    // The kernel gives such a file in one piece. `pread`, because a thread's `read` of what it is doing would
    // find that call.
    // SAFETY: `into` is written for at most its length.
    let read = again(|| unsafe { libc::pread(fd, into.as_mut_ptr().cast(), into.len(), 0) });
    // SAFETY: opened above.
    unsafe { libc::close(fd) };
    Ok(&into[..read?])
}

/// Does what [`read`] does, for a file that is text.
pub(super) fn read_text<'a>(folder: c_int, path: &CStr, into: &'a mut [u8]) -> io::Result<&'a str> {
    str::from_utf8(read(folder, path, into)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Makes a system call until no signal interrupts it.
fn again(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(result) = usize::try_from(call()) {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns what a `stat` file says after the name of a process or thread: its state, and numbers. A name may
/// contain anything, even `)`. Nothing after it does, so the last one ends it.
pub(super) fn after_name(stat: &[u8]) -> Option<&str> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    str::from_utf8(&stat[end + 1..]).ok()
}
