//! The kernel threads of a runtime, to be joined: its LWPs', the monitor's, the reserve's.
//!
//! The list is touched when one of them is started, when one of an LWP has been told to end, and when the
//! runtime ends. A dispatcher or the monitor never touches it, so its lock may be one of std (I4).

use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::lwp::Lwp;
use crate::sys::kthread::{KernelThread, SignalMask};

/// What has been started and not yet joined.
#[derive(Debug)]
pub(crate) struct KernelThreads {
    members: Mutex<Vec<Member>>,
    /// The signal mask of the thread that built the runtime. LWPs start with it.
    pub(super) signal_mask: SignalMask,
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
        Self { members: Mutex::new(Vec::new()), signal_mask: SignalMask::of_caller() }
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
        let member = at.map(|at| members.swap_remove(at));
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

    /// Leaves all to end by themselves.
    pub(crate) fn detach_all(&self) {
        let members = mem::take(&mut *self.members());
        drop(members);
    }
}
