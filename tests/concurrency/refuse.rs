//! A kernel that refuses a system call, by a filter.

use std::io;

/// From now on no thread of this process is given an alternate signal stack: `sigaltstack` says that
/// there is no memory.
#[allow(dead_code, reason = "shared")]
pub(crate) fn alternate_stacks() {
    call(libc::SYS_sigaltstack, libc::ENOMEM);
}

/// Makes every later call of this number fail with this error, in all threads of this process.
pub(crate) fn call(number: libc::c_long, error: libc::c_int) {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let compare = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        // The number of the call stands first in what is looked at.
        step(load, 0, 0, 0),
        step(compare, 0, 1, u32::try_from(number).expect("a small number")),
        step(give, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        step(give, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: no memory is involved.
    let rc = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(rc, 0, "{}", io::Error::last_os_error());
    // SAFETY: the program is read before the call returns. It holds for all threads of the process.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    assert_eq!(rc, 0, "{}", io::Error::last_os_error());
}
