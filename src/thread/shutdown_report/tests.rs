//! Shutdowns that wait, and their reports of what has not ended.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use super::{Ended, KernelThreadInfo, ShutdownTimeout, ThreadId, ThreadInfo, ThreadState, drain, see_off};
use crate::park::priority::Priority;
use crate::time;

#[test]
fn kernel_threads_at_their_end_have_a_line_each() {
    let asleep = |tid| tid == 3;
    let id = NonZeroU64::new(7).unwrap();
    let ended = Ended { id, name: Some("worker".into()), tid: Some(3) };
    let named = KernelThreadInfo::of_ended(ended, asleep);
    assert_eq!(named.thread(), Some(ThreadId::from_number(id)));
    assert_eq!((named.name(), named.state()), (Some("worker"), ThreadState::InKernel { tid: 3 }));
    let state = ThreadState::on_kernel_thread(Some(4), asleep);
    let helper = KernelThreadInfo { thread: None, name: None, state };
    assert_eq!((helper.thread(), helper.name()), (None, None));
    assert_eq!(helper.state(), ThreadState::Running { tid: Some(4) });
    let lines = ["at its end: running on kernel thread 4", "\"worker\": in the kernel, on kernel thread 3"];
    assert_eq!(helper.to_string(), lines[0]);
    assert!(named.to_string().ends_with(lines[1]), "{named}");
    let one = ShutdownTimeout::at_their_end(vec![helper.clone()]);
    assert_eq!((one.threads().len(), one.kernel_threads().len()), (0, 1));
    let text = format!("all threads have stopped, but 1 kernel thread has not:\n  {helper}");
    assert_eq!(one.to_string(), text);
    let two = ShutdownTimeout::at_their_end(vec![named.clone(), helper.clone()]);
    let text = format!("all threads have stopped, but 2 kernel threads have not:\n  {named}\n  {helper}");
    assert_eq!(two.to_string(), text);
}

#[test]
fn threads_that_have_not_stopped_have_a_line_each() {
    let info = |number| ThreadInfo {
        id: ThreadId::from_number(NonZeroU64::new(number).unwrap()),
        name: None,
        state: ThreadState::Runnable,
        lwp: None,
        cpu: None,
        owns: None,
        bound: false,
        priority: Priority::Normal,
        called: None,
        owner: None,
        times: None,
        maker: None,
        stack: None,
        backtrace: None,
    };
    let (one, other) = (info(1), info(2));
    assert_eq!(ShutdownTimeout::new(Vec::new()).to_string(), "0 threads have not stopped");
    assert_eq!(
        ShutdownTimeout::new(vec![one.clone()]).to_string(),
        format!("1 thread has not stopped:\n  {one}")
    );
    let both = ShutdownTimeout::new(vec![one.clone(), other.clone()]);
    assert_eq!(both.to_string(), format!("2 threads have not stopped:\n  {one}\n  {other}"));
}

#[test]
fn a_shutdown_interrupts_when_half_of_its_time_is_over() {
    let (begin, first) = (Instant::now(), Cell::new(None));
    let timeout = Duration::from_millis(40);
    let note = || _ = first.replace(first.get().or(Some(begin.elapsed())));
    assert!(!drain(timeout, || false, note));
    assert!(begin.elapsed() >= timeout);
    assert!(first.get().unwrap() >= timeout / 2);
    first.set(None);
    assert!(drain(Duration::ZERO, || true, note));
    assert_eq!(first.get(), None, "all have ended");
}

/// Kernel threads get some time for their way out, even if the deadline is short.
#[test]
fn kernel_threads_are_waited_for_at_their_end() {
    let looks = Cell::new(0);
    let gone_at_the_third = || looks.replace(looks.get() + 1) == 2;
    assert!(see_off(Some(time::now()), gone_at_the_third));
    assert!(!see_off(Some(time::now()), || false));
}
