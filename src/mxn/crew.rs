//! The kernel threads of a runtime, to be joined: its LWPs', the monitor's, the reserve's.
//!
//! The list is touched when one of them is started, when one of an LWP has been told to end, and when the runtime ends: never by a
//! dispatcher or the monitor, and so its lock may be one of std (I4).

use std::sync::{Mutex, MutexGuard};

use super::lwp::Lwp;
use crate::sys::kthread::KernelThread;

/// What has been started and not yet joined.
#[derive(Debug)]
pub(crate) struct Crew(Mutex<Vec<Member>>);

#[derive(Debug)]
struct Member {
    thread: KernelThread,
    /// The number of the LWP that it is of.
    lwp: Option<u32>,
}

impl Crew {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.lock().expect("nothing panics with the lock held")
    }

    pub(crate) fn add(&self, thread: KernelThread, of: Option<&Lwp>) {
        self.members().push(Member { thread, lwp: of.map(|lwp| lwp.index) });
    }

    /// Waits for the end of an LWP's kernel thread, which was told to end, unless somebody else does.
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

    /// Leaves all that there are to end by themselves.
    pub(crate) fn detach_all(&self) {
        let members = std::mem::take(&mut *self.members());
        drop(members);
    }
}
