//! Thread-specific data: values that each thread has for itself, under keys that are created at run time.
//!
//! `thread_local!` is for what a program knows when it is compiled, and works in threads of all kinds. A
//! [`Key`] is for what it learns later: one for each object, plug-in, or script. Green threads, bound
//! threads, 1:1 threads and threads that Selvedge did not start each have their own values. Values of green
//! threads move with them, even if the threads share a thread register (`mxn::Builder::pinned`) and so their
//! `thread_local!`s.
//!
//! # When values end
//!
//! A thread that ends drops its values, or passes them to their key's [destructor](Key::with_destructor), in
//! no particular order.
//!
//! * *Before it counts as ended*: `join` returns, and a runtime is gone, after that.
//! * *Before its `thread_local!`s are destroyed*, so values may use those. What destructors of
//!   `thread_local!`s put under keys is dropped after them. Threads that Selvedge did not start differ:
//!   there, one of these destructors drops all values. Its position among them is that of the thread's first
//!   use of Selvedge. What is put under keys after that is leaked.
//! * When a value is dropped, it is already out of the key, and [`get`](Key::get) finds none. A destructor
//!   may put others there. They are dropped in the next round. After four rounds, what is left is leaked (as
//!   in POSIX).
//! * A panic ends the process, as it does in destructors of `thread_local!`s.
//! * The thread in which `main` runs drops its values if `main` returns. `process::exit` drops no value of
//!   other threads.
//!
//! When a **key is dropped**, its values stay with their threads, out of reach: another thread must not drop
//! what may belong to its thread. Each is dropped when its thread ends. It is dropped earlier if that thread
//! puts a value under a newer key that has got the same entry. It is not passed to the destructor, since its
//! key is gone.
//!
//! In the child of a `fork`, the thread that called it has its values.
//!
//! # What it costs
//!
//! For keys that a thread uses often, [`get`](Key::get) and [`with`](Key::with) are a few instructions,
//! without a call. To create a key, and to drop it, touches no thread. Each value is an allocation.

mod keys;

use std::cell::UnsafeCell;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use self::keys::Keys;
use crate::fatal;
use crate::park::current::{current, try_current};
use crate::park::specific::{self, Header, KeyId, Occasion};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::global;

global! {
    static KEYS: Keys = Keys::new();
}

/// A key, under which each thread may have a value.
///
/// It can be a static, or be created, shared and dropped like any other value. Values need not be [`Send`]:
/// a thread's value never leaves the thread, unless the thread [takes](Self::take) it.
///
/// While a value is in use by [`with`](Self::with), it can neither be replaced nor taken. For a value that
/// changes often, put a [`Cell`](std::cell::Cell) or [`RefCell`](std::cell::RefCell) under the key.
///
/// # Examples
///
/// ```
/// use selvedge::tsd::Key;
/// use selvedge::{Mxn, Runtime, thread};
///
/// static REQUEST: Key<u64> = Key::new();
///
/// let rt = Mxn::new()?;
/// let handles: Vec<_> = (1..=3)
///     .map(|n| {
///         rt.spawn(move || {
///             REQUEST.set(n);
///             thread::yield_now();
///             assert_eq!(REQUEST.get(), Some(n));
///         })
///     })
///     .collect();
/// handles.into_iter().for_each(|handle| handle.join().unwrap());
/// assert_eq!(REQUEST.get(), None);
/// # std::io::Result::Ok(())
/// ```
///
/// One for each object:
///
/// ```
/// use selvedge::tsd::Key;
/// use std::cell::RefCell;
///
/// /// Collects lines, in each thread those of the thread.
/// struct Log {
///     lines: Key<RefCell<Vec<String>>>,
/// }
///
/// impl Log {
///     fn say(&self, line: &str) {
///         self.lines.with_or_init(RefCell::default, |lines| lines.borrow_mut().push(line.to_owned()));
///     }
/// }
///
/// let log = Log { lines: Key::new() };
/// log.say("here");
/// std::thread::scope(|s| s.spawn(|| log.say("there")).join().unwrap());
/// assert_eq!(log.lines.take().unwrap().into_inner(), ["here"]);
/// ```
pub struct Key<T: 'static> {
    number: Number,
    destructor: Option<fn(T)>,
    /// A key takes values in and gives them out, and holds none.
    _value: PhantomData<fn(T) -> T>,
}

/// A key's number. It is taken when it is first needed, so that keys can be created in constants.
///
/// | value | meaning | left by |
/// |---|---|---|
/// | [`KeyId::NONE`] | none yet | `get_or_take` |
/// | else | the number | none |
struct Number(AtomicU64);

impl Number {
    const fn new() -> Self {
        Self(AtomicU64::new(KeyId::NONE.bits()))
    }

    #[inline]
    fn get(&self) -> KeyId {
        // Relaxed: only the number matters here. (`Keys::has` makes up for it.)
        let bits = self.0.load(Ordering::Relaxed);
        // SAFETY: only numbers are stored, in `new` and `take`.
        unsafe { KeyId::from_bits(bits) }
    }

    fn get_or_take(&self) -> io::Result<KeyId> {
        match self.get() {
            KeyId::NONE => self.take(),
            number => Ok(number),
        }
    }

    #[cold]
    fn take(&self) -> io::Result<KeyId> {
        let taken = KEYS.take()?;
        let none = KeyId::NONE.bits();
        // Release: pairs with the fence of `Keys::has`.
        match self.0.compare_exchange(none, taken.bits(), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(taken),
            Err(_) => {
                KEYS.give_back(taken);
                Ok(self.get())
            }
        }
    }
}

/// A value of a thread, on the heap.
#[repr(C)]
struct Node<T: 'static> {
    header: Header,
    destructor: Option<fn(T)>,
    value: UnsafeCell<T>,
}

impl<T: 'static> Node<T> {
    /// # Safety
    /// As for `Header::new`, with a header that is in a `Node<T>` that was a box.
    unsafe fn discard(header: NonNull<Header>, why: Occasion) {
        // SAFETY: the caller's promise. The header is the first field (repr(C)), and the pointer was made
        // from the whole.
        let node = unsafe { Box::from_raw(header.cast::<Self>().as_ptr()) };
        let end = || match node.destructor {
            Some(destructor) if why == Occasion::ThreadEnds && KEYS.has(node.header.key()) => {
                destructor(node.value.into_inner());
            }
            _ => drop(node),
        };
        match why {
            Occasion::Displaced => end(),
            Occasion::ThreadEnds => {
                // Kept until the abort: the drop of the payload may panic, too.
                let ended = catch_unwind(AssertUnwindSafe(end));
                if ended.is_err() {
                    fatal::abort("thread-specific value panicked on drop");
                }
            }
        }
    }
}

/// The running thread's value, in use.
struct InUse<T: 'static> {
    node: NonNull<Node<T>>,
    key: KeyId,
}

impl<T> InUse<T> {
    fn value(&self) -> &T {
        // SAFETY: in use, so it stays where it is, and nothing has exclusive access to it.
        let value = unsafe { &raw const (*self.node.as_ptr()).value };
        // SAFETY: in use, so it is only read.
        unsafe { &*UnsafeCell::raw_get(value) }
    }
}

impl<T> Drop for InUse<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: in use by this very call.
        unsafe { self.node.cast::<Header>().as_ref() }.end_use(self.key);
    }
}

impl<T: 'static> Key<T> {
    /// Creates a key under which no thread has a value.
    ///
    /// It takes its number with the first value. There are about a million numbers for keys that live at the
    /// same time. [`register`](Self::register) takes the number at once, and returns an error if there is
    /// none.
    #[must_use]
    pub const fn new() -> Self {
        Self { number: Number::new(), destructor: None, _value: PhantomData }
    }

    /// Creates a key with a number.
    ///
    /// # Examples
    ///
    /// ```
    /// let key = selvedge::tsd::Key::try_new()?;
    /// key.set(1);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    pub fn try_new() -> io::Result<Self> {
        let key = Self::new();
        key.register().map(|()| key)
    }

    /// Creates a key with a destructor. If a thread that ends has a value, the value is passed to
    /// `destructor`. Values that are [replaced](Self::set) before, or values of a key that is gone, are
    /// dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::tsd::Key;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// static TOTAL: AtomicUsize = AtomicUsize::new(0);
    /// static COUNT: Key<usize> = Key::with_destructor(|count| {
    ///     TOTAL.fetch_add(count, Ordering::Relaxed);
    /// });
    ///
    /// let threads: Vec<_> = (1..=4).map(|n| std::thread::spawn(move || COUNT.set(n))).collect();
    /// threads.into_iter().for_each(|thread| thread.join().unwrap());
    /// assert_eq!(TOTAL.load(Ordering::Relaxed), 10);
    /// ```
    #[must_use]
    pub const fn with_destructor(destructor: fn(T)) -> Self {
        Self { number: Number::new(), destructor: Some(destructor), _value: PhantomData }
    }

    /// Takes the key's number at once, if it has none. Then [`set`](Self::set) panics only for values in
    /// use.
    ///
    /// # Errors
    ///
    /// If too many keys are alive, so that there is no number for another one, or no memory for its number.
    pub fn register(&self) -> io::Result<()> {
        self.number.get_or_take().map(|_| ())
    }

    /// Returns the running thread's value. Values of this key's number were put there by this key, so they
    /// are of this type.
    #[inline]
    fn find(&self, key: KeyId) -> Option<NonNull<Node<T>>> {
        match specific::find_fast(key) {
            Some(header) => Some(header.cast()),
            None => find(key).map(NonNull::cast),
        }
    }

    #[inline]
    fn use_value(&self) -> Option<InUse<T>> {
        let key = self.number.get();
        let header = match specific::find_fast(key) {
            Some(header) => {
                // SAFETY: a value that is found is in its entry.
                unsafe { header.as_ref() }.begin_first_use();
                header
            }
            None => find_and_use(key)?,
        };
        Some(InUse { node: header.cast(), key })
    }

    /// Calls `f` with the running thread's value, if it has one.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::tsd::Key;
    ///
    /// let key = Key::new();
    /// key.set(String::from("mine"));
    /// assert_eq!(key.with(|name| name.map(String::len)), Some(4));
    /// ```
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(Option<&T>) -> R) -> R {
        let value = self.use_value();
        f(value.as_ref().map(InUse::value))
    }

    /// Calls `f` with the running thread's value. If there is none, `init` creates it.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::tsd::Key;
    /// use std::cell::Cell;
    ///
    /// let calls = Key::new();
    /// let call = || calls.with_or_init(|| Cell::new(0), |n| n.replace(n.get() + 1));
    /// assert_eq!((call(), call(), call()), (0, 1, 2));
    /// ```
    ///
    /// # Panics
    ///
    /// If `init` itself gives the thread a value under this key; or as [`set`](Self::set).
    #[inline]
    pub fn with_or_init<R>(&self, init: impl FnOnce() -> T, f: impl FnOnce(&T) -> R) -> R {
        let value = match self.use_value() {
            Some(value) => value,
            None => self.init(init()),
        };
        f(value.value())
    }

    #[cold]
    fn init(&self, value: T) -> InUse<T> {
        assert!(
            self.find(self.number.get()).is_none(),
            "a thread-specific value was set while it was being made"
        );
        self.set(value);
        self.use_value().expect("just set")
    }

    /// Returns the running thread's value, if it has one.
    ///
    /// # Examples
    ///
    /// ```
    /// let key = selvedge::tsd::Key::new();
    /// assert_eq!(key.get(), None);
    /// key.set(7);
    /// assert_eq!(key.get(), Some(7));
    /// ```
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        let node = self.find(self.number.get())?;
        // SAFETY: a value that is found is in its entry. If it is in use, then by code that may only read
        // it, as this does.
        let value = unsafe { &raw const (*node.as_ptr()).value };
        // SAFETY: in its entry, and only read.
        Some(unsafe { *UnsafeCell::raw_get(value) })
    }

    /// Gives the running thread a value. The one that it had is dropped.
    ///
    /// # Panics
    ///
    /// If the thread's value is in use by [`with`](Self::with) or [`with_or_init`](Self::with_or_init); or
    /// if the key has no number and there is none left (see [`register`](Self::register)).
    pub fn set(&self, value: T) {
        drop(self.replace(value));
    }

    /// Does what [`set`](Self::set) does. Returns the value that the thread had.
    ///
    /// # Examples
    ///
    /// ```
    /// let key = selvedge::tsd::Key::new();
    /// assert_eq!(key.replace("first"), None);
    /// assert_eq!(key.replace("second"), Some("first"));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`set`](Self::set).
    pub fn replace(&self, value: T) -> Option<T> {
        if let Some(old) = self.find_unused() {
            // SAFETY: a value that is found is in its entry.
            let current = UnsafeCell::raw_get(unsafe { &raw const (*old.as_ptr()).value });
            // SAFETY: not in use, so nothing else reads it, and it is this thread's own.
            return Some(mem::replace(unsafe { &mut *current }, value));
        }
        let key = self.number.get_or_take().unwrap_or_else(|error| panic!("{error}"));
        let header = Header::new(key, Node::<T>::discard);
        let node = Node { header, destructor: self.destructor, value: UnsafeCell::new(value) };
        let node = NonNull::from(Box::leak(Box::new(node)));
        let me = current();
        // SAFETY: just leaked. `discard` or `take` frees it, when it is out of its entry and not in use.
        let displaced = unsafe { me.specific.put(me.backend().has_own_register(), node.cast()) };
        if let Some(displaced) = displaced {
            // SAFETY: just taken out of its entry, and this thread's.
            unsafe { specific::discard(displaced, Occasion::Displaced) };
        }
        None
    }

    /// Takes the running thread's value away, if it has one, and returns it.
    ///
    /// # Examples
    ///
    /// ```
    /// let key = selvedge::tsd::Key::new();
    /// key.set(Box::new(7));
    /// assert_eq!(key.take(), Some(Box::new(7)));
    /// assert_eq!(key.take(), None);
    /// ```
    ///
    /// # Panics
    ///
    /// If it is in use by [`with`](Self::with) or [`with_or_init`](Self::with_or_init).
    pub fn take(&self) -> Option<T> {
        self.find_unused()?;
        let header = current().specific.remove(self.number.get())?;
        // SAFETY: a value of this key, not in use, and out of its entry, so it belongs to this call.
        let node = unsafe { Box::from_raw(header.cast::<Node<T>>().as_ptr()) };
        Some(node.value.into_inner())
    }

    /// Returns the running thread's value, which must not be in use.
    fn find_unused(&self) -> Option<NonNull<Node<T>>> {
        let node = self.find(self.number.get())?;
        // SAFETY: a value that is found is in its entry.
        let is_in_use = unsafe { node.cast::<Header>().as_ref() }.is_in_use();
        assert!(!is_in_use, "a thread-specific value was replaced or taken while it was in use");
        Some(node)
    }
}

/// Returns the running thread's value under `key`, near or not.
#[cold]
fn find(key: KeyId) -> Option<NonNull<Header>> {
    specific::find(key, || try_current().map(|me| &me.core().specific))
}

#[cold]
fn find_and_use(key: KeyId) -> Option<NonNull<Header>> {
    let header = find(key)?;
    // SAFETY: a value that is found is in its entry.
    unsafe { header.as_ref() }.begin_use();
    Some(header)
}

impl<T: 'static> Drop for Key<T> {
    fn drop(&mut self) {
        let number = self.number.get();
        if number != KeyId::NONE {
            KEYS.give_back(number);
        }
    }
}

impl<T: 'static> Default for Key<T> {
    fn default() -> Self {
        Self::new()
    }
}

crate::shown::debug! { [T: 'static] Key<T>: "Key" }

#[cfg(all(test, loom))]
mod loom_number;
#[cfg(test)]
mod tests;
