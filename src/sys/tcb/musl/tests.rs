//! Blocks without threads, and the ends of threads in blocks.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, without_provenance_mut};

use super::*;
use crate::sys::child_tests as child;

fn library() -> &'static Library {
    Library::get().expect("this musl fits")
}

/// Makes a block for a stack that no thread will have.
fn block() -> usize {
    let (lowest, top) = (without_provenance_mut(1 << 20), without_provenance_mut(1 << 21));
    // SAFETY: no thread enters it.
    unsafe { library().create(top, lowest) }.unwrap()
}

#[test]
fn each_block_has_an_id_that_no_kernel_thread_can_have() {
    let blocks: Vec<usize> = (0..20).map(|_| block()).collect();
    // SAFETY: a field of a complete block.
    let tid = |tp: usize| unsafe { shape::peek::<u32>(tp + library().shape.tid) };
    let mut tids: Vec<u32> = blocks.iter().map(|&tp| tid(tp)).collect();
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids.len(), 20);
    assert!(tids.iter().all(|tid| TIDS.contains(tid)), "{tids:?}");
    for tp in blocks {
        // SAFETY: no thread has it.
        unsafe { library().destroy(tp) };
    }
}

/// What `dlopen`, `pthread_key_delete` and others do to all threads, they do to blocks, too.
#[test]
fn a_block_stands_in_the_ring_of_threads() {
    let tp = block();
    let mut key = 0;
    // SAFETY: a place for a key.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, None) }, 0);
    // SAFETY: the block has no thread, and the key exists.
    unsafe { library().shape.set_value(tp, key, 7) };
    // SAFETY: made above.
    assert_eq!(unsafe { libc::pthread_key_delete(key) }, 0);
    // SAFETY: the block has no thread.
    assert_eq!(unsafe { library().shape.value(tp, key) }, 0);
    // SAFETY: no thread has it.
    unsafe { library().destroy(tp) };
}

#[test]
fn the_library_knows_the_stack_of_a_block() {
    let tp = block();
    // SAFETY: plain data, filled in by the call below.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    let thread = ptr::with_exposed_provenance_mut::<c_void>(tp);
    // SAFETY: a block is what `pthread_t` points to, and a place for the attributes.
    assert_eq!(unsafe { libc::pthread_getattr_np(thread, &raw mut attributes) }, 0);
    let (mut low, mut size) = (ptr::null_mut(), 0);
    // SAFETY: attributes filled in above; two places to write to.
    unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size) };
    assert_eq!((low.addr(), size), (1 << 20, 1 << 20));
    // SAFETY: no thread has it.
    unsafe { library().destroy(tp) };
}

#[test]
fn a_block_of_another_process_is_refused() {
    let tp = block();
    // SAFETY: the block has no thread.
    unsafe { library().shape.set_value(tp, library().keys.own(), 0x7777) };
    // SAFETY: made above, and no thread has it.
    assert!(unsafe { library().renew(tp) }.is_err());
    library().mark(tp);
    // SAFETY: made above, and no thread has it.
    assert!(unsafe { library().renew(tp) }.is_ok());
    // SAFETY: no thread has it.
    unsafe { library().destroy(tp) };
}

/// A renewed block has first values again, in the data and in the zeros of the module.
#[test]
fn renewal_writes_first_values() {
    thread_local!(static DATA: Cell<u64> = const { Cell::new(0x1234_5678) });
    thread_local!(static ZEROS: Cell<[u64; 50]> = const { Cell::new([0; 50]) });
    let own = cradle::own();
    let at = |address: usize, tp: usize| address.wrapping_sub(own).wrapping_add(tp);
    let (data, zeros) = (DATA.with(ptr::from_ref).addr(), ZEROS.with(ptr::from_ref).addr());
    let tp = block();
    for place in [data, zeros, zeros + 49 * 8] {
        // SAFETY: thread-locals of the program lie at the same distance from each register.
        unsafe { poke(at(place, tp), 99_u64) };
    }
    // SAFETY: made above, and no thread has it.
    unsafe { library().renew(tp) }.unwrap();
    let read = |place| -> u64 {
        // SAFETY: thread-locals of the program lie at the same distance from each register.
        unsafe { shape::peek(at(place, tp)) }
    };
    assert_eq!([data, zeros, zeros + 49 * 8].map(read), [0x1234_5678, 0, 0]);
    // SAFETY: no thread has it.
    unsafe { library().destroy(tp) };
}

/// Destructors run in rounds, as in a thread that ends.
#[test]
fn values_that_destructors_set_are_destroyed_in_turn() {
    use crate::runtime::Runtime;
    static SEEN: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());
    static KEY: std::sync::OnceLock<libc::pthread_key_t> = std::sync::OnceLock::new();
    unsafe extern "C" fn again(value: *mut c_void) {
        let left = value.addr();
        SEEN.lock().unwrap().push(left);
        if left > 1 {
            // SAFETY: the key exists.
            unsafe {
                libc::pthread_setspecific(KEY.get().copied().unwrap(), ptr::without_provenance(left - 1))
            };
        }
    }
    KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a place for a key.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(again)) }, 0);
        key
    });
    let runtime = crate::mxn::Mxn::builder().concurrency(1).build().unwrap();
    for rounds in [1, 4] {
        runtime.run(move || {
            // SAFETY: the key exists.
            unsafe {
                libc::pthread_setspecific(KEY.get().copied().unwrap(), ptr::without_provenance(rounds))
            };
        });
        let seen = std::mem::take(&mut *SEEN.lock().unwrap());
        assert_eq!(seen, (1..=rounds).rev().collect::<Vec<_>>());
    }
}

/// A value that is set forever is dropped in the end.
#[test]
fn a_value_that_is_set_forever_ends_too() {
    use crate::runtime::Runtime;
    static KEY: std::sync::OnceLock<libc::pthread_key_t> = std::sync::OnceLock::new();
    unsafe extern "C" fn again(value: *mut c_void) {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(KEY.get().copied().unwrap(), value) };
    }
    KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a place for a key.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(again)) }, 0);
        key
    });
    let runtime = crate::mxn::Mxn::builder().concurrency(1).build().unwrap();
    for _ in 0..3 {
        let before = runtime.run(|| {
            // SAFETY: the key exists.
            let before = unsafe { libc::pthread_getspecific(KEY.get().copied().unwrap()) };
            // SAFETY: the key exists.
            unsafe { libc::pthread_setspecific(KEY.get().copied().unwrap(), ptr::without_provenance(1)) };
            before.addr()
        });
        assert_eq!(before, 0, "a value of an earlier thread");
    }
}

#[test]
fn the_exit_of_a_green_thread_is_reported() {
    use crate::runtime::Runtime;
    let name = concat!(module_path!(), "::the_exit_of_a_green_thread_is_reported");
    let ended = child::run(name, || {
        let runtime = crate::mxn::Mxn::builder().concurrency(1).build().unwrap();
        // SAFETY: none. This child is here for what becomes of it.
        runtime.run(|| unsafe { libc::pthread_exit(ptr::null_mut()) });
    });
    if let Some(ended) = ended {
        ended.expect_abort();
        ended.expect_words(&["pthread_exit or pthread_cancel in a green thread"]);
    }
}

/// Runs `first` in a green thread, and then `second` in another one of the same block.
fn one_after_the_other(first: fn(), second: fn()) {
    use crate::runtime::Runtime;
    let runtime = crate::mxn::Mxn::builder().concurrency(1).build().unwrap();
    runtime.run(move || {
        let run = |life: fn()| {
            let block = move || {
                life();
                cradle::own()
            };
            crate::thread::spawn(block).join().unwrap()
        };
        // As a rule the first time: an LWP uses the last stack again.
        while run(first) != run(second) {}
    });
}

/// The next thread would end the process at its first call that may be cancelled.
#[test]
fn a_request_to_cancel_does_not_outlive_its_thread() {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
        safe fn pthread_testcancel();
    }
    const DISABLED: i32 = 1;
    fn disable() -> i32 {
        let mut before = 0;
        // SAFETY: a place for the old state.
        assert_eq!(unsafe { pthread_setcancelstate(DISABLED, &mut before) }, 0);
        before
    }
    let name = concat!(module_path!(), "::a_request_to_cancel_does_not_outlive_its_thread");
    child::isolated(name, || {
        one_after_the_other(
            || {
                disable();
                // SAFETY: takes nothing.
                let me = unsafe { libc::pthread_self() };
                // SAFETY: the calling thread.
                assert_eq!(unsafe { libc::pthread_cancel(me) }, 0);
                pthread_testcancel();
            },
            || {
                assert_eq!(disable(), 1 - DISABLED, "a state of the last thread");
                let mut before = 0;
                // SAFETY: a place for the old state.
                assert_eq!(unsafe { pthread_setcancelstate(1 - DISABLED, &mut before) }, 0);
                pthread_testcancel();
            },
        );
    });
}

/// The library crashes if a thread is detached twice.
#[test]
fn each_thread_of_a_block_can_detach_itself() {
    let detach = || {
        // SAFETY: takes nothing.
        let me = unsafe { libc::pthread_self() };
        // SAFETY: no other thread joins this one or detaches it.
        assert_eq!(unsafe { libc::pthread_detach(me) }, 0);
    };
    let name = concat!(module_path!(), "::each_thread_of_a_block_can_detach_itself");
    child::isolated(name, || one_after_the_other(detach, detach));
}

/// The next thread would write through a mutex that is freed.
#[test]
fn the_list_of_robust_mutexes_does_not_outlive_its_thread() {
    unsafe extern "C" {
        fn pthread_mutexattr_setrobust(attributes: *mut libc::pthread_mutexattr_t, robust: i32) -> i32;
    }
    /// Makes a robust mutex and locks it.
    fn locked() -> &'static mut [u8; size_of::<libc::pthread_mutex_t>()] {
        // SAFETY: plain data, filled in by the call below.
        let mut attributes: libc::pthread_mutexattr_t = unsafe { std::mem::zeroed() };
        // SAFETY: a place for the attributes.
        assert_eq!(unsafe { libc::pthread_mutexattr_init(&mut attributes) }, 0);
        // SAFETY: initialized above.
        assert_eq!(unsafe { pthread_mutexattr_setrobust(&mut attributes, 1) }, 0);
        let mutex = Box::leak(Box::new(libc::PTHREAD_MUTEX_INITIALIZER));
        // SAFETY: a place for the mutex, and attributes.
        assert_eq!(unsafe { libc::pthread_mutex_init(mutex, &attributes) }, 0);
        // SAFETY: initialized above.
        assert_eq!(unsafe { libc::pthread_mutex_lock(mutex) }, 0);
        // SAFETY: a mutex is plain data, and this one is leaked.
        unsafe { &mut *ptr::from_mut(mutex).cast() }
    }
    static FIRST: std::sync::Mutex<Option<&[u8; size_of::<libc::pthread_mutex_t>()]>> =
        std::sync::Mutex::new(None);
    one_after_the_other(
        || {
            let first = locked();
            // It is freed, and used for something else.
            first.fill(0x55);
            *FIRST.lock().unwrap() = Some(first);
        },
        || {
            locked();
        },
    );
    assert!(FIRST.lock().unwrap().unwrap().iter().all(|&byte| byte == 0x55), "written to");
}
