//! Robust mutexes that threads leave locked.

use std::cell::UnsafeCell;

use super::*;

type Mutex = UnsafeCell<libc::pthread_mutex_t>;

/// Makes a robust mutex at a place.
fn init(place: *mut libc::pthread_mutex_t) {
    let mut attributes = std::mem::MaybeUninit::uninit();
    // SAFETY: local attributes, to be initialised.
    assert_eq!(unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) }, 0);
    let robust = libc::PTHREAD_MUTEX_ROBUST;
    // SAFETY: initialised attributes.
    assert_eq!(unsafe { libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), robust) }, 0);
    // SAFETY: the caller's place, and initialised attributes.
    assert_eq!(unsafe { libc::pthread_mutex_init(place, attributes.as_ptr()) }, 0);
}

fn mutex() -> Box<Mutex> {
    let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    init(mutex.get());
    mutex
}

fn lock(mutex: *mut libc::pthread_mutex_t) -> i32 {
    // SAFETY: a mutex.
    unsafe { libc::pthread_mutex_lock(mutex) }
}

/// Unlocks a mutex of the calling thread's, which must be robust and fit for use.
fn unlock(mutex: &Mutex) {
    // SAFETY: a mutex that this thread has locked.
    assert_eq!(unsafe { libc::pthread_mutex_unlock(mutex.get()) }, 0);
}

/// Locks a mutex with an owner that has ended, and makes it fit for use.
fn inherit(mutex: &Mutex) {
    assert_eq!(lock(mutex.get()), libc::EOWNERDEAD);
    // SAFETY: a mutex that this thread has locked.
    assert_eq!(unsafe { libc::pthread_mutex_consistent(mutex.get()) }, 0);
    unlock(mutex);
    assert_eq!(lock(mutex.get()), 0);
    unlock(mutex);
}

/// A thread leaves a robust mutex locked. The mutex is gone when the next thread of the block locks another
/// one.
#[test]
fn a_robust_mutex_does_not_outlive_its_thread() {
    let slot = Slot::new();
    let (first, second) = (mutex(), mutex());
    slot.life(|| assert_eq!(lock(first.get()), 0));
    let bytes = first.get().cast::<[u8; size_of::<libc::pthread_mutex_t>()]>();
    const GONE: [u8; size_of::<libc::pthread_mutex_t>()] = [0xab; _];
    // SAFETY: plain memory from here on.
    unsafe { bytes.write(GONE) };
    slot.renew();
    slot.life(|| {
        assert_eq!(lock(second.get()), 0);
        unlock(&second);
    });
    // SAFETY: a mutex.
    assert_eq!(unsafe { bytes.read() }, GONE, "the next thread has written there");
}

#[test]
fn the_next_owner_is_told_that_the_last_one_has_ended() {
    let slot = Slot::new();
    let mutexes: Vec<_> = (0..5).map(|_| mutex()).collect();
    for _ in 0..2 {
        slot.life(|| mutexes.iter().for_each(|it| assert_eq!(lock(it.get()), 0)));
        mutexes.iter().for_each(|it| inherit(it));
        slot.renew();
    }
}

/// A thread sleeps in the kernel, at a mutex that is not given up otherwise.
#[test]
fn a_waiter_is_woken() {
    struct Shared(Box<Mutex>);
    // SAFETY: a mutex is for several threads.
    unsafe impl Sync for Shared {}
    let shared = Shared(mutex());
    let slot = Slot::new();
    std::thread::scope(|scope| {
        slot.life(|| {
            assert_eq!(lock(shared.0.get()), 0);
            scope.spawn(|| {
                let shared = &shared;
                inherit(&shared.0);
            });
            // SAFETY: the first word is the lock, which is atomic.
            let word = unsafe { std::sync::atomic::AtomicU32::from_ptr(shared.0.get().cast()) };
            while word.load(Ordering::Relaxed) & libc::FUTEX_WAITERS == 0 {
                std::thread::yield_now();
            }
        });
    });
}

/// The kernel gives up at a mutex that is not there, or cannot be written.
#[test]
fn mutexes_that_are_not_there_end_the_list() {
    for access in [libc::PROT_NONE, libc::PROT_READ] {
        let slot = Slot::new();
        let (first, last) = (mutex(), mutex());
        let page = Mapping::reserve(page_size()).unwrap();
        let there = page.start().cast::<libc::pthread_mutex_t>();
        init(there);
        slot.life(|| {
            for it in [first.get(), there, last.get()] {
                assert_eq!(lock(it), 0);
            }
            // SAFETY: the page is this test's, which does not use it any more.
            assert_eq!(unsafe { libc::mprotect(page.start().cast(), page.len(), access) }, 0);
        });
        inherit(&last);
        // SAFETY: a mutex.
        assert_eq!(unsafe { libc::pthread_mutex_trylock(first.get()) }, libc::EBUSY);
        slot.renew();
    }
}

/// A list that leads to itself ends, too.
#[test]
fn a_list_that_is_a_circle_ends() {
    let slot = Slot::new();
    let mutexes = [mutex(), mutex()];
    slot.life(|| {
        mutexes.iter().for_each(|it| assert_eq!(lock(it.get()), 0));
        let next = |it: &Mutex| it.get().wrapping_byte_add(32).cast::<usize>();
        // SAFETY: where the C library has the next one of the list, on 64-bit systems.
        let last = unsafe { next(&mutexes[1]).read() };
        assert_eq!(last, next(&mutexes[0]).addr());
        // SAFETY: the same place.
        unsafe { next(&mutexes[0]).write(next(&mutexes[1]).addr()) };
    });
    mutexes.iter().for_each(|it| inherit(it));
}

/// The thread ends while it unlocks: the lock is free already, and its waiter asleep.
#[test]
fn the_mutex_that_is_being_unlocked_is_given_up() {
    let slot = Slot::new();
    let mutex = mutex();
    slot.life(|| {
        assert_eq!(lock(mutex.get()), 0);
        let head = own_descriptor() + glibc().shape.robust;
        let entry = mutex.get().addr() + 32;
        // SAFETY: fields of the own block: the list, and the mutex that is being unlocked.
        unsafe { poke(head, head) };
        // SAFETY: a field of the own block: the third word of the list.
        unsafe { poke(head + 16, entry) };
    });
    inherit(&mutex);
    slot.renew();
    // SAFETY: no thread uses the block.
    let pending: usize =
        unsafe { peek(layout::descriptor(slot.tp, &glibc().shape.sizes) + glibc().shape.robust + 16) };
    assert_eq!(pending, 0);
}
