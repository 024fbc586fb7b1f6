//! A pipe to block on in the kernel, with calls that no runtime knows of.

/// A pipe of single bytes.
pub(crate) struct Pipe([libc::c_int; 2]);

impl Pipe {
    pub(crate) fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: a place for two.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        Self(ends)
    }

    /// Waits in the kernel for one byte.
    pub(crate) fn read(&self) {
        let mut byte = 0_u8;
        loop {
            // SAFETY: a place for one byte.
            match unsafe { libc::read(self.0[0], (&raw mut byte).cast(), 1) } {
                1 => return,
                // A signal, perhaps of preemption.
                read => assert_eq!(
                    (read, std::io::Error::last_os_error().kind()),
                    (-1, std::io::ErrorKind::Interrupted)
                ),
            }
        }
    }

    /// Lets `n` readers go on.
    pub(crate) fn write(&self, n: usize) {
        let bytes = vec![0_u8; n];
        // SAFETY: readable for its length, which is less than a pipe holds.
        let written = unsafe { libc::write(self.0[1], bytes.as_ptr().cast(), n) };
        assert_eq!(usize::try_from(written), Ok(n));
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        for end in self.0 {
            // SAFETY: made by `new`, and closed nowhere else.
            unsafe { libc::close(end) };
        }
    }
}
