//! The end of a thread's values under pthread keys, and with them of Rust's thread-locals.
//!
//! **The problem.** musl keeps the destructors in a table that it does not export, and runs them in a
//! function that it does not export. Only `pthread_exit` calls that, and then ends the kernel thread.
//!
//! **The way.** `pthread_exit` is called on a context of its own, below the frames of the caller, on the
//! thread's own stack. The crate has a key, too. Its destructor looks whether values are left. If so, it asks
//! to be called in the next round. If not, it leaves for good, back to the caller (`Aside`). musl calls a
//! destructor without a lock, so nothing stays behind.
//!
//! The same destructor notices that the thread itself calls `pthread_exit`. That cannot end a green thread,
//! so it ends the process, with a message.

use std::ffi::c_void;
use std::ptr;

use super::super::Aside;
use super::super::unfit::Unfit;
use super::shape::{KEYS, Shape};

/// The value while a thread runs in a block: to leave is a mistake. No pointer of a program is so large.
const ARMED: *const c_void = ptr::without_provenance(usize::MAX);
/// How many rounds one call of `pthread_exit` makes: `PTHREAD_DESTRUCTOR_ITERATIONS`.
const ROUNDS: u32 = 4;
/// How often it is called, if values are set again and again. The last round of a call may be cut short.
const CALLS: u32 = 2;

/// Returns the value that marks a block without a thread, of process `number`. Like [`ARMED`], it is larger
/// than any pointer, and not the same.
pub(super) fn mark(number: u64) -> usize {
    usize::MAX - 1 - number as usize
}

/// The key of this crate.
#[derive(Debug)]
pub(super) struct Keys(libc::pthread_key_t);

/// What the destructor of that key needs.
struct Leaving<'a> {
    shape: &'a Shape,
    key: libc::pthread_key_t,
    tp: usize,
    rounds: u32,
    aside: &'static Aside,
    /// The way back, while `pthread_exit` runs.
    way: *mut (),
}

impl Keys {
    pub(super) fn make() -> Result<Self, Unfit> {
        // SAFETY: takes a number.
        if usize::try_from(unsafe { libc::sysconf(libc::_SC_THREAD_KEYS_MAX) }) != Ok(KEYS) {
            return Err(Unfit::Unexpected("the values of pthread keys"));
        }
        let mut key = 0;
        // SAFETY: a place for a key. The destructor takes what is set under it.
        match unsafe { libc::pthread_key_create(&mut key, Some(leave)) } {
            0 => Ok(Self(key)),
            code => Err(Unfit::NoThread(code)),
        }
    }

    /// Takes the key back. There are only [`KEYS`].
    pub(super) fn unmake(&self) {
        // SAFETY: the key exists, and is not used after this.
        unsafe { libc::pthread_key_delete(self.0) };
    }

    pub(super) fn own(&self) -> libc::pthread_key_t {
        self.0
    }

    /// From now on, `pthread_exit` is noticed in the calling thread.
    pub(super) fn arm(&self) {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(self.0, ARMED) };
    }

    /// Runs the destructors of the calling thread's values, and leaves it without values.
    ///
    /// # Safety
    /// `tp` is the calling thread's block. The thread is about to end.
    pub(super) unsafe fn run_destructors(&self, tp: usize, shape: &Shape, aside: &'static Aside) {
        let mut leaving = Leaving { shape, key: self.0, tp, rounds: 0, aside, way: ptr::null_mut() };
        for _ in 0..CALLS {
            if !leaving.others() {
                break;
            }
            leaving.rounds = 0;
            let data = (&raw mut leaving).cast::<()>();
            // SAFETY: the key exists.
            unsafe { libc::pthread_setspecific(self.0, data.cast()) };
            // SAFETY: `exit` takes `leaving`, which is lent until it has come back.
            unsafe { (aside.call)(exit, data) };
        }
        // POSIX: if a thread sets values forever, they are dropped.
        for key in 0..KEYS as libc::pthread_key_t {
            // SAFETY: the calling thread's block.
            unsafe { shape.set_value(tp, key, 0) };
        }
    }
}

impl Leaving<'_> {
    /// Returns `true` if there are values under other keys.
    fn others(&self) -> bool {
        let keys = 0..KEYS as libc::pthread_key_t;
        // SAFETY: the calling thread's block.
        keys.filter(|&key| key != self.key).any(|key| unsafe { self.shape.value(self.tp, key) } != 0)
    }
}

/// Runs `pthread_exit`, which does not come back.
unsafe extern "C" fn exit(data: *mut (), way: *mut ()) -> ! {
    // SAFETY: `run_destructors` lends it.
    unsafe { (*data.cast::<Leaving<'_>>()).way = way };
    // SAFETY: `leave` takes over before the library ends anything.
    unsafe { libc::pthread_exit(ptr::null_mut()) }
}

/// The destructor of this crate's key.
unsafe extern "C" fn leave(value: *mut c_void) {
    if value.addr() > isize::MAX as usize {
        report();
    }
    // SAFETY: `run_destructors` lends it until `back`.
    let leaving = unsafe { &mut *value.cast::<Leaving<'_>>() };
    leaving.rounds += 1;
    if leaving.rounds < ROUNDS && leaving.others() {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(leaving.key, value) };
        return;
    }
    // SAFETY: `call` waits for it. The frames that are left behind hold nothing.
    unsafe { (leaving.aside.back)(leaving.way) }
}

fn report() -> ! {
    const TEXT: &[u8] = b"selvedge: pthread_exit or pthread_cancel in a green thread, which it cannot end; \
        use a bound thread. Aborting.\n";
    // SAFETY: the text is as long as the argument says. The call takes no lock: the thread may hold any.
    unsafe { libc::write(2, TEXT.as_ptr().cast::<c_void>(), TEXT.len()) };
    super::super::super::process::abort()
}
