//! The C library's own functions, for the locks that stay its own.
//!
//! The loader is asked for them before the program starts. It takes its lock for that, which may later be
//! held by a thread that waits for the very call. A function that is called even earlier is looked for then.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the C library, once it has been looked for.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns its address.
    pub(crate) fn get(&self) -> *mut c_void {
        // Relaxed: code that was there before the program started.
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        let found = self.look();
        assert!(!found.is_null(), "selvedge_preload: the C library has no {:?}", self.name);
        found
    }

    /// Asks the loader. Returns null if no library has it.
    pub(crate) fn look(&self) -> *mut c_void {
        let found = find(self.name);
        // Relaxed: as above.
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Returns the address of the C library's function of this name; null: it has none.
fn find(name: &CStr) -> *mut c_void {
    // Before 2.36, the loader finds the oldest version of a function. Of these functions, that has other
    // objects.
    if cfg!(target_arch = "x86_64") && name.to_bytes().starts_with(b"pthread_cond_") {
        // SAFETY: C strings, and a pseudo-handle.
        let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr()) };
        if !found.is_null() {
            return found;
        }
    }
    // SAFETY: a C string, and a pseudo-handle.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Calls the C library's function of a name, as `next!(name(argument: Type, ..) -> Type)`.
macro_rules! next {
    ($name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new(
            match ::std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        );
        extern "C" fn look() {
            NEXT.look();
        }
        /// The loader calls what it finds here, before the program starts.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static BEFORE_THE_START: extern "C" fn() = look;
        type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
        // SAFETY: the C library's function of this name has this type.
        let next = unsafe { ::std::mem::transmute::<*mut ::std::ffi::c_void, Function>(NEXT.get()) };
        // SAFETY: the promise of the caller of the function that this stands in.
        unsafe { next($($argument),*) }
    }};
}
pub(crate) use next;

/// Calls it as [`next`] does. It may block for long, and is no cancellation point: it takes a lock.
macro_rules! lock_next {
    ($($call:tt)*) => {
        ::selvedge::pthreads::undisturbed(|| {
            ::selvedge::pthreads::announced(|| $crate::next::next!($($call)*))
        })
    };
}
pub(crate) use lock_next;

/// Calls it as [`next`] does. It may block for long, and is a cancellation point.
macro_rules! wait_next {
    ($($call:tt)*) => {
        ::selvedge::pthreads::point(|| {
            ::selvedge::pthreads::announced(|| {
                ::selvedge::pthreads::in_marked_call(|| $crate::next::next!($($call)*))
            })
        })
    };
}
pub(crate) use wait_next;
