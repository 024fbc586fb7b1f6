//! The primitives, between kernel threads.

mod barrier;
mod condvar;
#[cfg(unix)]
mod kinds;
mod mutex;
mod once;
mod rwlock;
mod semaphore;
#[cfg(unix)]
mod shared;

use crate::park::tests::{until, watched};

/// Checks that the same types may be sent and shared as in std.
#[test]
fn kinds_are_as_in_std() {
    fn both<T: Send + Sync>() {}
    both::<crate::sync::Mutex<u32>>();
    both::<crate::sync::Mutex<std::cell::Cell<u32>>>();
    both::<crate::sync::Condvar>();
    both::<crate::sync::Barrier>();
    both::<crate::sync::RawMutex>();
    both::<crate::sync::RwLock<u32>>();
    both::<crate::sync::RawRwLock>();
    #[cfg(unix)]
    both::<crate::sync::process_shared::Mutex<u32>>();
    #[cfg(unix)]
    both::<crate::sync::process_shared::Condvar>();
    both::<crate::sync::Semaphore>();
    both::<crate::sync::SemaphorePermit<'_>>();
    both::<crate::sync::OwnedSemaphorePermit>();
    both::<crate::sync::Once>();
    both::<crate::sync::OnceLock<u32>>();
    both::<crate::sync::LazyLock<u32>>();
    both::<crate::sync::LazyLock<u32, Box<dyn FnOnce() -> u32 + Send>>>();
    both::<crate::sync::WaitGroup>();
    fn sendable<T: Send>() {}
    sendable::<crate::sync::OnceLock<std::cell::Cell<u32>>>();
    fn shared<T: Sync>() {}
    shared::<crate::sync::MutexGuard<'_, u32>>();
    shared::<crate::sync::RwLockReadGuard<'_, u32>>();
    shared::<crate::sync::RwLockWriteGuard<'_, u32>>();
    shared::<crate::sync::RwLockUpgradableReadGuard<'_, u32>>();

    /// For a type that is `Send`, two impls match: it cannot name the trait without saying which.
    trait NotSend<A> {
        fn check() {}
    }
    impl<T: ?Sized> NotSend<()> for T {}
    impl<T: ?Sized + Send> NotSend<u8> for T {}
    // Compiles only because a guard is not `Send`.
    <crate::sync::MutexGuard<'_, u32> as NotSend<_>>::check();
    <crate::sync::Mutex<std::rc::Rc<u32>> as NotSend<_>>::check();
    <crate::sync::OnceLock<std::rc::Rc<u32>> as NotSend<_>>::check();

    <crate::sync::RwLockReadGuard<'_, u32> as NotSend<_>>::check();
    <crate::sync::RwLockWriteGuard<'_, u32> as NotSend<_>>::check();
    <crate::sync::RwLockUpgradableReadGuard<'_, u32> as NotSend<_>>::check();
    <crate::sync::RwLock<std::rc::Rc<u32>> as NotSend<_>>::check();
    /// The same for types that are `Sync`.
    trait NotSync<A> {
        fn check() {}
    }
    impl<T: ?Sized> NotSync<()> for T {}
    impl<T: ?Sized + Sync> NotSync<u8> for T {}
    // A shared cell gives its value to any thread that looks, so the value must be `Sync`. It must be
    // `Send`, because one thread makes it and another drops it.
    <crate::sync::OnceLock<std::cell::Cell<u32>> as NotSync<_>>::check();
    <crate::sync::OnceLock<std::sync::MutexGuard<'_, u32>> as NotSync<_>>::check();
    <crate::sync::LazyLock<std::cell::Cell<u32>> as NotSync<_>>::check();
    <crate::sync::LazyLock<u32, Box<dyn FnOnce() -> u32>> as NotSync<_>>::check();
    <crate::sync::OnceState as NotSync<_>>::check();
    // Readers share the value.
    <crate::sync::RwLock<std::cell::Cell<u32>> as NotSync<_>>::check();
}

/// A thread that was adopted, and has given its core back, may still wait: destructors run in no reliable
/// order.
#[test]
fn a_destructor_may_wait() {
    use std::sync::Arc;

    struct Waits(Arc<(crate::sync::Mutex<bool>, crate::sync::Condvar)>);

    impl Drop for Waits {
        fn drop(&mut self) {
            let mut ready = self.0.0.lock();
            self.0.1.wait_while(&mut ready, |ready| !*ready);
        }
    }

    thread_local! {
        static LATE: std::cell::OnceCell<Waits> = const { std::cell::OnceCell::new() };
    }

    let _watched = watched();
    let shared = Arc::new((crate::sync::Mutex::new(false), crate::sync::Condvar::new()));
    let mine = shared.clone();
    let thread = std::thread::spawn(move || {
        // Registered first, to run after the core has been given back, or before: both orders exist.
        LATE.with(|late| assert!(late.set(Waits(mine)).is_ok()));
        crate::park::current::current();
    });
    // It waits before this, or finds the value set. (`is_finished` says nothing of destructors.)
    *shared.0.lock() = true;
    shared.1.notify_all();
    thread.join().unwrap();
}
