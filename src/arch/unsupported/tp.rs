//! No thread register that this crate can switch: names to compile against, which are never called.

/// `false`: no system call writes it.
pub(crate) const SYSCALL: bool = false;

stand_in! {
    /// Returns `false`: no unprivileged instruction writes the register.
    pub(crate) const fn can_write(hwcap2: usize) -> bool = false;
    /// Returns the register of the calling kernel thread.
    pub(crate) fn read() -> usize = unreachable!("no thread register on this machine");
    /// # Safety
    /// Not to be called: see [`can_write`].
    pub(crate) unsafe fn write(tp: usize) = unreachable!("no thread register on this machine");
    /// # Safety
    /// Not to be called: see [`SYSCALL`].
    pub(crate) unsafe fn write_syscall(tp: usize) = unreachable!("no thread register on this machine");
    /// Returns 0: this architecture has no other register of this kind.
    pub(crate) fn read_other(can_write: bool) -> usize = 0;
    /// Does nothing: this architecture has no other register of this kind.
    pub(crate) fn write_other(can_write: bool, base: usize) = ();
}
