//! Where a green thread has its alarm (`timer/alarm.rs`): on its porch, which is free once the thread runs.
//! So the record has no room for it, and a thread that never waits with a far deadline has none.

use std::ptr::NonNull;

use super::Scheduler;
use crate::mxn::green::Green;
use crate::mxn::timer::Alarm;
use crate::park::backend::{Porch, Sleep};
use crate::time::Moment;

/// An alarm fits on a porch. (In models, atomics are larger.)
const FITS: bool = size_of::<Alarm>() <= size_of::<Porch>() && align_of::<Alarm>() <= align_of::<Porch>();

impl Scheduler {
    /// Returns `true` if the alarm of the running thread watches the deadline of its sleep; sets the alarm if
    /// it must. Otherwise the sleep needs an entry of its own. Called before the thread leaves, while it
    /// cannot be preempted.
    #[inline]
    pub(in crate::mxn) fn is_watched(
        &self,
        green: &'static Green,
        sleep: &dyn Sleep,
        deadline: Moment,
    ) -> bool {
        if !FITS || !sleep.has_far_deadline() {
            return false;
        }
        let at = self.clock.at(deadline);
        if !alarm_of(green).is_some_and(|alarm| alarm.rings_by(at)) {
            self.set_alarm(green, at);
        }
        true
    }

    /// Sets the alarm of the running thread. Makes it before, if the thread has none.
    #[cold]
    fn set_alarm(&self, green: &'static Green, at: u64) {
        if !green.has_alarm.replace(true) {
            // SAFETY: the closure has left the porch, because the thread runs. `FITS` holds.
            unsafe { Alarm::put(place(green), green.thread(), self.clock) };
        }
        let alarm = alarm_of(green).expect("it was made");
        // SAFETY: the thread ends it on the stack that the porch is beside (`end_alarm`). LWPs stay for as
        // long as their runtime. The caller cannot be preempted.
        unsafe { alarm.set(&green.lwp().timers, at) };
    }
}

/// Ends the alarm of a thread that leaves for good. The thread cannot be preempted.
#[cold]
pub(super) fn end_alarm(green: &'static Green) {
    if let Some(alarm) = alarm_of(green) {
        alarm.end();
    }
    green.has_alarm.set(false);
}

/// Returns the alarm of a running thread, if it has one.
#[inline]
fn alarm_of(green: &'static Green) -> Option<&'static Alarm> {
    // SAFETY: `set_alarm` has put it there. It stays until the thread has left its stack for good.
    green.has_alarm.get().then(|| unsafe { place(green).as_ref() })
}

/// Returns where a running thread has room for its alarm.
#[inline]
fn place(green: &Green) -> NonNull<Alarm> {
    let stack = green.fiber.stack().expect("a running thread has a stack");
    NonNull::new(stack.porch().cast()).expect("a porch is beside a stack")
}

#[cfg(test)]
mod tests {
    use super::FITS;
    use crate::shim::atomic::AtomicU64;

    /// Otherwise all deadlines would have entries of their own. Atomics of models are larger.
    #[test]
    fn an_alarm_fits_on_a_porch() {
        const { assert!(FITS || size_of::<AtomicU64>() > size_of::<u64>()) }
    }

    #[test]
    #[cfg(all(feature = "net", target_os = "linux"))]
    fn a_reader_with_a_limit_leaves_one_entry_until_it_ends() {
        use std::io::{Read, Write};
        use std::time::Duration;

        use crate::mxn::sched::Scheduler;
        use crate::mxn::timer::NEVER;
        use crate::os::unix::net::UnixStream;
        use crate::park::current::current;
        use crate::runtime::Runtime;
        use crate::thread;

        let rt = crate::mxn::Builder::default().concurrency(1).build().unwrap();
        rt.run(|| {
            let next = || Scheduler::of(current()).pool.lwps().map(|lwp| lwp.timers.next()).min();
            assert_eq!(next(), Some(NEVER));
            let (mut here, mut there) = UnixStream::pair().unwrap();
            let reader = thread::spawn(move || {
                there.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
                let mut seen = Vec::new();
                for _ in 0..1000 {
                    there.read_exact(&mut [0]).unwrap();
                    seen.push(next());
                    there.write_all(&[0]).unwrap();
                }
                // The first need not have waited.
                assert!(seen[1] < Some(NEVER) && seen[1..].iter().all(|next| *next == seen[1]), "{seen:?}");
            });
            for _ in 0..1000 {
                here.write_all(&[0]).unwrap();
                here.read_exact(&mut [0]).unwrap();
            }
            reader.join().unwrap();
            assert_eq!(next(), Some(NEVER));
        });
    }
}
