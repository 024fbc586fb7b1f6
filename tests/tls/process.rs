//! Child processes started from a thread that has a control block of its own.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::ptr::{null, null_mut};

use super::crew::crew;

pub(crate) fn commands_with_pre_exec() -> usize {
    crew(4, |member| {
        for round in 0..3 {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &format!("echo {} && exit {round}", member.index)]);
            // SAFETY: nothing is touched after the fork. Having a closure at all keeps std from using
            // posix_spawn.
            unsafe { command.pre_exec(|| Ok(())) };
            let output = command.output().expect("a shell");
            assert_eq!(output.status.code(), Some(round));
            assert_eq!(output.stdout, format!("{}\n", member.index).as_bytes());
            member.hop();
            let plain = Command::new("/bin/true").status().expect("true");
            assert!(plain.success());
            member.hop();
        }
    })
}

/// Forks, runs `child` there, and gives how it ended.
fn forked(child: fn() -> i32) -> ExitStatus {
    // SAFETY: the child calls only what works after a fork of a program with many threads in glibc, and
    // leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no memory is involved. Ends a child that hangs.
        unsafe { libc::alarm(60) };
        let code = child();
        // SAFETY: no preconditions.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: a child of this process and a place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    ExitStatus::from_raw(status)
}

/// Starts a kernel thread and waits for its end. Not by std, whose threads take a lock of std when they start
/// and end: a child that is forked meanwhile gets a copy of that lock that stays locked.
fn five_of_a_thread() -> i32 {
    extern "C" fn five(_: *mut c_void) -> *mut c_void {
        std::ptr::without_provenance_mut(5)
    }
    let (mut thread, mut result) = (MaybeUninit::uninit(), null_mut());
    // SAFETY: a place for the thread, usual attributes, and a function that uses no argument.
    let refused = unsafe { libc::pthread_create(thread.as_mut_ptr(), null(), five, null_mut()) };
    if refused != 0 {
        return refused;
    }
    // SAFETY: written by the call, which has succeeded.
    let thread = unsafe { thread.assume_init() };
    // SAFETY: the thread was started above, and is joined once.
    match unsafe { libc::pthread_join(thread, &mut result) } {
        0 => result.addr() as i32,
        error => error,
    }
}

pub(crate) fn forked_children_work() -> usize {
    crew(2, |member| {
        member.hop();
        assert_eq!(forked(|| 7).code(), Some(7), "an empty child");
        member.hop();
        let allocating =
            forked(|| i32::from(vec![1_u8; 100_000].iter().map(|&n| n as usize).sum::<usize>() != 100_000));
        assert_eq!(allocating.code(), Some(0), "a child that allocates");
        member.hop();
        let threaded = forked(five_of_a_thread);
        assert_eq!(threaded.code(), Some(5), "a child that starts a kernel thread");
        member.hop();
    })
}
