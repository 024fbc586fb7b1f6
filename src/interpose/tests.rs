//! Calls of the process, next to calls of a kernel thread with descriptors of its own.

use std::ffi::c_int;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use crate::sys::task_state::Tasks;
use crate::thread::{JoinHandle, ThreadState};
use crate::{Mxn, Runtime};

/// The monitor closes files of its own all the time.
#[test]
fn what_the_monitor_closes_ends_no_wait_for_that_number() {
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let (waiting, number, writer) = reads(&rt);
    let waits = || waits(&rt, &waiting);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let tasks = Tasks::private();
            // A wait that ends for nothing this often would go on in the kernel.
            for _ in 0..100 * usize::from(tasks.are_private()) {
                // SAFETY: the number is not in this thread's table.
                assert_eq!(unsafe { super::bytes::close(number) }, -1);
                assert!(waits());
            }
        });
    });
    ends(waiting, writer);
}

/// The wait ended for nothing, and after some of these, the thread waited in the kernel.
#[test]
fn a_descriptor_that_is_not_replaced_is_waited_for() {
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let (waiting, number, writer) = reads(&rt);
    for _ in 0..100 {
        // SAFETY: there is no such descriptor.
        assert_eq!(unsafe { super::bytes::dup2(-1, number) }, -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
        // SAFETY: as above.
        assert_eq!(unsafe { super::bytes::dup3(-1, number, 0) }, -1);
        assert!(waits(&rt, &waiting));
    }
    ends(waiting, writer);
}

type Reads = JoinHandle<(libc::ssize_t, [u8; 1])>;

/// Starts a thread that waits for a byte. Returns the number of the descriptor, and the other end.
fn reads(rt: &Mxn) -> (Reads, c_int, io::PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let number = reader.as_raw_fd();
    let waiting = rt.spawn(move || {
        let _reader = reader;
        let mut byte = [0_u8];
        // SAFETY: one byte.
        let n = unsafe { super::bytes::read(number, byte.as_mut_ptr().cast(), 1) };
        (n, byte)
    });
    while !waits(rt, &waiting) {
        std::thread::yield_now();
    }
    (waiting, number, writer)
}

fn waits(rt: &Mxn, waiting: &Reads) -> bool {
    let threads = rt.threads();
    let mut own = threads.iter().filter(|it| it.id() == waiting.thread().id());
    own.any(|it| matches!(it.state(), ThreadState::Waiting { .. }))
}

fn ends(waiting: Reads, mut writer: io::PipeWriter) {
    writer.write_all(&[7]).unwrap();
    assert_eq!(waiting.join().unwrap(), (1, [7]));
}
