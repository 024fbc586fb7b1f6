//! Runtimes with one slot, where the order of threads is certain; on every rung.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

use selvedge::sync::Mutex;
use selvedge::thread::{Builder, JoinHandle, Priority};
use selvedge::{Mxn, Runtime};

/// Makes a test of each scenario for each rung, with one slot: there the order of threads is certain.
macro_rules! one_slot {
    ($($scenario:ident),* $(,)?) => {
        one_slot! { @rung switched, selvedge::Mxn::builder().thread_register(selvedge::ThreadRegister::Switched), $($scenario),* }
        one_slot! { @rung syscall, selvedge::Mxn::builder().thread_register(selvedge::ThreadRegister::Syscall), $($scenario),* }
        // SAFETY: the scenarios keep nothing in a thread-local across a wait.
        one_slot! { @rung pinned, unsafe { selvedge::Mxn::builder().pinned() }, $($scenario),* }
    };
    (@rung $name:ident, $builder:expr, $($scenario:ident),*) => {
        mod $name {
            $(
                #[test]
                fn $scenario() {
                    let what = concat!(module_path!(), "::", stringify!($scenario));
                    crate::priorities::one_slot::play(what, || $builder, super::$scenario);
                }
            )*
        }
    };
}

/// How often a scenario is played whose LWP lost its slot.
const ATTEMPTS: usize = 20;
/// How often it is played if nothing is known to have disturbed it.
const QUIET_ATTEMPTS: usize = 3;

/// Plays a scenario, while no other one of these is played. Plays it again if it failed, for two things make
/// the order of threads uncertain:
///
/// - The LWP lost its slot. It slept in the kernel, for a page or behind another thread that maps memory.
/// - The thread that starts the others waited for memory, because other tests start threads too.
pub(super) fn play(what: &'static str, builder: impl Fn() -> selvedge::mxn::Builder, scenario: fn(&Mxn)) {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = crate::watchdog::Watchdog::start(what);
    let mut quiet = 0;
    for attempt in 1.. {
        let rt = match builder().concurrency(1).time_slice(None).build() {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                println!("skipped: {what}: {error}");
                return;
            }
            rt => rt.expect("an M:N runtime"),
        };
        warm_up(&rt);
        let moved = || {
            let stats = rt.stats();
            stats.compensated + stats.handed_off
        };
        let before = moved();
        let Err(failure) = catch_unwind(AssertUnwindSafe(|| scenario(&rt))) else { return };
        let moves = moved() - before;
        quiet += usize::from(moves == 0);
        if quiet == QUIET_ATTEMPTS || attempt == ATTEMPTS {
            resume_unwind(failure);
        }
        println!("{what}: again, the slot has moved {moves} times");
    }
}

/// Has threads made before the order of threads counts.
fn warm_up(rt: &Mxn) {
    rt.run(|| join_all((0..2 * MANY).map(|_| selvedge::thread::spawn(|| ())).collect::<Vec<_>>()));
}

/// What ran, in order.
#[derive(Clone, Default)]
pub(super) struct Log(pub(super) Arc<Mutex<Vec<usize>>>);

impl Log {
    pub(super) fn note(&self, what: usize) {
        self.0.lock().push(what);
    }

    pub(super) fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock())
    }

    /// A thread that notes that it ran.
    pub(super) fn spawn(&self, what: usize, priority: Priority) -> JoinHandle<()> {
        let log = self.clone();
        Builder::new().priority(priority).spawn(move || log.note(what)).unwrap()
    }
}

pub(super) const MANY: usize = 1000;

pub(super) fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Tells threads to end when it is dropped, also by a panic. Otherwise their runtime would wait for them.
pub(super) struct Over(pub(super) Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A thread that runs all the time and never yields: what is queued meanwhile stays queued. (No longer
/// than a slice.)
pub(super) struct Hog {
    over: Over,
    thread: JoinHandle<()>,
}

impl Hog {
    pub(super) fn start(rt: &Mxn) -> Self {
        let (over, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (until, begun) = (Arc::clone(&over), Arc::clone(&runs));
        let thread = rt.spawn(move || {
            begun.store(true, SeqCst);
            while !until.load(SeqCst) {
                std::hint::spin_loop();
            }
        });
        while !runs.load(SeqCst) {
            std::thread::yield_now();
        }
        Self { over: Over(over), thread }
    }

    pub(super) fn stop(self) {
        drop(self.over);
        self.thread.join().unwrap();
    }
}
