//! Writers that are written down: whoever writes is in the ledger, and nobody else is; without the bit that makes them come by.
//!
//! Each model is a process of its own (`ci/loom.sh`), so the switch is on in these only.

use std::sync::Arc;

use super::super::state::{Share, Wish};
use super::RawRwLock;
use super::loom_rwlock::{Body, Guarded, body};
use crate::park::current::current;
use crate::park::ledger;
use crate::park::tests::loom_model::{model, together};

fn recorded(guarded: &Arc<Guarded>, run: fn(&RawRwLock)) -> Body {
    body(guarded, move |guarded| {
        ledger::begin_here();
        run(&guarded.lock);
    })
}

fn ends_free(guarded: &Guarded) {
    assert_eq!(guarded.lock.bits(), RawRwLock::new().bits());
    assert_eq!(ledger::holder(guarded.lock.key()), None, "left behind");
}

fn written_by_me(lock: &RawRwLock) {
    assert_eq!(ledger::holder(lock.key()), Some(current()), "somebody else");
}

fn not_written_down(lock: &RawRwLock) {
    assert_eq!(ledger::holder(lock.key()), None, "left behind");
}

fn writes(lock: &RawRwLock) {
    lock.write();
    written_by_me(lock);
    lock.leave_write();
}

#[test]
fn the_writer_is_written_down_and_nobody_else() {
    model(|| {
        let guarded = Guarded::new();
        let reads = |lock: &RawRwLock| {
            lock.read();
            not_written_down(lock);
            lock.leave_read();
        };
        together([recorded(&guarded, writes), recorded(&guarded, reads)]);
        ends_free(&guarded);
    });
}

#[test]
fn writers_follow_each_other() {
    model(|| {
        let guarded = Guarded::new();
        let fair = |lock: &RawRwLock| {
            lock.write();
            written_by_me(lock);
            lock.leave_write_fair();
        };
        together([recorded(&guarded, writes), recorded(&guarded, fair)]);
        ends_free(&guarded);
    });
}

#[test]
fn who_upgrades_is_written_down_until_it_downgrades() {
    model(|| {
        let guarded = Guarded::new();
        let to_and_fro = |lock: &RawRwLock| {
            lock.upgradable();
            not_written_down(lock);
            assert!(lock.upgrade_until(None));
            written_by_me(lock);
            lock.downgrade_to(Share::READ);
            not_written_down(lock);
            lock.leave_read();
        };
        let reads = |lock: &RawRwLock| {
            lock.read();
            lock.leave_read();
        };
        together([recorded(&guarded, to_and_fro), recorded(&guarded, reads)]);
        ends_free(&guarded);
    });
}

/// A writer that is written down, and leaves by the short way.
#[test]
#[should_panic(expected = "left behind")]
fn negative_a_writer_that_does_not_come_by() {
    model(|| {
        let guarded = Guarded::new();
        let wrong = |lock: &RawRwLock| {
            lock.write();
            let seen = lock.bits();
            // As if the bit were not there.
            if lock.state.try_leave(seen, seen.minus(Share::WRITE)).is_err() {
                lock.leave_write();
            }
        };
        let reads = |lock: &RawRwLock| {
            assert!(
                !lock.try_acquire(Wish::Read) || {
                    not_written_down(lock);
                    lock.leave_read();
                    true
                }
            );
        };
        together([recorded(&guarded, wrong), recorded(&guarded, reads)]);
        ends_free(&guarded);
    });
}
