//! The kernel threads of a runtime, to be joined: its LWPs', the monitor's, the reserve's.
//!
//! The list is touched when one of them is started, when one of an LWP has been told to end, and when the
//! runtime ends. A dispatcher or the monitor never touches it, so its lock may be one of std (I4).

use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::lwp::Lwp;
use crate::sys::affinity;
use crate::sys::futex;
use crate::sys::kthread::{KernelThread, SignalMask};
use crate::sys::preempt::Mask;

/// What has been started and not yet joined.
#[derive(Debug)]
pub(crate) struct KernelThreads {
    members: Mutex<Vec<Member>>,
    /// The signal mask of the thread that built the runtime. LWPs start with it.
    pub(super) signal_mask: SignalMask,
    /// The same without the preemption signal, once an LWP has started.
    usual_mask: AtomicU64,
    /// Those beside the LWPs; 0 until they run, and after they have left.
    helper_tids: [AtomicU32; 2],
}

/// The kernel threads that run no green threads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Helper {
    Monitor,
    Reserve,
}

impl Helper {
    pub(crate) const ALL: [Self; 2] = [Self::Monitor, Self::Reserve];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Monitor => "selvedge-mon",
            Self::Reserve => "selvedge-rsv",
        }
    }
}

#[derive(Debug)]
struct Member {
    thread: KernelThread,
    /// The number of its LWP.
    lwp: Option<u32>,
    badge: Badge,
}

/// The name and number of a kernel thread. An LWP's kernel thread outlasts the LWP by what destructors do at
/// its end.
#[derive(Clone, Debug)]
pub(crate) struct Badge {
    pub(crate) name: String,
    /// The kernel's number of it; 0: it has not told.
    tid: Arc<AtomicU32>,
}

impl Badge {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), tid: Arc::new(AtomicU32::new(0)) }
    }

    /// Notes the number. Called by the kernel thread itself.
    pub(crate) fn tell(&self, tid: u32) {
        // Relaxed: a number to show.
        self.tid.store(tid, Ordering::Relaxed);
    }

    pub(crate) fn tid(&self) -> Option<u32> {
        // Relaxed: a number to show.
        Some(self.tid.load(Ordering::Relaxed)).filter(|&tid| tid != 0)
    }
}

impl KernelThreads {
    pub(crate) fn new() -> Self {
        Self {
            members: Mutex::new(Vec::new()),
            signal_mask: SignalMask::of_caller(),
            usual_mask: AtomicU64::new(0),
            helper_tids: Default::default(),
        }
    }

    /// Returns what threads block that were started with no mask of their own.
    pub(crate) fn usual_mask(&self) -> Mask {
        // Relaxed: known before the first thread, and never another.
        Mask::from_bits(self.usual_mask.load(Ordering::Relaxed))
    }

    /// Sets what [`usual_mask`](Self::usual_mask) returns.
    pub(super) fn show_usual_mask(&self, mask: Mask) {
        // Relaxed: see `usual_mask`.
        self.usual_mask.store(mask.bits(), Ordering::Relaxed);
    }

    /// Returns the id of this kernel thread; 0 until it runs, and after it has left.
    pub(crate) fn helper_tid(&self, helper: Helper) -> u32 {
        // Relaxed: a number to show.
        self.helper_tids[helper as usize].load(Ordering::Relaxed)
    }

    /// Sets what [`helper_tid`](Self::helper_tid) returns. Called by that kernel thread.
    pub(crate) fn show_helper(&self, helper: Helper, tid: u32) {
        // Relaxed: a number to show.
        self.helper_tids[helper as usize].store(tid, Ordering::Relaxed);
    }

    /// Notes that this kernel thread has left: it uses the runtime no more, and owns no share of it.
    pub(crate) fn leave(&self, helper: Helper) {
        let word = &self.helper_tids[helper as usize];
        let at = ptr::from_ref(word);
        // Release: pairs with `await_left`. From here on the word may be gone.
        word.store(0, Ordering::Release);
        futex::wake(at, 1);
    }

    /// Waits until this kernel thread, which runs, has left.
    pub(crate) fn await_left(&self, helper: Helper) {
        let word = &self.helper_tids[helper as usize];
        loop {
            // Acquire: pairs with `leave`.
            match word.load(Ordering::Acquire) {
                0 => return,
                tid => _ = futex::wait(word, tid, None),
            }
        }
    }

    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().expect("nothing panics with the lock held")
    }

    pub(crate) fn add(&self, thread: KernelThread, of: Option<&Lwp>, badge: Badge) {
        self.members().push(Member { thread, lwp: of.map(|lwp| lwp.index), badge });
    }

    /// Waits for the end of an LWP's kernel thread, which was told to end, unless another thread does.
    pub(crate) fn join(&self, of: &Lwp) {
        let mut members = self.members();
        let at = members.iter().position(|member| member.lwp == Some(of.index));
        // The others stay in order: an LWP whose kernel thread could not run may have another by now.
        let member = at.map(|at| members.remove(at));
        drop(members);
        if let Some(member) = member {
            member.thread.join();
        }
    }

    /// Waits for the end of all, and of those that are added meanwhile.
    pub(crate) fn join_all(&self) {
        loop {
            let member = self.members().pop();
            let Some(member) = member else { return };
            member.thread.join();
        }
    }

    /// Joins those that have ended. Returns `true` if those were all. More are added only by one that has not
    /// ended.
    pub(crate) fn try_join_all(&self) -> bool {
        let mut members = self.members();
        let left = mem::take(&mut *members).into_iter().filter_map(|member| {
            let Member { thread, lwp, badge } = member;
            thread.try_join().err().map(|thread| Member { thread, lwp, badge })
        });
        *members = left.collect();
        members.is_empty()
    }

    /// Returns those that have not been joined.
    pub(crate) fn left(&self) -> Vec<Badge> {
        self.members().iter().map(|member| member.badge.clone()).collect()
    }

    /// Takes all back to `cpus`, if the calling one may use others besides. Called by the reserve's thread,
    /// so none of them ends meanwhile before the runtime stops.
    pub(crate) fn take_back(&self, cpus: &[usize]) {
        affinity::take_back(self.members().iter().filter_map(|member| member.badge.tid()), cpus);
    }

    /// Leaves all to end by themselves.
    pub(crate) fn detach_all(&self) {
        let members = mem::take(&mut *self.members());
        drop(members);
    }
}

/// The end of a start at the new kernel thread. By it the thread says that it runs, or that it cannot.
#[derive(Debug)]
pub(crate) struct Ready(Arc<OnceLock<io::Result<()>>>);

impl Ready {
    pub(crate) fn tell(self, outcome: io::Result<()>) {
        self.0.set(outcome).expect("it is told once");
    }
}

/// A kernel thread of the runtime that is being started.
#[derive(Debug)]
#[must_use = "it may have failed"]
pub(crate) struct Starting {
    pub(crate) lwp: Option<&'static Lwp>,
    /// Not a channel: std's has a thread-local with a destructor for the waiting thread. That destructor is
    /// registered under the loader's lock. All running threads may sleep behind that lock until there is
    /// another LWP.
    heard: Arc<OnceLock<io::Result<()>>>,
}

impl Starting {
    /// Returns what its starter waits for, and what the new kernel thread tells.
    pub(crate) fn of(lwp: Option<&'static Lwp>) -> (Ready, Self) {
        let heard = Arc::new(OnceLock::new());
        (Ready(Arc::clone(&heard)), Self { lwp, heard })
    }

    /// Waits until it runs.
    pub(crate) fn wait(&self) -> io::Result<()> {
        // It tells in any case: a panic before that would end the process.
        let Err(error) = self.heard.wait() else { return Ok(()) };
        Err(match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mxn::tests::Model;
    use crate::sys::kthread::Options;

    /// An LWP whose kernel thread could not run may have another before the first was joined. The wait for
    /// the first must not be one for the other, which runs.
    #[test]
    fn of_two_kernel_threads_of_an_lwp_the_first_is_joined_first() {
        let model = Model::new(2, 0, 0);
        let threads = KernelThreads::new();
        for (name, lwp) in [("other", 0), ("failed", 1), ("runs", 1)] {
            let thread = KernelThread::start(&Options::default(), || ()).unwrap();
            threads.add(thread, Some(model.lwp(lwp)), Badge::new(name));
        }
        threads.join(model.lwp(0));
        threads.join(model.lwp(1));
        let left: Vec<_> = threads.left().into_iter().map(|badge| badge.name).collect();
        assert_eq!(left, ["runs"]);
        threads.join_all();
    }
}
