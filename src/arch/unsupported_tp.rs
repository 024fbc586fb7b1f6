//! No thread register that this crate knows how to switch: neither way of writing it is offered, so none is called.

/// Whether an unprivileged instruction writes the register; `hwcap2` is `AT_HWCAP2` of the auxiliary vector.
pub(crate) const fn can_write(_hwcap2: usize) -> bool {
    false
}

/// Whether a system call writes it.
pub(crate) const SYSCALL: bool = false;

/// The register of the calling kernel thread.
pub(crate) fn read() -> usize {
    unreachable!("no thread register on this machine")
}

/// # Safety
/// Not to be called: see [`can_write`].
pub(crate) unsafe fn write(_tp: usize) {
    unreachable!("no thread register on this machine")
}

/// # Safety
/// Not to be called: see [`SYSCALL`].
pub(crate) unsafe fn write_syscall(_tp: usize) {
    unreachable!("no thread register on this machine")
}

/// Returns 0: this architecture has no other register of this kind.
pub(crate) fn read_other(_can_write: bool) -> usize {
    0
}

/// Does nothing: this architecture has no other register of this kind.
pub(crate) fn write_other(_can_write: bool, _base: usize) {}
