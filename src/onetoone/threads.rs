//! The list of a 1:1 runtime's threads, with what each of them does.

use std::ptr;

use super::inner::Inner;
use crate::backtrace::Unwinder;
use crate::sys::task_state;
use crate::thread::info::ThreadInfo;
use crate::thread::seen::{ThreadChanges, ThreadsSeen};
use crate::thread::snapshot::{Looks, Position, ThreadCursor, ThreadPage};

impl Inner {
    /// Returns where the cores of its threads say that they belong.
    pub(super) fn home(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Returns its threads, and what they do.
    pub(super) fn list_threads(&self) -> Vec<ThreadInfo> {
        if !self.process.is_mine() {
            return Looks::in_fork(self.home());
        }
        let mut looks = Looks::new(self.home(), None);
        looks.add_from(Position::Start, usize::MAX, ask_kernel);
        looks.into_sorted()
    }

    /// Returns at most `most` of its threads, from a position on.
    pub(super) fn list_page(
        &self,
        from: ThreadCursor,
        most: usize,
        unwinder: Option<&mut Unwinder>,
    ) -> ThreadPage {
        if !self.process.is_mine() {
            return ThreadPage::in_fork(self.home(), from);
        }
        let mut looks = Looks::new(self.home(), unwinder);
        let next = looks.add_from(from.0, most, ask_kernel);
        ThreadPage::new(looks.into_infos(false), next)
    }

    /// Returns at most `most` of its threads that have changed.
    pub(super) fn list_changed(&self, seen: &mut ThreadsSeen, most: usize) -> ThreadChanges {
        if !self.process.is_mine() {
            return ThreadChanges::in_fork(self.home());
        }
        seen.walk(self.home(), most, |looks, from, most| {
            looks.add_from(from, looks.len().saturating_add(most), ask_kernel)
        })
    }
}

/// Asks the kernel if a kernel thread is asleep, and for its CPU.
fn ask_kernel(tid: u32) -> Option<(bool, Option<u32>)> {
    task_state::look(tid).map(|look| (look.asleep, look.cpu))
}
