//! The C library's own functions, for the locks that stay its own.

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
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            found = find(self.name);
            assert!(!found.is_null(), "selvedge_preload: the C library has no {:?}", self.name);
            self.found.store(found, Ordering::Relaxed);
        }
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
        type Function = unsafe extern "C" fn($($type),*) -> $result;
        // SAFETY: the C library's function of this name has this type.
        let next = unsafe { ::std::mem::transmute::<*mut ::std::ffi::c_void, Function>(NEXT.get()) };
        // SAFETY: the promise of the caller of the function that this stands in.
        unsafe { next($($argument),*) }
    }};
}
pub(crate) use next;

/// Calls it as [`next`] does. It may block for long.
macro_rules! wait_next {
    ($($call:tt)*) => {
        ::selvedge::pthreads::announced(|| $crate::next::next!($($call)*))
    };
}
pub(crate) use wait_next;
