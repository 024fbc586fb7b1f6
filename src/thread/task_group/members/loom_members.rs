//! A thread that begins or ends its task, while the group is cancelled.

use std::ptr;
use std::sync::Arc;

use super::{Cause, Links, List, Member, Members, OPEN, Ordering, UnsafeCell};
use crate::park::core_pool;
use crate::park::current::current;
use crate::park::permit::park;
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Body, Green, body, model, model_within, on, spawn_with, together};
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};

fn group() -> Arc<Members> {
    let members = Arc::new(Members::new());
    // Everything must exist before the threads do.
    assert!(members.cause().is_none());
    members.list.with(|_| ());
    members
}

/// Runs a task that waits until it is interrupted.
fn waits(members: &Members) {
    let endless = || Wait::forever().interruptible().run(|wait| park(|| wait, WaitReason::Park));
    let ran = members.run(current(), endless);
    assert!(matches!(ran, None | Some(Err(WaitError::Interrupted))), "{ran:?}");
}

fn cancels(members: &Members) {
    assert!(members.cancel(Cause::Failed));
    assert_eq!(members.cause(), Some(Cause::Failed));
}

#[test]
fn a_thread_that_begins_is_told() {
    model(|| {
        let group = group();
        together([body(&group, waits), body(&group, cancels)]);
    });
}

#[test]
fn a_green_thread_that_begins_is_told() {
    model(|| {
        let (group, green) = (group(), Green::new());
        let (theirs, thread) = (Arc::clone(&group), green.thread());
        let task = loom::thread::spawn(move || on(thread, || waits(&theirs)));
        together([body(&group, cancels)]);
        task.join().unwrap();
    });
}

#[test]
fn two_threads_that_begin_are_told() {
    model_within(1, || {
        let group = group();
        together([body(&group, waits), body(&group, waits), body(&group, cancels)]);
    });
}

#[test]
fn one_of_two_causes_is_the_first() {
    model(|| {
        let group = group();
        let fails: Body = body(&group, |members| _ = members.cancel(Cause::Failed));
        let panics: Body = body(&group, |members| {
            let first = members.cancel(Cause::Panicked);
            assert_eq!(first, members.cause() == Some(Cause::Panicked));
        });
        together([fails, panics]);
    });
}

/// A task ends while the group is cancelled by `cancel`. The next thread with its core is not interrupted.
fn a_task_ends(cancel: fn(&Members)) {
    let group = group();
    let thread = core_pool::take(1, None, None);
    thread.is_interrupted();
    // The task is on the model's first thread, so that two preemptions are enough.
    let other = spawn_with(Arc::clone(&group), move |group| cancel(&group));
    on(thread, || _ = group.run(thread, || ()));
    thread.release();
    let next = core_pool::take(1, None, None);
    other.join().unwrap();
    assert!(!next.is_interrupted(), "another thread is interrupted");
}

#[test]
fn a_core_that_is_used_again_is_not_interrupted() {
    model(|| a_task_ends(cancels));
}

/// Runs a task that waits, if `enter` puts it into the list. After a deadlock nothing may be dropped that
/// takes a lock.
fn waits_in(members: &Members, enter: fn(&Members, &Member) -> bool) {
    let links = Links { next: ptr::null(), previous: ptr::null(), linked: false };
    let member = Member { thread: current(), links: UnsafeCell::new(links) };
    if enter(members, &member) {
        let _ = Wait::forever().interruptible().run(|wait| park(|| wait, WaitReason::Park));
        members.list.with(|list| list.unlink(&member));
    }
}

/// The list is emptied before the word changes. A thread that begins in between is never told.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_word_comes_last() {
    let waits = |members: &Members| {
        waits_in(members, |members, member| members.enter(member).map(std::mem::forget).is_some());
    };
    let cancels = |members: &Members| {
        while let Some(thread) = members.list.with(List::pop) {
            thread.interrupt();
            thread.release();
        }
        members.cause.store(Cause::Failed as u8, Ordering::Release);
    };
    model(move || {
        let group = group();
        together([body(&group, waits), body(&group, cancels)]);
    });
}

/// A thread looks at the word before it locks the list.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_look_comes_before_the_lock() {
    let waits = |members: &Members| {
        waits_in(members, |members, member| {
            let open = members.cause.load(Ordering::Acquire) == OPEN;
            if open {
                members.list.with(|list| list.link(member));
            }
            open
        });
    };
    model(move || {
        let group = group();
        together([body(&group, waits), body(&group, cancels)]);
    });
}

/// The party that cancels does not count its reference. It uses the core while that begins its next life.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_a_thread_that_is_not_counted() {
    let cancels = |members: &Members| {
        members.cause.store(Cause::Failed as u8, Ordering::Release);
        while let Some(thread) = members.list.with(List::pop) {
            // Gives back what `pop` has counted.
            ThreadRef::release(thread);
            thread.interrupt();
        }
    };
    model(move || a_task_ends(cancels));
}
