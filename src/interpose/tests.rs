//! Calls of the process, next to calls of a kernel thread with descriptors of its own.

use std::io::{self, Write};
use std::os::fd::AsRawFd;

use crate::sys::task_state::Tasks;
use crate::thread::ThreadState;
use crate::{Mxn, Runtime};

/// The monitor closes files of its own all the time.
#[test]
fn what_the_monitor_closes_ends_no_wait_for_that_number() {
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    let number = reader.as_raw_fd();
    let waiting = rt.spawn(move || {
        let mut byte = [0_u8];
        // SAFETY: one byte.
        let n = unsafe { super::bytes::read(number, byte.as_mut_ptr().cast(), 1) };
        (n, byte)
    });
    let waits = || {
        let threads = rt.threads();
        threads
            .iter()
            .any(|it| it.id() == waiting.thread().id() && matches!(it.state(), ThreadState::Waiting { .. }))
    };
    while !waits() {
        std::thread::yield_now();
    }
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
    writer.write_all(&[7]).unwrap();
    assert_eq!(waiting.join().unwrap(), (1, [7]));
}
