//! Page faults that wait: for a thread that fills the page, as the kernel lets a process do for itself
//! (`userfaultfd`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

const PAGE: usize = 4096;

/// `UFFDIO_API`: the version, and what is wanted of it.
const API: libc::Ioctl = 0xC018_AA3F_u32 as libc::Ioctl;
/// `UFFDIO_REGISTER`: the pages with faults that wait.
const REGISTER: libc::Ioctl = 0xC020_AA00_u32 as libc::Ioctl;
/// `UFFDIO_ZEROPAGE`: fills pages, and wakes the threads that wait for them.
const ZERO_PAGE: libc::Ioctl = 0xC020_AA04_u32 as libc::Ioctl;

/// A page that is not there until a thread fills it.
pub(crate) struct Fault {
    page: *mut u8,
    fills: OwnedFd,
}

// SAFETY: the page is read as an atomic, and filled by the kernel.
unsafe impl Sync for Fault {}

impl Fault {
    /// # Errors
    /// The kernel does not let this process have any.
    pub(crate) fn new() -> io::Result<Self> {
        const USER_MODE_ONLY: i64 = 1;
        // SAFETY: makes a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, i64::from(libc::O_CLOEXEC) | USER_MODE_ONLY) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: new, and ours alone.
        let fills = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        ioctl(&fills, API, &mut [0xAA_u64, 0, 0])?;
        let access = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, access.0, access.1, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let fault = Self { page: page.cast(), fills };
        const MISSING: u64 = 1;
        ioctl(&fault.fills, REGISTER, &mut [fault.page.addr() as u64, PAGE as u64, MISSING, 0])?;
        Ok(fault)
    }

    /// Reads the page: returns when it has been filled.
    pub(crate) fn touch(&self) {
        // SAFETY: mapped as long as we live.
        assert_eq!(unsafe { AtomicU8::from_ptr(self.page) }.load(Ordering::Relaxed), 0);
    }

    pub(crate) fn fill(&self) {
        ioctl(&self.fills, ZERO_PAGE, &mut [self.page.addr() as u64, PAGE as u64, 0, 0]).unwrap();
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // SAFETY: ours, and no thread reads it any more.
        unsafe { libc::munmap(self.page.cast(), PAGE) };
    }
}

/// `words`: the structure that the request wants.
fn ioctl<const N: usize>(fd: &OwnedFd, request: libc::Ioctl, words: &mut [u64; N]) -> io::Result<()> {
    // SAFETY: the structure of each request above has as many words.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request, words.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
