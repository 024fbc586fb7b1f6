//! The system refuses: kernel threads, address space.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use selvedge::thread::{self, Builder, JoinHandle};
use selvedge::{Mxn, Runtime};

use super::{child, mxn, onetoone};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("few_kernel_threads_mxn", || {
        // Started before the limit: green threads need no kernel threads, bound ones do.
        let runtime = mxn();
        limit_kernel_threads(4);
        until_refused(&runtime, true, 64, 0);
        until_refused(&runtime, false, 64, 64);
    }),
    ("few_kernel_threads_onetoone", || {
        let runtime = onetoone();
        limit_kernel_threads(8);
        until_refused(&runtime, false, 64, 1);
    }),
    ("refused_closure_panics_mxn", || {
        let runtime = mxn();
        limit_kernel_threads(4);
        refuse_a_closure_that_panics(runtime);
    }),
    ("refused_closure_panics_onetoone", || {
        let runtime = onetoone();
        limit_kernel_threads(4);
        refuse_a_closure_that_panics(runtime);
    }),
    ("too_few_kernel_threads_to_start", || {
        limit_kernel_threads(4);
        let before = tasks();
        let error = Mxn::builder().concurrency(32).build().expect_err("32 LWPs do not fit");
        println!("{error}");
        assert!(!error.to_string().is_empty());
        wait_for_tasks(before);
    }),
    ("a_start_that_was_refused", || {
        limit_kernel_threads(0);
        set_kernel_threads(|_| 0);
        let error = Mxn::new().expect_err("not one LWP fits");
        println!("{error}");
        assert_ne!(error.kind(), ErrorKind::Unsupported, "it is supported, at another time");
        set_kernel_threads(|most| most);
        assert_eq!(mxn().run(|| 5), 5);
    }),
    ("little_memory_mxn", || {
        let runtime = mxn();
        limit_memory(2 << 30);
        until_refused(&runtime, false, 1_000_000, 100);
        // What was given back can be used again.
        until_refused(&runtime, false, 1_000_000, 100);
    }),
    ("little_memory_onetoone", || {
        let runtime = onetoone();
        limit_memory(1 << 30);
        until_refused(&runtime, false, 1_000_000, 10);
    }),
    ("few_mappings_onetoone", || {
        let Some(limit) = number_in("/proc/sys/vm/max_map_count").filter(|&limit| limit < 200_000) else {
            return println!("skipped: so many mappings are allowed that memory runs out first");
        };
        // Four for each thread.
        use_up_mappings(limit.saturating_sub(3_000));
        let runtime = onetoone();
        until_refused(&runtime, false, 20_000, 10);
        until_refused(&runtime, false, 20_000, 10);
    }),
    ("one_stack_too_large", || {
        limit_memory(2 << 30);
        let runtime = mxn();
        let error =
            runtime.spawn_with(Builder::new().stack_size(16 << 30), || ()).expect_err("16 GiB do not fit");
        println!("{error}");
        assert_eq!(runtime.spawn(|| 5).join().expect("a thread of the usual size"), 5);
    }),
];

/// From now on this process may have `more` kernel threads than it has now.
fn limit_kernel_threads(more: u64) {
    // The kernel does not limit root, so take another user's id, with no other processes.
    // SAFETY: no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let have = if root { tasks() } else { tasks_of_user() };
    set_kernel_threads(|_| have as u64 + more);
    if root {
        // A user that no account of this machine has.
        let unused_uid = 1 << 30;
        // SAFETY: no preconditions.
        let failed = unsafe { libc::setresuid(unused_uid, unused_uid, unused_uid) };
        assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    }
}

/// From now on this process's user may have so many kernel threads: `limit` of the most that it may allow.
fn set_kernel_threads(limit: impl Fn(u64) -> u64) {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &mut now) }, 0);
    now.rlim_cur = limit(now.rlim_max);
    // SAFETY: a limit to read.
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &now) };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
}

/// From now on this process may map `more` bytes than it has now.
fn limit_memory(more: u64) {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("proc");
    let pages: u64 = pages.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    let bytes = pages * 4096 + more;
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a limit to read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    // One heap for all threads. Otherwise the C library would take 128 MiB for each of the first threads
    // when it runs. Nothing would be left for std's signal stacks of the threads that were started before.
    #[cfg(target_env = "gnu")]
    // SAFETY: a number to set.
    let done = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    // musl has one heap.
    #[cfg(not(target_env = "gnu"))]
    let done = 1;
    assert_eq!(done, 1);
}

/// From now on this process has so many mappings more.
pub(crate) fn use_up_mappings(count: usize) {
    let page = 4096;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping where the kernel likes disturbs nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), count * page, libc::PROT_READ, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    for number in (1..count).step_by(2) {
        // SAFETY: a page of the mapping above, which is not used.
        let failed = unsafe { libc::mprotect(start.wrapping_byte_add(number * page), page, libc::PROT_NONE) };
        assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    }
}

pub(crate) fn number_in(file: &str) -> Option<usize> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The kernel threads of this process.
fn tasks() -> usize {
    std::fs::read_dir("/proc/self/task").expect("proc").count()
}

/// All kernel threads of this process's user.
fn tasks_of_user() -> usize {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: no preconditions.
    let me = unsafe { libc::geteuid() };
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    let mine = processes.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == me));
    mine.filter_map(|entry| std::fs::read_dir(entry.path().join("task")).ok()).map(Iterator::count).sum()
}

/// Kernel threads disappear a moment after they were joined.
fn wait_for_tasks(most: usize) {
    while tasks() > most {
        std::thread::yield_now();
    }
}

/// Spawns threads that wait until the system refuses one, or `most` stand; at least `least` must. Then
/// all of them must end well, and the refused one's closure must be gone.
fn until_refused<R: Runtime>(runtime: &R, bound: bool, most: usize, least: usize) {
    let closure = Arc::new(AtomicUsize::new(0));
    let mut threads: Vec<JoinHandle<()>> = Vec::with_capacity(most);
    let refusal = loop {
        if threads.len() == most {
            break None;
        }
        let captured = closure.clone();
        let spawned = runtime.spawn_with(Builder::new().bound(bound), move || {
            thread::park();
            captured.fetch_add(1, Ordering::Relaxed);
        });
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => break Some(error),
        }
    };
    let count = threads.len();
    for thread in &threads {
        thread.thread().unpark();
    }
    for thread in threads {
        thread.join().expect("a thread that was started");
    }
    assert_eq!(closure.load(Ordering::Relaxed), count, "a thread was lost");
    assert_eq!(Arc::strong_count(&closure), 1, "the closure of the refused thread was kept");
    println!("{count} threads, then: {refusal:?}");
    assert!(count >= least, "only {count} threads");
    match refusal {
        Some(error) => {
            assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory), "{error:?}");
            assert!(error.to_string().contains("limit"), "the error does not say what to look at: {error}");
        }
        None => assert_eq!(least, most, "the limit was not reached"),
    }
    // Green again: one more is possible.
    assert_eq!(runtime.spawn(|| 7).join().expect("a thread"), 7);
}

#[test]
fn the_limit_of_kernel_threads_is_reached() {
    child::run("few_kernel_threads_mxn", &[]).expect_success();
    // The limit is the user's. Other programs may take what was free when it was set.
    let taken = |ended: &child::Ended| ended.said.contains("only 0 threads");
    let played = (0..10).map(|_| child::run("few_kernel_threads_onetoone", &[])).find(|ended| !taken(ended));
    played.expect("threads of other programs").expect_success();
    child::run("too_few_kernel_threads_to_start", &[]).expect_success();
}

/// What the first runtime finds out about the C library is not that no thread could be made just then.
#[test]
fn a_start_that_was_refused_may_be_tried_again() {
    child::run("a_start_that_was_refused", &[]).expect_success();
}

/// Spawns threads that own a kernel thread until the system refuses one. The closure of that thread panics
/// when it is dropped. The thread must not be counted, or the runtime would never end.
fn refuse_a_closure_that_panics<R: Runtime>(runtime: R) {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the closure of a thread that did not start is dropped");
        }
    }
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    loop {
        assert!(threads.len() < 64, "the limit was not reached");
        let bomb = Bomb;
        let spawn = || {
            runtime.spawn_with(Builder::new().bound(true), move || {
                thread::park();
                std::mem::forget(bomb);
            })
        };
        match catch_unwind(AssertUnwindSafe(spawn)) {
            Ok(spawned) => threads.push(spawned.expect("the closure panics")),
            Err(_panic) => break,
        }
    }
    assert_eq!(runtime.info().threads, threads.len());
    for thread in threads {
        thread.thread().unpark();
        thread.join().expect("a thread that was started");
    }
    drop(runtime);
    println!("the runtime has ended");
}

#[test]
fn a_closure_that_panics_when_its_thread_is_refused_leaves_no_thread_behind() {
    child::run("refused_closure_panics_mxn", &[]).expect_success();
    child::run("refused_closure_panics_onetoone", &[]).expect_success();
}

#[test]
fn memory_runs_out() {
    child::run("little_memory_mxn", &[]).expect_success();
    child::run("little_memory_onetoone", &[]).expect_success();
    child::run("one_stack_too_large", &[]).expect_success();
}

#[test]
fn the_limit_of_mappings_is_reached() {
    child::run("few_mappings_onetoone", &[]).expect_success();
}
