//! Implementations that many types of this module have in common.

/// Implements what each guard has: access to the value, and `Debug` and `Display` as the value's. It takes,
/// in this order:
///
/// - the guard's generic parameters except `T`, each with a comma behind it, in brackets
/// - the guard's type
/// - how a shared borrow of the guard gives the value
/// - if the value may change: how an exclusive borrow gives it
macro_rules! guard {
    ([$($params:tt)*] $guard:ty: |$shared:ident| $value:expr, mut |$exclusive:ident| $mut_value:expr) => {
        $crate::sync::impls::guard! { [$($params)*] $guard: |$shared| $value }

        impl<$($params)* T: ?Sized> std::ops::DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                let $exclusive = self;
                $mut_value
            }
        }
    };
    ([$($params:tt)*] $guard:ty: |$shared:ident| $value:expr) => {
        impl<$($params)* T: ?Sized> std::ops::Deref for $guard {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                let $shared = self;
                $value
            }
        }

        impl<$($params)* T: ?Sized + std::fmt::Debug> std::fmt::Debug for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($params)* T: ?Sized + std::fmt::Display> std::fmt::Display for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

/// Defines the calls of a `Once`, the path of which is for examples. They call a private method, `call`,
/// which ignores poisoning if it is told so.
macro_rules! calls_once {
    ($path:literal) => {
        /// Calls `f`, if this is the first call. If another thread is running its closure, waits for the end
        /// of that. When this returns, a closure has returned, and what it did is visible.
        ///
        /// # Panics
        ///
        /// If `f` does: this `Once` is then *poisoned*. If it is poisoned. If the running thread runs the
        /// closure: it would wait for itself.
        ///
        /// # Blocks
        ///
        /// The thread, while another runs its closure.
        #[inline]
        #[track_caller]
        pub fn call_once<F: FnOnce()>(&self, f: F) {
            let _ = self.call(false, Wait::forever, |_| f());
        }

        /// [`call_once`](Self::call_once) that ignores poisoning. After a panic, or the death of a process
        /// that shares this, the next such call calls its closure, which is told. If that returns, this is
        /// done.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use ", $path, ";")]
        /// use std::panic;
        ///
        /// let once = Once::new();
        /// assert!(panic::catch_unwind(|| once.call_once(|| panic!("on purpose"))).is_err());
        /// once.call_once_force(|state| assert!(state.is_poisoned()));
        /// once.call_once(|| unreachable!());
        /// ```
        ///
        /// # Panics
        ///
        /// If `f` does: this `Once` is then poisoned. If the running thread runs the closure.
        ///
        /// # Blocks
        ///
        /// The thread, while another runs its closure.
        #[inline]
        #[track_caller]
        pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
            let _ = self.call(true, Wait::forever, f);
        }

        $crate::park::wait::timed! {
            call_once: ". Only the wait for another thread's closure is limited. \
Returns `true` if a closure has returned"
            /// # Examples
            ///
            /// ```
            #[doc = concat!("use ", $path, ";")]
            /// use std::time::Duration;
            ///
            /// let once = Once::new();
            /// let slow = once.call_once_for(|| assert!(!once.is_completed()), Duration::ZERO);
            /// assert!(slow, "no other thread runs one, and its own may take any time");
            /// ```
            ///
            /// # Panics
            ///
            /// As [`call_once`](Self::call_once).
            #[must_use = "after a timeout it is not done"]
            #[track_caller]
            pub fn call_once_for, call_once_until [F: FnOnce()] (&self, f: F) -> bool {
                |limit| self.call(false, limit, |_| f()).is_ok()
            }
        }

        $crate::park::wait::timed! {
            call_once_force: ". Only the wait for another thread's closure is limited. \
Returns `true` if a closure has returned"
            /// # Panics
            ///
            /// As [`call_once_force`](Self::call_once_force).
            #[must_use = "after a timeout it is not done"]
            #[track_caller]
            pub fn call_once_force_for, call_once_force_until [F: FnOnce(&OnceState)] (&self, f: F) -> bool {
                |limit| self.call(true, limit, f).is_ok()
            }
        }

        /// [`call_once`](Self::call_once) that waits for another thread's closure as `wait` says. An
        /// interrupt does not end the thread's own closure.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use ", $path, ";")]
        /// use selvedge::{Wait, WaitError, thread};
        ///
        /// let (once, wait) = (Once::new(), Wait::forever().interruptible());
        /// thread::current().interrupt();
        /// assert_eq!(once.call_once_with(wait, || unreachable!()), Err(WaitError::Interrupted));
        /// assert!(once.call_once_with(wait, || ()).is_ok() && once.is_completed());
        /// ```
        ///
        /// # Panics
        ///
        /// As [`call_once`](Self::call_once).
        ///
        /// # Errors
        ///
        /// [`WaitError`], and `f` was not called.
        ///
        /// # Blocks
        ///
        /// As [`call_once`](Self::call_once).
        #[track_caller]
        pub fn call_once_with<F: FnOnce()>(&self, wait: Wait, f: F) -> Result<(), WaitError> {
            wait.begin()?;
            self.call(false, || wait, |_| f())
        }
    };
}

/// Defines how permits of a `Semaphore` are waited for; the path of that is for examples. The methods call
/// `try_acquire_many`, and a private `take`.
macro_rules! acquires {
    ($path:literal) => {
        /// Takes a permit; waits for it if need be.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use ", $path, ";")]
        ///
        /// let semaphore = Semaphore::new(1);
        /// let permit = semaphore.acquire();
        /// assert!(semaphore.try_acquire().is_none());
        /// drop(permit);
        /// assert!(semaphore.try_acquire().is_some());
        /// ```
        ///
        /// # Blocks
        ///
        /// The thread.
        #[inline]
        pub fn acquire(&self) -> SemaphorePermit<'_> {
            self.acquire_many(1)
        }

        /// Takes `n` permits at once; waits until all of them are there, if need be. Never waits if `n` is 0.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use ", $path, ";")]
        ///
        /// let semaphore = Semaphore::new(5);
        /// let permits = semaphore.acquire_many(3);
        /// assert_eq!((permits.num_permits(), semaphore.available_permits()), (3, 2));
        /// ```
        ///
        /// # Panics
        ///
        /// If `n` is more than [`MAX_PERMITS`](Self::MAX_PERMITS): the wait would never end.
        ///
        /// # Blocks
        ///
        /// The thread.
        #[inline]
        pub fn acquire_many(&self, n: usize) -> SemaphorePermit<'_> {
            let _ = self.take(n, Wait::forever());
            SemaphorePermit::new(self, n)
        }

        /// [`acquire`](Self::acquire) that ends as `wait` says.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use ", $path, ";")]
        /// use selvedge::{Wait, WaitError, thread};
        ///
        /// let semaphore = Semaphore::new(1);
        /// thread::current().interrupt();
        /// let wait = Wait::forever().interruptible();
        /// assert_eq!(semaphore.acquire_with(wait).unwrap_err(), WaitError::Interrupted);
        /// assert!(semaphore.acquire_with(wait).is_ok());
        /// ```
        ///
        /// # Errors
        ///
        /// [`WaitError`], and no permit was taken.
        ///
        /// # Blocks
        ///
        /// The thread.
        pub fn acquire_with(&self, wait: Wait) -> Result<SemaphorePermit<'_>, WaitError> {
            self.acquire_many_with(1, wait)
        }

        /// [`acquire_many`](Self::acquire_many) that ends as `wait` says.
        ///
        /// # Panics
        ///
        /// As [`acquire_many`](Self::acquire_many).
        ///
        /// # Errors
        ///
        /// [`WaitError`], and no permit was taken.
        ///
        /// # Blocks
        ///
        /// The thread.
        pub fn acquire_many_with(&self, n: usize, wait: Wait) -> Result<SemaphorePermit<'_>, WaitError> {
            wait.run(|wait| self.take(n, wait)).map(|()| SemaphorePermit::new(self, n))
        }

        $crate::park::wait::timed! {
            acquire
            /// # Examples
            ///
            /// ```
            #[doc = concat!("use ", $path, ";")]
            /// use std::time::Duration;
            ///
            /// let semaphore = Semaphore::new(0);
            /// assert!(semaphore.try_acquire_for(Duration::from_millis(1)).is_none());
            /// ```
            pub fn try_acquire_for, try_acquire_until(&self) -> Option<SemaphorePermit<'_>> {
                |limit| self.try_acquire().or_else(|| self.acquire_with(limit()).ok())
            }
        }

        $crate::park::wait::timed! {
            acquire_many
            /// # Panics
            ///
            /// As [`acquire_many`](Self::acquire_many).
            pub fn try_acquire_many_for, try_acquire_many_until(&self, n: usize)
                -> Option<SemaphorePermit<'_>>
            {
                |limit| self.try_acquire_many(n).or_else(|| self.acquire_many_with(n, limit()).ok())
            }
        }
    };
}

/// Defines the waits at a `Barrier`, the path of which is for examples. They call a private method, `pass`.
macro_rules! waits_at {
    ($path:literal) => {
        /// Waits until all threads of this round have come. The barrier is then ready for the next round.
        ///
        /// # Blocks
        ///
        /// The thread.
        #[inline]
        pub fn wait(&self) -> BarrierWaitResult {
            BarrierWaitResult::new(self.pass(Wait::forever()) == Ok(true))
        }

        $crate::park::wait::timed! {
            wait: "; then the arrival is taken back and `None` is returned"
            /// # Examples
            ///
            /// ```
            #[doc = concat!("use ", $path, ";")]
            /// use std::time::Duration;
            ///
            /// let barrier = Barrier::new(2);
            /// assert!(barrier.wait_for(Duration::from_millis(1)).is_none());
            /// ```
            #[must_use = "after a timeout the others have not come"]
            pub fn wait_for, wait_until(&self) -> Option<BarrierWaitResult> {
                |limit| self.pass(limit()).ok().map(BarrierWaitResult::new)
            }
        }

        /// [`wait`](Self::wait) that ends as `wait` says. If it ends early, the arrival is taken back, and
        /// the others wait for another in its place.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("use ", $path, ";")]
        /// use selvedge::{Wait, WaitError, thread};
        ///
        /// let barrier = Barrier::new(2);
        /// thread::current().interrupt();
        /// let wait = Wait::forever().interruptible();
        /// assert_eq!(barrier.wait_with(wait).unwrap_err(), WaitError::Interrupted);
        /// ```
        ///
        /// # Errors
        ///
        /// [`WaitError`], and this thread has not arrived.
        ///
        /// # Blocks
        ///
        /// The thread.
        pub fn wait_with(&self, wait: Wait) -> Result<BarrierWaitResult, WaitError> {
            wait.run(|wait| self.pass(wait)).map(BarrierWaitResult::new)
        }
    };
}

/// Defines methods that are one expression each, the `unsafe` ones last. The traits of `lock_api` only have
/// other names for what a raw lock does.
macro_rules! forward {
    ($(fn $method:ident(&$this:ident $(, $limit:ident: $time:ty)?) $(-> $result:ty)? = $own:expr;)*
     $(unsafe fn $unsafe:ident(&$owner:ident $(, $by:ident: $until:ty)?) $(-> $outcome:ty)? = $leave:expr;)*
    ) => {
        $(#[inline]
        fn $method(&$this $(, $limit: $time)?) $(-> $result)? {
            $own
        })*
        $(#[inline]
        unsafe fn $unsafe(&$owner $(, $by: $until)?) $(-> $outcome)? {
            $leave
        })*
    };
}

pub(super) use {acquires, calls_once, forward, guard, waits_at};
