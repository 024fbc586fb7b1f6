//! Tells whether this process is a fork of the one that something was started in, and what a fork does first.
//!
//! A child of `fork` has one kernel thread, whatever the parent had. Code that relies on others must know. A
//! process id would tell, but is used again one day. A count in the child's own copy of the memory cannot
//! lie.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::once::{self, OnceLock};

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

/// How many threads of this crate walk the loader's lists, or [`FORKING`]. In the upper half, the process
/// whose threads these are.
static WALKS: AtomicU64 = AtomicU64::new(0);

/// A thread forks, and none walks.
const FORKING: u32 = u32::MAX;

/// Changes the number of this process's walks, as soon as `change` says what to.
fn change_walks(change: impl Fn(u32) -> Option<u32>) {
    let process = u64::from(std::process::id()) << 32;
    let next = |word: u64| {
        // Another process's threads are not here.
        let walks = if word & !u64::from(u32::MAX) == process { word as u32 } else { 0 };
        change(walks).map(|walks| process | u64::from(walks))
    };
    // Both orders: a fork comes after the walks that have ended, and before those that begin.
    once::wait_for(|| WALKS.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok());
}

/// Runs `walk`, which walks the loader's lists. A fork waits until the walk has ended. Otherwise the child
/// might find the loader's lock locked forever, by a thread that it does not have. A walk waits for no other
/// here: a thread that has the loader's lock may begin one, while another thread's waits for that lock.
pub(crate) fn held_off<R>(walk: impl FnOnce() -> R) -> R {
    /// Ends the walk.
    struct Walk;

    impl Drop for Walk {
        fn drop(&mut self) {
            change_walks(|walks| walks.checked_sub(1));
        }
    }

    // If there is no memory to register, forks do not wait.
    let _ = register();
    change_walks(|walks| (walks != FORKING).then(|| walks + 1));
    let _walk = Walk;
    walk()
}

unsafe extern "C" fn before() {
    change_walks(|walks| (walks == 0).then_some(FORKING));
}

/// Called in the parent. For the child, what is there is another process's.
unsafe extern "C" fn after() {
    change_walks(|_| Some(0));
}

/// What the thread that a child of `fork` begins with waits for at its end.
static OTHERS: OnceLock<fn()> = OnceLock::new();

/// Has children call `wait` before the thread that they begin with ends the process. It waits for the threads
/// that a child has started.
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
    // Its number does not tell, if both are the first process of a namespace. Relaxed: the only thread.
    WALKS.store(0, Ordering::Relaxed);
    for duty in DUTIES.iter().map_while(OnceLock::get) {
        duty();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_test_process_is_not_alone_and_no_fork() {
        // The harness waits in a thread of its own.
        assert!(!is_alone());
        assert!(!is_child());
        assert!(Generation::watched(|| ()).unwrap().is_mine());
    }

    /// The first process of a namespace of process ids has the number 1, and so may its parent.
    #[test]
    fn a_child_with_the_number_of_its_parent_walks() {
        let test = concat!(module_path!(), "::a_child_with_the_number_of_its_parent_walks");
        crate::sys::child_tests::isolated(test, || {
            // SAFETY: as a fork calls it.
            unsafe { before() };
            // SAFETY: as a fork calls it, in a child. What it counts is this process's own.
            unsafe { child() };
            held_off(|| ());
        });
    }

    /// A thread that has the loader's lock may begin a walk, while another one's waits for that lock.
    #[test]
    fn a_walk_waits_for_no_other_and_a_fork_for_all() {
        let [begun, forked] = [const { AtomicBool::new(false) }; 2];
        std::thread::scope(|s| {
            held_off(|| {
                s.spawn(|| held_off(|| ())).join().unwrap();
                s.spawn(|| {
                    begun.store(true, Ordering::Relaxed);
                    // SAFETY: as a fork calls it.
                    unsafe { before() };
                    forked.store(true, Ordering::Relaxed);
                    // SAFETY: as a fork calls it, in the parent.
                    unsafe { after() };
                });
                while !begun.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                s.spawn(|| held_off(|| ())).join().unwrap();
                assert!(!forked.load(Ordering::Relaxed));
            });
        });
        assert!(forked.load(Ordering::Relaxed));
    }
}
