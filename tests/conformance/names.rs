//! What identifies a thread: names, ids, handles.

use std::collections::HashSet;

use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    a_thread_has_the_name_it_was_given,
    a_thread_without_a_name_has_none,
    names_may_be_long_and_strange,
    identities_are_unique,
    handles_are_equal_if_they_are_of_one_thread,
    a_handle_outlives_its_thread,
}

fn a_thread_has_the_name_it_was_given<L: Leg>() {
    let rt = L::new();
    let named = thread::Builder::new().name("shuttle".into());
    let handle = rt.spawn_with(named, || thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(handle.thread().name(), Some("shuttle"));
    assert_eq!(handle.join().unwrap().as_deref(), Some("shuttle"));
}

fn a_thread_without_a_name_has_none<L: Leg>() {
    let name = L::new().spawn(|| thread::current().name().map(str::to_owned)).join().unwrap();
    assert_eq!(name, None);
}

fn names_may_be_long_and_strange<L: Leg>() {
    let rt = L::new();
    for name in ["", "a name that is longer than the fifteen bytes of the kernel", "Weberschiffchen ä→b"] {
        let handle = rt.spawn_with(thread::Builder::new().name(name.into()), || ()).unwrap();
        assert_eq!(handle.thread().name(), Some(name));
        handle.join().unwrap();
    }
}

fn identities_are_unique<L: Leg>() {
    let rt = L::new();
    let mut seen = HashSet::from([thread::current().id()]);
    for _ in 0..50 {
        // One after the other, so that the next thread uses again what the one before has left.
        let handle = rt.spawn(|| (thread::current().id(), thread::current().id()));
        let outside = handle.thread().id();
        assert_eq!(handle.join().unwrap(), (outside, outside));
        assert!(seen.insert(outside), "{outside:?} twice");
    }
}

fn handles_are_equal_if_they_are_of_one_thread<L: Leg>() {
    let rt = L::new();
    let (one, other) = (rt.spawn(thread::current), rt.spawn(thread::current));
    assert_ne!(one.thread(), other.thread());
    let (of_one, of_other) = (one.thread().clone(), other.thread().clone());
    assert_eq!((one.join().unwrap(), other.join().unwrap()), (of_one, of_other));
}

fn a_handle_outlives_its_thread<L: Leg>() {
    let rt = L::new();
    let handle = rt.spawn_with(thread::Builder::new().name("gone".into()), || ()).unwrap();
    let of = handle.thread().clone();
    let id = of.id();
    handle.join().unwrap();
    // Others use what the thread has left, but not what the handle still shows.
    for _ in 0..20 {
        rt.spawn(thread::yield_now).join().unwrap();
    }
    of.unpark();
    drop(rt);
    of.unpark();
    assert_eq!((of.name(), of.id()), (Some("gone"), id));
}
