//! A call at the very end of a kernel thread that this crate did not start. It is made by a value of a
//! pthread key, which is destroyed after all thread-locals.
//!
//! Values are destroyed in rounds, four of them with glibc, for as long as destructors set new ones. In a
//! round, they are destroyed in the order of the keys. So this value puts itself off, twice, and comes after
//! all except what others do in their third round.

use std::ffi::c_void;

use super::once::OnceLock;

/// How many rounds to wait.
const ROUNDS: usize = 2;
/// Where the rounds are counted: bits that are free in the address.
const COUNT: usize = 3;
const _: () = assert!(ROUNDS <= COUNT);

struct Last {
    key: libc::pthread_key_t,
    call: fn(*const ()),
}

static LAST: OnceLock<Option<Last>> = OnceLock::new();

/// Makes the running thread call `call` with `about` when it ends: in the next round if `soon`, because some
/// rounds are over. `about` is aligned to four bytes at least, and `call` is always the same. Returns `false`
/// if the C library has no key left.
#[must_use]
pub(crate) fn call_last(call: fn(*const ()), about: *const (), soon: bool) -> bool {
    debug_assert!(!about.is_null() && about.addr() & COUNT == 0);
    let last = LAST.get_or_init(|| {
        // SAFETY: a destructor for what is stored under the key here.
        unsafe { new_key(put_off) }.map(|key| Last { key, call })
    });
    let value = about.map_addr(|about| about + if soon { ROUNDS } else { 0 });
    // SAFETY: the key is never deleted.
    last.as_ref().is_some_and(|last| unsafe { libc::pthread_setspecific(last.key, value.cast()) } == 0)
}

/// Makes a pthread key. It is never 0: a program that uses a key before it has made one finds that there is
/// none. Returns `None` if the C library has no key left.
///
/// # Safety
/// `destructor` destroys what is stored under the key.
pub(crate) unsafe fn new_key(destructor: unsafe extern "C" fn(*mut c_void)) -> Option<libc::pthread_key_t> {
    let make = || {
        let mut key = 0;
        // SAFETY: a place for the key, and the caller's promise.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(destructor)) } == 0).then_some(key)
    };
    let first = make()?;
    if first != 0 {
        return Some(first);
    }
    let second = make();
    // SAFETY: made above, and nothing is stored there.
    unsafe { libc::pthread_key_delete(first) };
    second
}

unsafe extern "C" fn put_off(value: *mut c_void) {
    let Some(Some(last)) = LAST.get() else { return };
    if value.addr() & COUNT < ROUNDS {
        // SAFETY: the key is never deleted.
        if unsafe { libc::pthread_setspecific(last.key, value.map_addr(|value| value + 1)) } == 0 {
            return;
        }
    }
    (last.call)(value.map_addr(|value| value & !COUNT).cast_const().cast());
}

#[cfg(test)]
mod tests {
    use super::*;

    include!("thread_end_tests.rs");
}
