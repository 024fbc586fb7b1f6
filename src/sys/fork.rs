//! Tells whether this process is a fork of the one that something was started in, and what a fork does first.
//!
//! A child of `fork` has one kernel thread, whatever the parent had. Code that relies on others must know. A
//! process id would tell, but is used again one day. A count in the child's own copy of the memory cannot
//! lie.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::once::{Mutex, OnceLock};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// What a child does first, in this order.
static DUTIES: [OnceLock<fn()>; 16] = [const { OnceLock::new() }; 16];

/// How many forks lie between the first process and this one, as far as it has been watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// Returns this process's generation. From then on its forks are counted, and each child calls `duty`
    /// before `fork` returns there. A duty that is known already is not added again. It runs in the child's
    /// only thread, and may neither allocate nor wait for another thread.
    ///
    /// # Errors
    /// No memory for the C library's list of what to do at a fork.
    pub(crate) fn watched(duty: fn()) -> io::Result<Self> {
        register()?;
        let known = DUTIES.iter().any(|place| std::ptr::fn_addr_eq(*place.get_or_init(|| duty), duty));
        assert!(known, "there are more duties than places for them");
        Ok(Self::now())
    }

    #[cfg(test)]
    pub(crate) fn of_another_process() -> Self {
        Self(u32::MAX)
    }

    /// Returns this process's generation.
    #[inline]
    pub(crate) fn now() -> Self {
        // Relaxed: written only when there is no other thread.
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns a number that is different for each process of a line of forks.
    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }

    /// Returns `true` if this is still the process that had this generation.
    #[inline]
    pub(crate) fn is_mine(self) -> bool {
        self == Self::now()
    }
}

/// Returns `true` if this process was forked from one that was watched already.
#[inline]
pub(crate) fn is_child() -> bool {
    // Relaxed: as in `now`.
    FORKS.load(Ordering::Relaxed) != 0
}

/// Returns `true` if the calling kernel thread is the only one of this process, as far as can be known.
pub(crate) fn is_alone() -> bool {
    use std::os::unix::fs::MetadataExt;
    // A folder has one link from above, one from itself, and one from each folder in it.
    std::fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == 3)
}

/// Registers the handlers for forks, once for the process.
fn register() -> io::Result<()> {
    static CODE: OnceLock<libc::c_int> = OnceLock::new();
    // SAFETY: the first two acquire and release a lock that is held only briefly. The third may run in the
    // child: it does an atomic addition, and calls duties that may run there.
    let code = *CODE.get_or_init(|| unsafe { libc::pthread_atfork(Some(before), Some(after), Some(child)) });
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// Held while a thread of this crate walks the loader's lists.
static WALK: Mutex<()> = Mutex::new(());

/// Runs `walk`, which walks the loader's lists. A fork waits until the walk has ended. Otherwise the child
/// might find the loader's lock locked forever, by a thread that it does not have.
pub(crate) fn held_off<R>(walk: impl FnOnce() -> R) -> R {
    // If there is no memory to register, forks do not wait.
    let _ = register();
    let _walk = WALK.lock(|()| ());
    walk()
}

unsafe extern "C" fn before() {
    std::mem::forget(WALK.lock(|()| ()));
}

unsafe extern "C" fn after() {
    change_walks(|_| Some(0));
}

/// What the thread that a child of `fork` begins with waits for at its end.
static OTHERS: OnceLock<fn()> = OnceLock::new();

/// Has children call `wait` before the thread that they begin with ends the process. It waits for the threads
/// that a child has started.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu", not(loom)))]
pub(crate) fn children_end_after(wait: fn()) {
    OTHERS.get_or_init(|| wait);
}

/// Waits until the threads have ended that this child has started, as far as they are known.
pub(crate) fn until_others_have_ended() {
    if let Some(wait) = OTHERS.get() {
        wait();
    }
}

unsafe extern "C" fn child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for duty in DUTIES.iter().map_while(OnceLock::get) {
        duty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_process_is_not_alone_and_no_fork() {
        // The harness waits in a thread of its own.
        assert!(!is_alone());
        assert!(!is_child());
        assert!(Generation::watched(|| ()).unwrap().is_mine());
    }
}
