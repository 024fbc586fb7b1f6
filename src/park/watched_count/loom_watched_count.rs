//! Threads that count themselves in and out, while another begins to watch. What is made of the count is
//! right in the end. Negative twins have no fence, or look before they count.

use std::sync::Arc;

use loom::sync::Mutex;

use super::WatchedCount;
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{Ordering, fence};

/// A count, and what was made of it last.
#[repr(align(2048))]
struct Room {
    count: WatchedCount,
    known: Mutex<u32>,
}

type Change = fn(&WatchedCount) -> bool;
type Watch = fn(&WatchedCount) -> u32;

fn settle(room: &Room, watch: Watch) {
    let mut known = room.known.lock().unwrap();
    *known = watch(&room.count);
}

/// One thread watches, another makes a change, and this one counts itself in.
fn right_in_the_end(change: Change, add: Change, watch: Watch) {
    let count = WatchedCount::new();
    assert!(!count.add());
    let room = Arc::new(Room { count, known: Mutex::new(0) });
    let watcher = spawn_with(room.clone(), move |room| settle(&room, watch));
    let changer = spawn_with(room.clone(), move |room| {
        if change(&room.count) {
            settle(&room, watch);
        }
    });
    if add(&room.count) {
        settle(&room, watch);
    }
    [watcher, changer].into_iter().for_each(|thread| thread.join().unwrap());
    let known = *room.known.lock().unwrap();
    assert_eq!(known, room.count.count.load(Ordering::Relaxed), "an old count");
}

#[test]
fn the_last_that_reads_knows_all() {
    model(|| right_in_the_end(WatchedCount::remove, WatchedCount::add, WatchedCount::watch));
}

fn add_unfenced(count: &WatchedCount) -> bool {
    count.count.fetch_add(1, Ordering::Relaxed);
    count.is_watched()
}

fn look_first(count: &WatchedCount) -> bool {
    fence(Ordering::SeqCst);
    let watched = count.is_watched();
    count.count.fetch_add(1, Ordering::Relaxed);
    watched
}

fn watch_unfenced(count: &WatchedCount) -> u32 {
    count.watched.store(true, Ordering::Relaxed);
    count.count.load(Ordering::Relaxed)
}

#[test]
#[should_panic(expected = "an old count")]
fn negative_a_change_without_a_fence() {
    model(|| right_in_the_end(WatchedCount::remove, add_unfenced, WatchedCount::watch));
}

#[test]
#[should_panic(expected = "an old count")]
fn negative_a_look_before_the_change() {
    model(|| right_in_the_end(WatchedCount::remove, look_first, WatchedCount::watch));
}

#[test]
#[should_panic(expected = "an old count")]
fn negative_a_watch_without_a_fence() {
    model(|| right_in_the_end(WatchedCount::remove, WatchedCount::add, watch_unfenced));
}
