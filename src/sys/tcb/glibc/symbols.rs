//! Names of the C library, looked up while the program runs.

use std::ffi::{CStr, c_int, c_ulong, c_void};
use std::mem;
use std::ptr::NonNull;

use super::super::super::system;
use super::super::unfit::Unfit;
use super::{layout, unexported};

/// The head of `struct __res_state`, which is public.
#[repr(C)]
pub(super) struct ResolverState {
    retrans: c_int,
    retry: c_int,
    /// Zero until the first name is looked up.
    pub(super) options: c_ulong,
}

/// `sizeof (struct __res_state)` on every 64-bit Linux. It is part of the public interface, like its layout.
pub(super) const RESOLVER_STATE_SIZE: usize = 568;

/// The functions that a block's life needs.
pub(super) struct Functions {
    /// `_dl_allocate_tls`: gives a block its vector of modules, and the static thread-locals their first
    /// values. If the argument is null, it makes the block itself too.
    pub(super) allocate: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    /// `_dl_deallocate_tls`: the reverse. It frees the block itself if told to.
    pub(super) deallocate: unsafe extern "C" fn(*mut c_void, bool),
    /// `__call_tls_dtors`: runs what `__cxa_thread_atexit_impl` registered.
    pub(super) run_destructors: unsafe extern "C" fn(),
    /// `__ctype_init`: points `isalpha` and its kin at the tables of the thread's locale.
    pub(super) init_ctype: unsafe extern "C" fn(),
    /// `__h_errno_location`: the error of the calling thread's last host name look-up.
    pub(super) h_errno: unsafe extern "C" fn() -> *mut c_int,
    /// `__res_state`: the resolver's state of the calling thread.
    pub(super) resolver: unsafe extern "C" fn() -> *mut ResolverState,
    /// `__res_nclose`: closes the state's sockets and frees what hangs on it.
    pub(super) close_resolver: Option<unsafe extern "C" fn(*mut ResolverState)>,
}

impl Functions {
    pub(super) fn bind() -> Result<Self, Unfit> {
        Ok(Self {
            // SAFETY: glibc has declared it `void *_dl_allocate_tls (void *)` since before 2.17.
            allocate: unsafe { function(c"_dl_allocate_tls") }?,
            // SAFETY: it has declared this `void _dl_deallocate_tls (void *, bool)`.
            deallocate: unsafe { function(c"_dl_deallocate_tls") }?,
            // SAFETY: it has declared this `void __call_tls_dtors (void)`, since 2.18.
            run_destructors: unsafe { function(c"__call_tls_dtors") }?,
            // SAFETY: it has declared this `void __ctype_init (void)`.
            init_ctype: unsafe { function(c"__ctype_init") }?,
            // SAFETY: public: `int *__h_errno_location (void)`.
            h_errno: unsafe { function(c"__h_errno_location") }?,
            // SAFETY: public: `struct __res_state *__res_state (void)`.
            resolver: unsafe { function(c"__res_state") }?,
            // SAFETY: public: `void __res_nclose (struct __res_state *)`. Not in every glibc in this library.
            close_resolver: unsafe { function(c"__res_nclose") }.ok(),
        })
    }
}

/// Sizes that the loader reserves in every thread, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Static {
    /// `struct pthread`. On riscv64, all that lies between its beginning and the register.
    pub(super) descriptor: usize,
    /// Thread-locals of the modules known at start, with the surplus for later ones. On x86-64 the descriptor
    /// too.
    pub(super) size: usize,
    pub(super) align: usize,
}

impl Static {
    pub(super) fn ask() -> Result<Self, Unfit> {
        // SAFETY: `void _dl_get_tls_static_info (size_t *size, size_t *align)`, the same since before 2.17.
        let info: unsafe extern "C" fn(*mut usize, *mut usize) =
            unsafe { function(c"_dl_get_tls_static_info") }?;
        let (mut size, mut align) = (0, 0);
        // SAFETY: both are local variables to write to.
        unsafe { info(&mut size, &mut align) };
        // A slot is aligned to pages and nothing more. If thread-locals are aligned to more than one page,
        // there is no rung.
        if !align.is_power_of_two() || align > 4096 {
            return Err(Unfit::Unexpected("the alignment of thread-locals"));
        }
        Ok(Self { descriptor: layout::descriptor_size()?, size, align })
    }
}

/// Returns where `name` is. For a thread-local, that of the calling thread.
pub(super) fn symbol(name: &'static CStr) -> Result<NonNull<c_void>, Unfit> {
    let at = system::symbol(name).or_else(|| unexported::symbol(name));
    at.ok_or(Unfit::Missing(name.to_str().unwrap_or("?")))
}

/// Returns the function `name`.
///
/// # Safety
/// `F` is a pointer to a function of its type.
pub(super) unsafe fn function<F: Copy>(name: &'static CStr) -> Result<F, Unfit> {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    let at = symbol(name)?;
    // SAFETY: addresses of functions and of data are one kind on every platform with `dlsym`. The caller has
    // the type.
    Ok(unsafe { mem::transmute_copy(&at) })
}

/// Returns a number that glibc exports for debuggers.
pub(super) fn number(name: &'static CStr) -> Result<usize, Unfit> {
    let at = symbol(name)?.cast::<u32>();
    // SAFETY: `_thread_db_sizeof_*` are constants of type `uint32_t`.
    Ok(unsafe { at.read() } as usize)
}

/// A field of a structure of glibc's, as it describes that to debuggers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) offset: usize,
    /// The size of one element, in bytes.
    pub(super) size: usize,
}

/// Returns the description of a field.
pub(super) fn field(name: &'static CStr) -> Result<Field, Unfit> {
    let at = symbol(name)?.cast::<[u32; 3]>();
    // SAFETY: `_thread_db_*` that describe a field are constants: size in bits, number of elements, and offset
    // in bytes.
    let [bits, _, offset] = unsafe { at.read() };
    Ok(Field { offset: offset as usize, size: bits as usize / 8 })
}
