use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{until, watched};
use crate::park::wait::{Wait, WaitError};
use crate::sync::process_shared::{
    Acquired, Barrier, Condvar, Mutex, MutexGuard, Once, RawMutex, RwLock, Semaphore,
};
use crate::sync::{Condition, OncePhase, RawRobust, RobustError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap().unwrap()
}

#[test]
fn are_plain_words() {
    assert_eq!(size_of::<RawMutex>(), 40);
    assert_eq!(size_of::<Condvar>(), 12);
    // SAFETY: documented: a zeroed lock is a free one.
    let zeroed: RawMutex = unsafe { std::mem::zeroed() };
    assert_eq!(format!("{zeroed:?}"), "RawMutex { locked: false, not_recoverable: false, .. }");
    assert_eq!(zeroed.lock(), Ok(Condition::Consistent));
}

#[test]
fn zeroed_ones_are_as_documented() {
    assert_eq!((size_of::<Semaphore>(), size_of::<Barrier>()), (16, 12));
    // SAFETY: documented.
    let semaphore: Semaphore = unsafe { std::mem::zeroed() };
    assert_eq!(format!("{semaphore:?}"), "Semaphore { permits: 0, .. }");
    // SAFETY: documented.
    let barrier: Barrier = unsafe { std::mem::zeroed() };
    assert!(barrier.wait().is_leader());
    // SAFETY: documented.
    let once: Once = unsafe { std::mem::zeroed() };
    assert_eq!(format!("{once:?}"), "Once { state: New, .. }");
    once.call_once(|| assert_eq!(once.state(), OncePhase::InProgress));
    assert!(once.is_completed());
    // SAFETY: documented.
    let mut lock: RwLock<u32> = unsafe { std::mem::zeroed() };
    assert_eq!(format!("{lock:?}"), "RwLock { locked: false, writes: false, .. }");
    *lock.get_mut() = 3;
    assert_eq!(format!("{:?}", lock.read().unwrap()), "3");
    assert_eq!(lock.into_inner(), 3);
}

#[test]
fn permits_are_counted() {
    let semaphore = Semaphore::new(3);
    let permits = semaphore.acquire_many(2);
    assert_eq!((permits.num_permits(), semaphore.available_permits()), (2, 1));
    assert!(semaphore.try_acquire_many(2).is_none() && semaphore.try_acquire_many(0).is_some());
    assert_eq!(semaphore.available_permits(), 1, "a request that failed changes nothing");
    assert!(semaphore.try_add_permits(Semaphore::MAX_PERMITS).is_err());
    assert!(semaphore.try_add_permits(usize::MAX).is_err());
    permits.forget();
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn keeps_threads_apart() {
    const ROUNDS: u64 = 5_000;
    let _watched = watched();
    let mutex = Mutex::new(0u64);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..ROUNDS).for_each(|_| *lock(&mutex) += 1));
        }
    });
    assert_eq!(mutex.into_inner(), 4 * ROUNDS);
}

#[test]
fn deadlines_give_up() {
    let _watched = watched();
    let mutex = Mutex::new(());
    let guard = lock(&mutex);
    std::thread::scope(|s| {
        s.spawn(|| {
            let begin = Instant::now();
            assert!(mutex.try_lock_for(Duration::from_millis(10)).unwrap().is_none());
            assert!(begin.elapsed() >= Duration::from_millis(10));
            assert!(mutex.try_lock_until(Instant::now()).unwrap().is_none());
        });
    });
    drop(guard);
    assert!(mutex.try_lock().unwrap().is_some());
    let condvar = Condvar::new();
    let (acquired, ended) = condvar.wait_for(lock(&mutex), Duration::from_millis(1)).unwrap();
    assert!(ended.timed_out());
    let (acquired, ended) = condvar.wait_until(acquired.unwrap(), Instant::now()).unwrap();
    assert!(ended.timed_out() && mutex.is_locked());
    drop(acquired);
}

#[test]
fn values_go_to_and_fro() {
    const ROUNDS: u32 = 5_000;
    let _watched = watched();
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    std::thread::scope(|s| {
        for mine in 0..2 {
            let (turn, changed) = (&turn, &changed);
            s.spawn(move || {
                for _ in 0..ROUNDS {
                    let mut turn = changed.wait_while(lock(turn), |turn| *turn % 2 != mine).unwrap().unwrap();
                    *turn += 1;
                    changed.notify_one();
                }
            });
        }
    });
    assert_eq!(turn.into_inner(), 2 * ROUNDS);
}

#[test]
fn a_broadcast_reaches_all() {
    let _watched = watched();
    let (state, go) = (Mutex::new((0, false)), Condvar::new());
    std::thread::scope(|s| {
        for _ in 0..10 {
            s.spawn(|| {
                let mut state = lock(&state);
                state.0 += 1;
                let _ = go.wait_while(state, |state| !state.1).unwrap();
            });
        }
        until(|| lock(&state).0 == 10);
        lock(&state).1 = true;
        go.notify_all();
    });
}

/// Two processes over one mapping: the child counts too, and tells by the condition variable that it is
/// done.
#[test]
fn processes_share_it() {
    const ROUNDS: u64 = 20_000;

    #[repr(C)]
    struct Common {
        count: Mutex<u64>,
        done: Condvar,
        /// Not under the mutex: a lost update then shows.
        inside: AtomicBool,
    }

    fn count(common: &Common) {
        for _ in 0..ROUNDS {
            let mut count = lock(&common.count);
            assert!(!common.inside.swap(true, Ordering::Relaxed));
            *count += 1;
            common.inside.store(false, Ordering::Relaxed);
        }
    }

    let _watched = watched();
    // SAFETY: a new mapping of our own.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<Common>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(memory, libc::MAP_FAILED);
    // SAFETY: large enough, aligned to a page, zeroed: free locks and no counts.
    let common = unsafe { &*memory.cast::<Common>() };
    // Gives this thread its core, so the child need not allocate one.
    crate::park::current::current();
    count(common);
    // SAFETY: the child calls only locks, the futex and `_exit`, which work in a child of a program
    // with threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        count(common);
        common.done.notify_all();
        // SAFETY: it leaves without running anything of the parent's.
        unsafe { libc::_exit(0) };
    }
    count(common);
    let mut total = lock(&common.count);
    let in_time = Instant::now() + Duration::from_secs(30);
    while *total != 3 * ROUNDS {
        let (again, ended) = common.done.wait_until(total, in_time).unwrap();
        assert!(!ended.timed_out());
        total = again.unwrap();
    }
    drop(total);
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    // SAFETY: mapped above and not used again.
    unsafe { libc::munmap(memory, size_of::<Common>()) };
}

/// Another process may write into a lock's memory that this thread owns the lock.
#[test]
fn a_forged_owner_does_not_upset_the_count_of_locks() {
    let _watched = watched();
    let (mine, forged) = (RawMutex::new(), RawMutex::new());
    assert_eq!(mine.lock(), Ok(Condition::Consistent));
    // SAFETY: plain words that any process may write if it maps them.
    unsafe { std::ptr::copy_nonoverlapping(&raw const mine, (&raw const forged).cast_mut(), 1) };
    for lock in [&mine, &forged] {
        assert_eq!(lock.unlock(), Ok(()));
    }
    assert!(!crate::park::current::current().leaves_robust());
    assert_eq!(forged.lock(), Ok(Condition::Consistent));
    assert!(crate::park::current::current().leaves_robust());
    assert_eq!(forged.unlock(), Ok(()));
}

/// However it was locked, other threads are kept out, and the lock knows its owner.
#[test]
fn each_way_to_lock_keeps_others_out() {
    let _watched = watched();
    type Way = fn(&Mutex<()>) -> MutexGuard<'_, ()>;
    let mutex = Mutex::new(());
    let ways: [Way; 3] = [
        lock,
        |mutex| mutex.try_lock().unwrap().unwrap().unwrap(),
        |mutex| mutex.try_lock_for(Duration::ZERO).unwrap().unwrap().unwrap(),
    ];
    for way in ways {
        assert!(!mutex.is_locked() && !mutex.is_owned_by_current_thread());
        let guard = way(&mutex);
        assert!(mutex.is_locked() && mutex.is_owned_by_current_thread());
        std::thread::scope(|s| {
            s.spawn(|| {
                assert!(!mutex.is_owned_by_current_thread());
                assert!(mutex.try_lock().unwrap().is_none());
                assert!(mutex.try_lock_for(Duration::from_millis(1)).unwrap().is_none());
            });
        });
        drop(guard);
    }
    assert_eq!(mutex.lock().unwrap().refuse(), "the last owner of the lock has left well");
    assert!(!mutex.is_locked());
}

/// A borrow from a leaked guard outlives the guard's thread. So only an unsafe call gives the value to
/// another.
#[test]
fn a_value_that_a_thread_has_leaked_is_given_to_no_other() {
    let _watched = watched();
    let lock: &'static RwLock<u32> = Box::leak(Box::new(RwLock::new(1)));
    let leaks = || &mut **Box::leak(Box::new(lock.write().unwrap()));
    let leaked: &'static mut u32 = std::thread::spawn(leaks).join().unwrap();
    for _ in 0..2 {
        let refused = lock.mend(Wait::forever(), |_, _| unreachable!("it is borrowed"));
        assert_eq!(refused, Err(RobustError::NotConsistent));
        assert_eq!(lock.read().unwrap_err(), RobustError::NotConsistent);
    }
    *leaked = 2;
    let mend = |value: &mut u32, why| {
        assert_eq!((*value, why), (2, Condition::OwnerDied));
        *value = 3;
    };
    // SAFETY: what was leaked is not used again.
    unsafe { lock.mend_abandoned(Wait::forever(), mend) }.unwrap();
    assert_eq!(*lock.read().unwrap(), 3);
}

#[test]
fn permits_that_go_back_do_not_wrap() {
    const MAX: usize = Semaphore::MAX_PERMITS;
    let semaphore = Semaphore::new(MAX);
    let all = semaphore.acquire_many(MAX);
    semaphore.add_permits(MAX);
    let more = semaphore.acquire_many(MAX);
    semaphore.add_permits(MAX);
    for permits in [all, more] {
        assert!(catch_unwind(AssertUnwindSafe(|| drop(permits))).is_err());
        assert_eq!(semaphore.available_permits(), MAX);
    }
}

#[test]
fn an_interrupt_is_reported_though_it_is_done() {
    let (once, wait) = (Once::new(), Wait::forever().interruptible());
    once.call_once(|| ());
    let calls: [&dyn Fn() -> Result<(), WaitError>; 2] =
        [&|| once.call_once_with(wait, || unreachable!()), &|| {
            once.call_once_force_with(wait, |_| unreachable!())
        }];
    for call in calls {
        crate::thread::current().interrupt();
        assert_eq!([call(), call()], [Err(WaitError::Interrupted), Ok(())]);
    }
}

/// A guard that is made while its thread unwinds does not notice another panic.
#[test]
fn a_value_that_could_not_be_mended_can_be_mended_later() {
    struct Mends<'a>(&'a RwLock<u32>);
    impl Drop for Mends<'_> {
        fn drop(&mut self) {
            let mends = || self.0.mend(Wait::forever(), |_, _| panic!("as the test wants"));
            assert!(catch_unwind(AssertUnwindSafe(mends)).is_err());
        }
    }
    let lock = RwLock::new(1);
    let writes = || {
        let _mends = Mends(&lock);
        let _guard = lock.write().unwrap();
        panic!("as the test wants");
    };
    assert!(catch_unwind(AssertUnwindSafe(writes)).is_err());
    assert_eq!(lock.read().unwrap_err(), RobustError::NotConsistent);
    assert_eq!(lock.mend(Wait::forever(), |value, _| *value = 2), Ok(()));
    assert_eq!(*lock.read().unwrap(), 2);
}

#[test]
fn a_wait_that_need_not_wait_keeps_the_news() {
    let (mutex, condvar) = (Mutex::new(1), Condvar::new());
    let panics = || {
        let _guard = lock(&mutex);
        panic!("as the test wants");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let Acquired::OwnerPanicked(guard) = mutex.lock().unwrap() else { panic!("the owner has panicked") };
    let news = condvar.wait_while(guard, |_| false).unwrap();
    assert_eq!(news.condition(), Condition::OwnerPanicked);
    let Acquired::OwnerPanicked(mut guard) = news else { panic!("as its condition says") };
    assert!(guard.mark_consistent());
    assert_eq!(condvar.wait_while(guard, |_| false).unwrap().condition(), Condition::Consistent);
}

/// Maps a zeroed `T` that children share.
///
/// # Safety
/// A `T` of zeros is valid.
unsafe fn mapped<T>() -> &'static T {
    // SAFETY: a new mapping of our own.
    let memory = unsafe {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), size_of::<T>(), rights, kind, -1, 0)
    };
    assert_ne!(memory, libc::MAP_FAILED);
    // SAFETY: large enough, aligned to a page, never unmapped; the caller's promise.
    unsafe { &*memory.cast::<T>() }
}

/// A permit belongs to the process that took it: what a child has is a copy.
#[test]
fn a_permit_is_given_back_once_though_its_thread_forks() {
    use crate::sys::child_tests as child;
    let name = "::a_permit_is_given_back_once_though_its_thread_forks";
    child::isolated(&[module_path!(), name].concat(), || {
        // SAFETY: documented: a zeroed semaphore has no permits.
        let semaphore = unsafe { mapped::<Semaphore>() };
        semaphore.add_permits(3);
        let mut permits = Some(semaphore.acquire_many(3));
        child::forked(|| {
            drop(permits.take());
            assert_eq!(semaphore.available_permits(), 0);
            semaphore.add_permits(1);
            drop(semaphore.acquire());
            assert_eq!(semaphore.available_permits(), 1);
        });
        assert_eq!(permits.as_ref().unwrap().num_permits(), 3);
        drop(permits);
        assert_eq!(semaphore.available_permits(), 4);
    });
}

/// The first process of a namespace of process ids has the number 1, and so may its parent.
#[cfg(target_os = "linux")]
#[test]
fn a_child_with_the_number_of_its_parent_gives_no_copy_back() {
    use crate::sys::child_tests as child;
    let name = "::a_child_with_the_number_of_its_parent_gives_no_copy_back";
    child::isolated(&[module_path!(), name].concat(), || {
        // SAFETY: no memory is involved.
        let begin = || unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0;
        if !begin() {
            return println!("skipped: no namespaces");
        }
        // SAFETY: documented: a zeroed semaphore has no permits.
        let semaphore = unsafe { mapped::<Semaphore>() };
        // SAFETY: documented: a zeroed lock is free.
        let lock = unsafe { mapped::<RwLock<u32>>() };
        semaphore.add_permits(1);
        child::forked(|| {
            let mut mine = Some((semaphore.acquire(), lock.read().unwrap()));
            assert!(begin() && std::process::id() == 1);
            child::forked(|| {
                assert_eq!(std::process::id(), 1);
                drop(mine.take());
            });
            assert_eq!(semaphore.available_permits(), 0);
            assert!(lock.try_write().unwrap().is_none());
            drop(mine);
            assert_eq!(semaphore.available_permits(), 1);
            assert!(lock.try_write().unwrap().is_some());
        });
    });
}

/// The child's copy of the closure returns while the parent's still runs.
#[test]
fn a_closure_that_forks_is_done_when_the_parents_has_returned() {
    use crate::sys::child_tests as child;
    let name = "::a_closure_that_forks_is_done_when_the_parents_has_returned";
    child::isolated(&[module_path!(), name].concat(), || {
        // SAFETY: documented: a zeroed `Once` is a new one.
        let once = unsafe { mapped::<Once>() };
        let (mut child, mut was_done) = (0, true);
        once.call_once(|| {
            // SAFETY: the child leaves by `_exit` soon.
            child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child != 0 {
                let mut status = 0;
                // SAFETY: our own child, and a place for its status.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0);
                was_done = once.is_completed();
            }
        });
        if child == 0 {
            // SAFETY: it leaves without running anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        assert!(!was_done && once.is_completed());
    });
}
