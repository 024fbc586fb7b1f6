//! Blocks by themselves. A kernel thread borrows one for the length of a closure, by writing its thread
//! register and nothing else. What needs a stack of its own is tested above this layer.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::arch::tp;
use crate::sys::mmap::{Mapping, page_size};
use std::ffi::c_void;

mod calibration;
mod holes;
mod modules;
mod robust;
mod unexported;

/// glibc needs no context aside.
const NOWHERE: Aside = Aside { call: |_, _| unreachable!(), back: |_| unreachable!() };

fn glibc() -> &'static Library {
    Library::get().expect("this machine has a glibc that fits")
}

/// Tells that this process is a child that runs one test.
const CHILD: &str = "SELVEDGE_TEST_CHILD";

/// Runs a test that ends its process, or cannot have others beside it. Returns `true` in the child. Otherwise
/// runs the child, which is killed if it hangs. `judge` gets what it printed and how it ended.
fn in_child(test: &str, judge: impl FnOnce(&str, std::process::ExitStatus)) -> bool {
    if std::env::var_os(CHILD).is_some() {
        // SAFETY: takes a number.
        unsafe { libc::alarm(200) };
        return true;
    }
    let module = module_path!().split_once("::").unwrap().1;
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::{test}"), "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = [child.stdout, child.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("running 1 test"), "no such test: {test}");
    judge(&text, child.status);
    false
}

/// Does what `in_child` does, for a test that must succeed there.
fn alone(test: &str) -> bool {
    in_child(test, |text, status| {
        assert!(status.success(), "{status}: {text}");
        for line in text.lines().filter(|line| line.contains("skipped:")) {
            println!("{line}");
        }
    })
}

/// Returns the bytes that the C library's allocator has given out, from all its arenas. Its threads' caches
/// count as given out.
fn in_use() -> usize {
    type New = unsafe extern "C" fn() -> libc::mallinfo2;
    // SAFETY: public since 2.33: `struct mallinfo2 mallinfo2 (void)`.
    if let Ok(mallinfo2) = unsafe { symbols::function::<New>(c"mallinfo2") } {
        // SAFETY: takes nothing.
        let info = unsafe { mallinfo2() };
        return info.uordblks + info.hblkhd;
    }
    // Counts up to 2 GiB.
    // SAFETY: takes nothing.
    let info = unsafe { libc::mallinfo() };
    info.uordblks as usize + info.hblkhd as usize
}

/// A block, and some stack that only `pthread_exit` uses.
struct Slot {
    memory: Mapping,
    tp: usize,
}

impl Slot {
    fn new() -> Self {
        let memory = Mapping::reserve(glibc().reserve().next_multiple_of(page_size()) + (64 << 10)).unwrap();
        let tp = Self::create(&memory);
        Self { memory, tp }
    }

    fn create(memory: &Mapping) -> usize {
        // SAFETY: this is the end of the mapping.
        let top = unsafe { memory.start().add(memory.len()) };
        let reserve = glibc().reserve();
        // It may have held another block.
        // SAFETY: the end of the mapping, which nothing else uses.
        unsafe { top.wrapping_sub(reserve).write_bytes(0, reserve) };
        // SAFETY: page-aligned, and nothing else uses the mapping.
        unsafe { glibc().create(top, memory.start()) }.unwrap()
    }

    fn renew(&self) -> Renewed {
        // SAFETY: every `life` has ended.
        unsafe { glibc().renew(self.tp) }.unwrap()
    }

    /// Runs one thread's life: enter, run, exit, with the caller's stack.
    fn life<R>(&self, body: impl FnOnce() -> R) -> R {
        self.with(|| {
            // SAFETY: `with` has set the register to a fresh or renewed block.
            unsafe { glibc().enter() };
            let result = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: nothing of the body is left.
            unsafe { glibc().exit(&NOWHERE) };
            result
        })
        .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs a part of a life with the register alone.
    #[inline(never)]
    fn with<R>(&self, body: impl FnOnce() -> R) -> R {
        #[inline(never)]
        fn call<R>(body: impl FnOnce() -> R) -> R {
            body()
        }
        let own = tp::read();
        // SAFETY: the block is complete, and this function uses no thread-local.
        unsafe { tp::write_syscall(self.tp) };
        let result = call(body);
        // SAFETY: this is the register that the thread had.
        unsafe { tp::write_syscall(own) };
        result
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: its last life has ended.
        unsafe { glibc().destroy(self.tp) };
    }
}

fn errno() -> i32 {
    // SAFETY: takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the calling thread's.
    unsafe { errno.read() }
}

fn set_errno(value: i32) {
    // SAFETY: takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the calling thread's.
    unsafe { errno.write(value) };
}

#[test]
fn thread_locals_are_fresh_in_each_life_and_dropped_at_its_end() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Guard(usize);
    impl Drop for Guard {
        fn drop(&mut self) {
            DROPPED.fetch_add(self.0, Ordering::Relaxed);
        }
    }
    thread_local! {
        static PLAIN: Cell<usize> = const { Cell::new(17) };
        static LAZY: RefCell<Vec<Guard>> = const { RefCell::new(Vec::new()) };
    }
    PLAIN.set(1);
    let slot = Slot::new();
    for life in 1..=3 {
        slot.life(|| {
            assert_eq!(PLAIN.get(), 17, "life {life}");
            PLAIN.set(99);
            LAZY.with_borrow_mut(|guards| {
                assert!(guards.is_empty(), "life {life}");
                guards.push(Guard(1));
            });
        });
        assert_eq!(DROPPED.load(Ordering::Relaxed), life);
        assert_eq!(slot.renew(), Renewed::Reset);
    }
    assert_eq!(PLAIN.get(), 1);
}

#[test]
fn a_borrow_survives_a_change_of_kernel_thread() {
    thread_local!(static CELL: RefCell<i32> = const { RefCell::new(1) });
    struct Shared(Slot);
    // SAFETY: one thread at a time uses the slot: the other is joined first.
    unsafe impl Sync for Shared {}
    let slot = Shared(Slot::new());
    let slot = &slot;
    slot.0.with(|| {
        // SAFETY: a fresh block.
        unsafe { glibc().enter() };
        CELL.with(|cell| std::mem::forget(cell.borrow_mut()));
        set_errno(71);
    });
    std::thread::scope(|scope| {
        scope.spawn(move || {
            CELL.set(5);
            let slot = slot;
            let seen = slot.0.with(|| (CELL.with(|cell| cell.try_borrow().is_err()), errno()));
            assert_eq!(seen, (true, 71));
            assert_eq!(CELL.take(), 5);
        });
    });
    // SAFETY: the life ends here.
    slot.0.with(|| unsafe { glibc().exit(&NOWHERE) });
}

#[test]
fn ids_differ_between_blocks_and_lives() {
    let ids = Mutex::new(vec![std::thread::current().id()]);
    let slots = [Slot::new(), Slot::new()];
    for _ in 0..3 {
        for slot in &slots {
            let id = slot.life(|| std::thread::current().id());
            let mut ids = ids.lock().unwrap();
            assert!(!ids.contains(&id));
            ids.push(id);
            slot.renew();
        }
    }
}

#[test]
fn the_c_library_works_on_a_block() {
    let slot = Slot::new();
    for _ in 0..2 {
        slot.life(|| {
            assert_eq!(errno(), 0);
            // SAFETY: no arguments that could be wrong, here and below.
            assert_ne!(unsafe { libc::isalpha(b'x'.into()) }, 0);
            // SAFETY: no arguments that could be wrong.
            assert_eq!(unsafe { libc::close(-1) }, -1);
            assert_eq!(errno(), libc::EBADF);
            let mut text = *b"a,b\0";
            // SAFETY: both are C strings, the first is writable.
            let first = unsafe { libc::strtok(text.as_mut_ptr().cast(), c",".as_ptr()) };
            // SAFETY: what `strtok` found.
            assert_eq!(unsafe { std::ffi::CStr::from_ptr(first) }, c"a");
            // SAFETY: takes nothing.
            assert!(unsafe { libc::sched_getcpu() } >= 0);
            assert!(std::net::ToSocketAddrs::to_socket_addrs("localhost:1").unwrap().count() > 0);
        });
        slot.renew();
    }
}

#[test]
fn the_processor_is_asked_of_the_kernel() {
    // Zero in the block would say processor 0, whichever it is.
    let slot = Slot::new();
    let rebuilt = Slot::new();
    // SAFETY: no thread has used the block.
    unsafe { glibc().rebuild(rebuilt.tp) }.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    // SAFETY: plain data.
    let mut old: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as long as the argument says.
    unsafe { libc::sched_getaffinity(0, size_of_val(&old), &mut old) };
    // SAFETY: within the set.
    let allowed: Vec<usize> = (0..1024).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &old) }).collect();
    for &cpu in &allowed {
        // SAFETY: plain data.
        let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: within the set.
        unsafe { libc::CPU_SET(cpu, &mut one) };
        // SAFETY: as long as the argument says.
        assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) }, 0);
        // SAFETY: takes nothing.
        let ask = || unsafe { libc::sched_getcpu() };
        seen.insert(slot.with(ask) as usize);
        assert_eq!(rebuilt.with(ask), cpu as i32);
    }
    // SAFETY: the mask that was read above.
    unsafe { libc::sched_setaffinity(0, size_of_val(&old), &old) };
    assert_eq!(seen, allowed.into_iter().collect());
}

#[test]
fn memory_crosses_blocks() {
    let slots = [Slot::new(), Slot::new()];
    let boxes: Vec<Vec<u8>> = slots[0].with(|| (1..100).map(|len| vec![7; len * 10]).collect());
    let sum = slots[1].with(|| boxes.iter().flatten().map(|&byte| usize::from(byte)).sum::<usize>());
    assert_eq!(sum, 7 * 10 * 99 * 50);
    slots[1].life(|| drop(boxes));
    slots[0].life(|| ());
}

#[test]
fn threads_and_panics_work_on_a_block() {
    let slot = Slot::new();
    for _ in 0..2 {
        slot.life(|| {
            assert_eq!(std::thread::spawn(|| 5).join().unwrap(), 5);
            std::thread::scope(|scope| {
                let (send, receive) = std::sync::mpsc::sync_channel(0);
                scope.spawn(move || send.send(3).unwrap());
                assert_eq!(receive.recv(), Ok(3));
            });
            let payload = catch_unwind(|| resume_unwind(Box::new(9))).unwrap_err();
            assert_eq!(payload.downcast_ref::<i32>(), Some(&9));
            assert!(!std::thread::panicking());
        });
        slot.renew();
    }
}

#[test]
fn what_a_run_costs() {
    const N: u32 = 200_000;
    let slot = Slot::new();
    let timed = |body: &dyn Fn()| {
        let start = std::time::Instant::now();
        (0..N).for_each(|_| body());
        start.elapsed() / N
    };
    let renew = timed(&|| assert_eq!(slot.renew(), Renewed::Reset));
    // SAFETY: fresh, and nothing else runs on it.
    let enter = slot.with(|| timed(&|| unsafe { glibc().enter() }));
    // SAFETY: fresh, and nothing else runs on it.
    let exit = slot.with(|| timed(&|| unsafe { glibc().exit(&NOWHERE) }));
    let create = timed(&|| {
        // SAFETY: the block has ended, and its memory is reused at once.
        unsafe { glibc().destroy(slot.tp) };
        let tp = Slot::create(&slot.memory);
        assert_eq!(tp, slot.tp);
    });
    println!("renew {renew:?}, enter {enter:?}, exit {exit:?}, destroy and create {create:?}");
    println!("{:?}, reserve {}", glibc(), glibc().reserve());
}

/// The next thread would end the process at its first call that may be cancelled.
#[test]
fn a_request_to_cancel_does_not_outlive_its_thread() {
    if !alone("a_request_to_cancel_does_not_outlive_its_thread") {
        return;
    }
    unsafe extern "C" {
        fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
        safe fn pthread_testcancel();
    }
    const DISABLED: i32 = 1;
    let slot = Slot::new();
    slot.life(|| {
        let mut before = 0;
        // SAFETY: a place for the old state.
        assert_eq!(unsafe { pthread_setcancelstate(DISABLED, &mut before) }, 0);
        // SAFETY: takes nothing.
        let own = unsafe { libc::pthread_self() };
        // SAFETY: a thread that exists.
        assert_eq!(unsafe { libc::pthread_cancel(own) }, 0);
        pthread_testcancel();
    });
    slot.renew();
    slot.life(|| {
        let mut before = 0;
        // SAFETY: a place for the old state.
        assert_eq!(unsafe { pthread_setcancelstate(DISABLED, &mut before) }, 0);
        // SAFETY: a place for the old state.
        assert_eq!(unsafe { pthread_setcancelstate(1 - DISABLED, &mut before) }, 0);
        pthread_testcancel();
    });
}
