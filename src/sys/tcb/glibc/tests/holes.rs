//! What broke prototypes. Each test is one way in which a block is not quite a thread's.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::*;

/// A destructor that counts, and sets its value again as often as the value says.
static KEY: AtomicU32 = AtomicU32::new(0);
static RUNS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn again(value: *mut c_void) {
    RUNS.fetch_add(1, Ordering::Relaxed);
    let left = value.addr() - 1;
    // SAFETY: the key exists while the test runs.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), ptr::without_provenance(left)) };
}

fn new_key(destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> libc::pthread_key_t {
    let mut key = 0;
    // SAFETY: a local variable to write to.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, destructor) }, 0);
    key
}

fn set(key: libc::pthread_key_t, value: usize) {
    // SAFETY: the key exists.
    assert_eq!(unsafe { libc::pthread_setspecific(key, ptr::without_provenance(value)) }, 0);
}

fn get(key: libc::pthread_key_t) -> usize {
    // SAFETY: the key exists.
    unsafe { libc::pthread_getspecific(key) }.addr()
}

#[test]
fn destructors_of_keys_run_in_rounds() {
    if !alone("holes::destructors_of_keys_run_in_rounds") {
        return;
    }
    // Keys past the first 32 have their values apart from the block.
    let many: Vec<_> = (0..70).map(|_| new_key(None)).collect();
    for key in [new_key(Some(again)), many[0]] {
        KEY.store(key, Ordering::Relaxed);
        let slot = Slot::new();
        for (sets, runs) in [(1, 1), (3, 3), (100, 4)] {
            RUNS.store(0, Ordering::Relaxed);
            slot.life(|| {
                assert!(get(key) == 0 && many.iter().all(|&key| get(key) == 0));
                many.iter().for_each(|&key| set(key, 1));
                set(key, sets);
            });
            let expected = if key == many[0] { 0 } else { runs };
            assert_eq!(RUNS.load(Ordering::Relaxed), expected, "{sets} sets");
            slot.renew();
        }
        slot.with(|| assert!(get(key) == 0 && many.iter().all(|&key| get(key) == 0)));
    }
}

#[test]
fn a_deleted_key_has_no_destructor() {
    unsafe extern "C" fn never(_: *mut c_void) {
        panic!("the key was deleted");
    }
    let slot = Slot::new();
    let key = new_key(Some(never));
    slot.life(|| {
        set(key, 1);
        // SAFETY: made above.
        unsafe { libc::pthread_key_delete(key) };
    });
}

#[test]
fn a_destructor_of_a_key_may_use_a_thread_local_with_a_destructor() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    thread_local!(static LATE: Late = const { Late });
    unsafe extern "C" fn touch(_: *mut c_void) {
        LATE.with(|_| ());
    }
    let key = new_key(Some(touch));
    let slot = Slot::new();
    for life in 1..=2 {
        slot.life(|| set(key, 1));
        assert_eq!(DROPPED.load(Ordering::Relaxed), life);
        slot.renew();
    }
}

/// The last to run is a destructor of a thread-local, which sets a value. The next thread must not find that.
#[test]
fn a_value_does_not_outlive_its_thread() {
    static LAST: AtomicU32 = AtomicU32::new(0);
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            set(LAST.load(Ordering::Relaxed), 7);
        }
    }
    thread_local!(static LATE: Late = const { Late });
    unsafe extern "C" fn touch(_: *mut c_void) {
        LATE.with(|_| ());
    }
    unsafe extern "C" fn count(value: *mut c_void) {
        RUNS.fetch_add(value.addr(), Ordering::Relaxed);
    }
    if !alone("holes::a_value_does_not_outlive_its_thread") {
        return;
    }
    let (first, last) = (new_key(Some(touch)), new_key(Some(count)));
    LAST.store(last, Ordering::Relaxed);
    let slot = Slot::new();
    for life in 1..=3 {
        slot.life(|| {
            assert_eq!(get(last), 0);
            set(first, 1);
        });
        assert_eq!(RUNS.load(Ordering::Relaxed), 7 * life);
        slot.renew();
    }
}

/// Otherwise `isalpha` reads through a locale that its owner has freed.
#[test]
fn a_locale_does_not_outlive_its_thread() {
    let slot = Slot::new();
    slot.life(|| {
        // SAFETY: a locale that always exists.
        let locale = unsafe { libc::newlocale(libc::LC_ALL_MASK, c"C.UTF-8".as_ptr(), ptr::null_mut()) };
        assert!(!locale.is_null());
        // SAFETY: just made. It is leaked, so that its address is unique.
        assert_eq!(unsafe { libc::uselocale(locale) }, LC_GLOBAL_LOCALE);
        set_errno(5);
    });
    slot.renew();
    slot.life(|| {
        // SAFETY: null asks.
        assert_eq!(unsafe { libc::uselocale(ptr::null_mut()) }, LC_GLOBAL_LOCALE);
        assert_eq!(errno(), 0);
        assert_eq!(check_library(), Ok(()));
    });
}

/// The resolver keeps sockets and server lists. None of them may be the last thread's, and none may leak.
#[test]
fn the_resolver_starts_anew() {
    let slot = Slot::new();
    let shape = &glibc().shape;
    let state = at::<ResolverState>(layout::descriptor(slot.tp, &shape.sizes) + shape.resolver);
    for _ in 0..2 {
        slot.life(|| {
            // SAFETY: public: `int __res_init (void)`.
            let init: extern "C" fn() -> i32 = unsafe { symbols::function(c"__res_init") }.unwrap();
            assert_eq!(init(), 0);
            // SAFETY: a field of this block.
            assert_ne!(unsafe { (*state).options }, 0);
        });
        // SAFETY: a field of this block.
        assert_eq!(unsafe { (*state).options }, 0);
        slot.renew();
    }
}

/// `fork` unlinks the caller from the library's list of threads.
#[test]
fn fork_and_threads_in_the_child() {
    // std has a lock that new threads take. The child of a process with other threads may find it taken.
    if !alone("holes::fork_and_threads_in_the_child") {
        return;
    }
    let slot = Slot::new();
    let status = slot.life(|| {
        // SAFETY: the child uses what glibc keeps usable after fork, and leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: a child that hangs dies of this.
            unsafe { libc::alarm(30) };
            let sum = std::thread::spawn(|| vec![1_u8; 1000].len()).join().unwrap_or(0);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if sum == 1000 { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: the child made above.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        status
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
}

/// The part of this that programs meet: std forks for a closure to run before `exec`.
#[test]
fn commands_that_fork() {
    let slot = Slot::new();
    for _ in 0..2 {
        slot.life(|| {
            assert!(Command::new("true").status().unwrap().success());
            let mut command = Command::new("true");
            // SAFETY: the closure calls nothing that a forked child may not.
            unsafe { command.pre_exec(|| Ok(())) };
            assert!(command.status().unwrap().success());
        });
        slot.renew();
    }
}

/// Not a crash inside the library.
#[test]
fn pthread_exit_says_so_and_aborts() {
    let judge = |text: &str, status: std::process::ExitStatus| {
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGABRT), "{text}");
        assert!(text.contains("pthread_exit or pthread_cancel in a green thread"), "{text}");
        assert!(!text.contains("dropped"), "nothing is unwound: {text}");
    };
    if in_child("holes::pthread_exit_says_so_and_aborts", judge) {
        struct Loud;
        impl Drop for Loud {
            fn drop(&mut self) {
                println!("dropped");
            }
        }
        let slot = Slot::new();
        slot.life(|| {
            let _loud = Loud;
            // SAFETY: aborts.
            unsafe { libc::pthread_exit(ptr::null_mut()) }
        });
    }
}

/// A request to cancel is only served at a cancellation point, so it is made on the thread itself.
#[test]
fn cancelling_oneself_says_so_and_aborts() {
    let judge = |text: &str, status: std::process::ExitStatus| {
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGABRT), "{text}");
        assert!(text.contains("pthread_exit or pthread_cancel in a green thread"), "{text}");
    };
    if in_child("holes::cancelling_oneself_says_so_and_aborts", judge) {
        Slot::new().life(|| {
            // SAFETY: takes nothing.
            let own = unsafe { libc::pthread_self() };
            // SAFETY: a thread that exists.
            unsafe { libc::pthread_cancel(own) };
            std::thread::sleep(std::time::Duration::from_secs(1));
        });
    }
}

/// `setuid` waits for every thread of the process to answer a signal, whatever register the thread stands on.
#[test]
fn setuid_from_beside_and_from_a_block() {
    if !alone("holes::setuid_from_beside_and_from_a_block") {
        return;
    }
    static STARTED: AtomicBool = AtomicBool::new(false);
    static STOP: AtomicBool = AtomicBool::new(false);
    glibc().relay_setxid(tp::write_syscall).unwrap();
    // One thread never leaves its block, and one keeps changing.
    let busy = std::thread::spawn(|| {
        let slot = Slot::new();
        slot.life(|| {
            while !STOP.load(Ordering::Relaxed) {
                drop(std::hint::black_box(vec![0_u8; 100]));
                STARTED.store(true, Ordering::Relaxed);
            }
        });
    });
    let changing = std::thread::spawn(|| {
        let slot = Slot::new();
        while !STOP.load(Ordering::Relaxed) {
            slot.life(|| drop(std::hint::black_box(vec![0_u8; 100])));
            slot.renew();
        }
    });
    while !STARTED.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    // SAFETY: takes nothing.
    let user = unsafe { libc::getuid() };
    // SAFETY: no change of user.
    let set = || assert_eq!(unsafe { libc::setuid(user) }, 0);
    (0..50).for_each(|_| set());
    let slot = Slot::new();
    for _ in 0..3 {
        slot.life(|| (0..20).for_each(|_| set()));
        slot.renew();
    }
    STOP.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    changing.join().unwrap();
}

/// As documented: the kernel does not know the id.
#[test]
fn a_block_knows_no_kernel_thread() {
    let slot = Slot::new();
    slot.life(|| {
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: takes nothing.
        let own = unsafe { libc::pthread_self() };
        // SAFETY: both are what the call takes.
        let errno = unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) };
        assert_eq!(errno, libc::ESRCH);
    });
}

/// Owners of recursive mutexes are told apart by an id that no kernel thread has.
#[test]
fn a_recursive_mutex_knows_its_owner() {
    let slots = [Slot::new(), Slot::new()];
    let mut attributes = std::mem::MaybeUninit::uninit();
    // SAFETY: a local variable to initialise.
    unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) };
    // SAFETY: initialised.
    unsafe { libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_RECURSIVE) };
    let mut mutex = Box::new(libc::PTHREAD_MUTEX_INITIALIZER);
    // SAFETY: a local variable to initialise.
    unsafe { libc::pthread_mutex_init(&mut *mutex, attributes.as_ptr()) };
    let mutex = &raw mut *mutex;
    // SAFETY: initialised, and so below.
    let lock = || unsafe { libc::pthread_mutex_trylock(mutex) };
    assert_eq!(slots[0].with(|| [lock(), lock()]), [0, 0]);
    assert_eq!([slots[1].with(lock), lock()], [libc::EBUSY; 2]);
    // SAFETY: initialised above.
    slots[0].with(|| (0..2).for_each(|_| assert_eq!(unsafe { libc::pthread_mutex_unlock(mutex) }, 0)));
    assert_eq!(slots[1].with(lock), 0);
}

#[test]
fn renewal_and_destruction_leak_nothing() {
    if !alone("holes::renewal_and_destruction_leak_nothing") {
        return;
    }
    let key = new_key(None);
    let live = || {
        // More sizes than one, because the allocator caches each by itself.
        for len in [20, 200, 1000] {
            drop(std::hint::black_box(vec![1_u8; len]));
        }
        drop(std::thread::current());
        set(key, 1);
        kept::Makers::bind().unwrap().call();
    };
    let slot = Slot::new();
    let renewing = || {
        slot.life(live);
        slot.renew();
    };
    let making = || Slot::new().life(live);
    const ROUNDS: usize = 20_000;
    for (name, round) in [("renew", &renewing as &dyn Fn()), ("create", &making)] {
        (0..ROUNDS / 10).for_each(|_| round());
        let before = in_use();
        (0..ROUNDS).for_each(|_| round());
        let grown = in_use().saturating_sub(before);
        // One byte for each round would be 20 KiB. Nothing is what is expected.
        assert!(grown < 4096, "{name}: {grown} bytes more after {ROUNDS} rounds");
    }
}

/// Some of what hangs on a block is not the allocator's, so [`in_use`] does not count it.
#[test]
fn what_the_library_keeps_goes_to_the_next_block() {
    let shape = &glibc().shape;
    let kept = |slot: &Slot| -> Vec<usize> {
        let descriptor = layout::descriptor(slot.tp, &shape.sizes);
        // SAFETY: fields of a complete block, on which no thread runs.
        shape.kept.iter().map(|field| unsafe { peek(descriptor + field) }).collect()
    };
    if !alone("holes::what_the_library_keeps_goes_to_the_next_block") {
        return;
    }
    let slot = Slot::new();
    assert!(kept(&slot).iter().all(|&word| word == 0));
    slot.life(|| kept::Makers::bind().unwrap().call());
    let left = kept(&slot);
    assert!(left.iter().all(|&word| word != 0), "{left:?}");
    slot.renew();
    assert_eq!(kept(&slot), left);
    drop(slot);
    let next = Slot::new();
    assert_eq!(kept(&next), left);
    next.life(|| ());
}

/// Since glibc 2.43, a thread that seems to have ended would be freed by this while it runs.
#[test]
fn a_thread_may_detach_itself() {
    let slot = Slot::new();
    for _ in 0..2 {
        slot.life(|| {
            // SAFETY: takes nothing.
            let own = unsafe { libc::pthread_self() };
            // SAFETY: nothing joins the thread.
            assert_eq!(unsafe { libc::pthread_detach(own) }, 0);
            // SAFETY: the thread runs, so its handle is good.
            assert_eq!(unsafe { libc::pthread_detach(own) }, libc::EINVAL);
        });
        slot.renew();
    }
}

/// The library calls this before it puts something on the stack by `alloca`, without touching the pages in
/// between.
#[test]
fn the_library_knows_how_small_a_stack_is() {
    // SAFETY: glibc's, `int __libc_alloca_cutoff (size_t)`.
    let cutoff = unsafe { symbols::function::<unsafe extern "C" fn(usize) -> i32>(c"__libc_alloca_cutoff") };
    let Ok(cutoff) = cutoff else {
        println!("skipped: this glibc does not tell");
        return;
    };
    let slot = Slot::new();
    for _ in 0..2 {
        slot.life(|| {
            let to_the_stack = [15 << 10, 17 << 10, 64 << 10].map(|size| {
                // SAFETY: any number may be asked about.
                unsafe { cutoff(size) != 0 }
            });
            // The limit is a quarter of the 64 KiB.
            assert_eq!(to_the_stack, [true, false, false]);
        });
        slot.renew();
    }
}

/// C functions leave errors behind for the next caller of their query.
#[test]
fn errors_do_not_outlive_their_thread() {
    let slot = Slot::new();
    // SAFETY: public: `int *__h_errno_location (void)`.
    let h_errno = unsafe { symbols::function::<unsafe extern "C" fn() -> *mut i32>(c"__h_errno_location") };
    let h_errno = h_errno.expect("every glibc has it");
    // SAFETY: takes nothing.
    let h_errno = || unsafe { h_errno() };
    for is_told in [false, true, false] {
        slot.life(|| {
            // SAFETY: the calling thread's own.
            assert_eq!(unsafe { h_errno().read() }, 0);
            // SAFETY: takes nothing.
            assert!(unsafe { libc::dlerror() }.is_null());
            // SAFETY: the calling thread's own.
            unsafe { h_errno().write(3) };
            // SAFETY: a terminated name. There is no such library.
            assert!(unsafe { libc::dlopen(c"/no such library".as_ptr(), libc::RTLD_NOW) }.is_null());
            // SAFETY: takes nothing.
            assert!(!is_told || !unsafe { libc::dlerror() }.is_null());
        });
        slot.renew();
    }
}

/// A crowd of blocks that end would take a copy of the library's state for each.
#[test]
fn blocks_that_ask_the_library_for_nothing_leave_one_copy() {
    if !alone("holes::blocks_that_ask_the_library_for_nothing_leave_one_copy") {
        return;
    }
    let slots = [(); 3].map(|()| Slot::new());
    let [quiet, as_quiet, asks] = &slots;
    quiet.life(|| ());
    as_quiet.life(|| ());
    // The text is in memory that stays with the block.
    asks.life(|| kept::Makers::bind().unwrap().call());
    drop(slots);
    let [last, second, first] = [(); 3].map(|()| glibc().estates.take().unwrap().library.unwrap());
    assert!(Arc::ptr_eq(&first, &second), "{first:x?}, {second:x?}");
    assert_ne!(second, last);
}
