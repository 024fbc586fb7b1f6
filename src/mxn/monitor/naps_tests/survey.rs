//! The monitor looks at every LWP that has a kernel thread, now and then.

use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::super::Monitor;
use crate::mxn::Builder;
use crate::mxn::sched::Scheduler;
use crate::runtime::Runtime;
use crate::sys::task_state::Tasks;

const READERS: usize = 12;

/// Reads a byte by a call that is not answered for green threads (`interpose`): the LWP blocks.
fn read_in_kernel(pipe: &PipeReader) {
    let mut byte = 0_u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: room for one byte.
    let read =
        unsafe { libc::syscall(libc::SYS_preadv2, pipe.as_raw_fd(), &raw const part, 1, -1_i64, 0, 0) };
    assert_eq!(read, 1);
}

/// If many LWPs have ended, one that is left may have a higher number than there are LWPs. Its thread, back
/// from the kernel, computed unseen.
#[test]
fn the_last_of_many_is_looked_at() {
    // Without slices: a thread that is slow beside another load would be preempted, which brings many spares.
    let age = Some(Duration::from_millis(20));
    let rt = Builder::default().concurrency(1).time_slice(None).lwp_age(age).build().unwrap();
    // SAFETY: the runtime owns a share of the scheduler, and is dropped last.
    let scheduler: &'static Scheduler = unsafe { &*std::sync::Arc::as_ptr(&rt.scheduler) };
    let (tell, told) = channel();
    let (mut readers, mut writers): (Vec<_>, Vec<(u32, PipeWriter)>) = (Vec::new(), Vec::new());
    for _ in 0..READERS {
        let (reader, writer) = std::io::pipe().unwrap();
        let tell = tell.clone();
        readers.push(rt.spawn(move || {
            tell.send(scheduler.here().unwrap().1.index).unwrap();
            read_in_kernel(&reader);
        }));
        // Each runs on an LWP of its own: the previous LWP is asleep.
        writers.push((told.recv().unwrap(), writer));
    }
    // The last reader's slot is wanted, too: its LWP has none when it comes back.
    rt.spawn(|| ()).join().unwrap();
    writers.sort_by_key(|(number, _)| *number);
    let (last, mut writer) = writers.pop().unwrap();
    writers.into_iter().for_each(|(_, mut writer)| writer.write_all(&[1]).unwrap());
    let limit = Instant::now() + Duration::from_secs(40);
    while scheduler.pool.len() > last as usize {
        assert!(Instant::now() < limit, "LWPs do not end: {}", rt.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut monitor = Monitor::new(scheduler, Tasks::SHARED);
    // From here on the LWP is dormant, or at least no reason for a look.
    monitor.round();
    let mut is_seen = || {
        monitor.survey(scheduler.clock.now());
        monitor.awake.contains(&last)
    };
    let turns = 2 * scheduler.pool.reach();
    assert!((0..turns).any(|_| is_seen()), "{last} is not looked at: {}", rt.stats());
    writer.write_all(&[1]).unwrap();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}
