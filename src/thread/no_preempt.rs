//! `no_preempt`: short sections that a thread leaves only by itself.

use crate::park::current::try_current;
use crate::park::no_preempt::{self, NoPreempt};

/// Runs `f` without taking the thread's time slice away.
///
/// This is for the few instructions around something that other threads would spin for: a spinlock, a
/// sequence of stores to a device. `f` must not compute for long. Its LWP's slot would be handed to another
/// LWP, and for a while more kernel threads than slots would run. `f` may wait, as any code may, and then
/// gives its LWP up. Calls may be nested. If the slice was over meanwhile, the thread gives way at the end.
///
/// On the 1:1 runtime, for bound threads and foreign ones, only the kernel decides, and `f` just runs.
/// (Solaris had the same as `schedctl_start` and `schedctl_stop`.)
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// assert_eq!(thread::no_preempt(|| 7), 7);
/// ```
///
/// # Blocks
///
/// What `f` blocks.
pub fn no_preempt<F, T>(f: F) -> T
where
    F: FnOnce() -> T,
{
    let _section = Section { held: Some(NoPreempt::hold()) };
    f()
}

/// Ends a section, even if `f` unwinds.
struct Section {
    held: Option<NoPreempt>,
}

impl Drop for Section {
    fn drop(&mut self) {
        self.held = None;
        if no_preempt::is_allowed()
            && let Some(me) = try_current()
        {
            me.backend().leave_if_asked(&me);
        }
    }
}
