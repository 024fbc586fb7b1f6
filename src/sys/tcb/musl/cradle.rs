//! Where a block comes from: a real thread, which leaves it behind.
//!
//! The kernel would clear the lock of musl's ring when the thread ends. That is how the library's own
//! `pthread_exit` releases it. This thread never took the lock, so it names another word first. The kernel
//! clears that one and wakes its waiter once nothing of the thread runs any more. Then the stack is unused,
//! and the block belongs to the waiter.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::super::kthread::{Attributes, Mask, Options};
use super::super::super::{futex, pthread};
use super::shape::{LOOKED_AT, peek};

/// The stack of the thread, in bytes. It makes a few system calls.
const STACK: usize = 16 << 10;

/// How often the CPU is given up before the maker of a block sleeps.
const YIELDS: u32 = 10_000;

/// What is found in a block, by its thread.
#[derive(Debug)]
pub(super) struct Born {
    /// The thread register.
    pub(super) tp: usize,
    /// The kernel's number of the thread.
    pub(super) tid: u32,
    /// The upper end and the size of the stack, as the library tells them.
    pub(super) stack: (usize, usize),
    /// The block's first bytes: at first, while the thread may not be cancelled, and detached.
    pub(super) looks: [Look; 3],
}

/// The words at the beginning of a block.
pub(super) type Look = [u32; LOOKED_AT / 4];

struct Cradle {
    /// Not zero until the kernel thread is gone.
    lives: AtomicU32,
    value: Option<(libc::pthread_key_t, usize)>,
    born: Born,
}

/// Makes a block that stands in the library's ring. `value`: a key, and the value that it gets there.
///
/// # Errors
/// The error number of `pthread_create`.
pub(super) fn make(value: Option<(libc::pthread_key_t, usize)>) -> Result<Born, c_int> {
    let options = Options { stack_size: Some(STACK), ..Options::default() };
    let code = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EAGAIN);
    let mut attributes = Attributes::new(&options).map_err(code)?;
    // A guard would split the mapping, and so use two.
    // SAFETY: initialized attributes.
    unsafe { libc::pthread_attr_setguardsize(&raw mut attributes.0, 0) };
    let born = Born { tp: 0, tid: 0, stack: (0, 0), looks: [[0; LOOKED_AT / 4]; 3] };
    let cradle = Cradle { lives: AtomicU32::new(1), value, born };
    let cradle = Box::into_raw(Box::new(cradle));
    let mut thread = MaybeUninit::uninit();
    let mask = Mask::block_asynchronous();
    // SAFETY: valid places, initialized attributes, and a start function that takes what is passed.
    let failed =
        unsafe { pthread::pthread_create(thread.as_mut_ptr(), &attributes.0, leave_it, cradle.cast()) };
    drop(mask);
    if failed == 0 {
        // SAFETY: lives until it is freed below.
        let lives = unsafe { &(*cradle).lives };
        // It makes a few system calls. A sleep here would look as if the thread that spawns were blocked, and
        // its LWP would be replaced.
        let mut yields = 0;
        // Acquire: the kernel's store comes after all that the thread wrote.
        while lives.load(Ordering::Acquire) != 0 {
            if yields < YIELDS {
                yields += 1;
                // SAFETY: no memory is involved.
                unsafe { libc::sched_yield() };
            } else {
                let _ = futex::wait_shared(lives, 1, None);
            }
        }
    }
    // SAFETY: made above. The thread is gone, if there was one.
    let cradle = unsafe { Box::from_raw(cradle) };
    if failed == 0 { Ok(cradle.born) } else { Err(failed) }
}

/// Returns the calling thread's block.
pub(super) fn own() -> usize {
    // SAFETY: takes nothing.
    unsafe { pthread::pthread_self() as usize }
}

extern "C" fn leave_it(cradle: *mut c_void) -> *mut c_void {
    let cradle = cradle.cast::<Cradle>();
    // No reference to the whole: the maker looks at the word meanwhile.
    // SAFETY: `make` lends it until the kernel thread has ended, and wrote this before.
    if let Some((key, value)) = unsafe { (*cradle).value } {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(key, ptr::without_provenance(value)) };
    }
    // SAFETY: takes nothing.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let (tp, stack) = (own(), stack());
    // SAFETY: within what every block has.
    let look = || unsafe { peek::<Look>(tp) };
    let mut looks = [look(); 3];
    let mut before: c_int = 0;
    // SAFETY: a place for the old state.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
    looks[1] = look();
    be_cancellable();
    // SAFETY: takes nothing.
    let me = unsafe { pthread::pthread_self() };
    // SAFETY: no other thread joins this one or detaches it.
    unsafe { libc::pthread_detach(me) };
    looks[2] = look();
    let born = Born { tp, tid, stack, looks };
    // SAFETY: lent. The maker reads it once the kernel thread is gone.
    unsafe { (*cradle).born = born };
    // SAFETY: lent. Both sides use it as an atomic.
    let lives = unsafe { (*cradle).lives.as_ptr() };
    // SAFETY: the word outlives the kernel thread.
    unsafe { libc::syscall(libc::SYS_set_tid_address, lives) };
    // SAFETY: ends this kernel thread. Nothing on its stack has a destructor.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("a kernel thread outlived its end")
}

/// Makes the calling thread one that can be cancelled, as a new thread is. `pthread_exit` makes it one that
/// cannot.
pub(super) fn be_cancellable() {
    let mut before: c_int = 0;
    // SAFETY: a place for the old type. This one looks at no request.
    unsafe { pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &mut before) };
    // SAFETY: a place for the old state.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &mut before) };
}

/// Returns the end and the size of the calling thread's stack, as the library tells them.
fn stack() -> (usize, usize) {
    // SAFETY: plain data, filled in by the call below.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    let (mut low, mut size) = (ptr::null_mut(), 0);
    // SAFETY: takes nothing.
    let me = unsafe { pthread::pthread_self() };
    // SAFETY: a real thread's handle, and a place for the attributes.
    unsafe { pthread::pthread_getattr_np(me, &raw mut attributes) };
    // SAFETY: attributes filled in above; two places to write to.
    unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size) };
    (low.addr() + size, size)
}

const PTHREAD_CANCEL_ENABLE: c_int = 0;
const PTHREAD_CANCEL_DISABLE: c_int = 1;
const PTHREAD_CANCEL_DEFERRED: c_int = 0;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}
