use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};

use super::*;
use crate::park::backend::{SpawnOptions, Spawner};
use crate::park::core_pool;
use crate::thread::handle::Joining;
use crate::thread::task::spawn_unchecked;

/// Counts what is dropped.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

struct Counted(Drops);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, SeqCst);
    }
}

impl Drops {
    fn one(&self) -> Counted {
        Counted(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Records what it is told.
#[derive(Clone, Default)]
struct Told(Arc<AtomicUsize>);

impl Ending for Told {
    const AWAITED: bool = true;

    fn begins(&self, _me: ThreadRef) {}

    fn ended(self, _me: ThreadRef, unread_panic: bool) {
        self.0.store(1 + usize::from(unread_panic), SeqCst);
    }
}

/// Where cells are made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Room,
    Heap,
}

const PLACES: [At; 2] = [At::Room, At::Heap];

/// Keeps what is spawned, for the test to run.
struct Shelf {
    at: At,
    /// Says if spawning fails before the closure is packed, or after.
    fails: Option<bool>,
    spawned: std::cell::Cell<Option<Thread>>,
}

// SAFETY: each test uses its own, on one kernel thread.
unsafe impl Sync for Shelf {}

impl Spawner for Shelf {
    fn interrupts_all(&self) -> bool {
        false
    }

    fn spawn(&self, task: TaskRef<'_>, _options: &mut SpawnOptions) -> io::Result<ThreadRef> {
        if self.fails == Some(false) {
            return Err(io::ErrorKind::Other.into());
        }
        let task = match self.at {
            At::Heap => task.onto_heap(),
            At::Room => {
                let inline = NonNull::from(Box::leak(Box::new(InlineStorage::new())));
                let porch = Box::into_raw(Box::<Porch>::new_uninit()).cast();
                // SAFETY: both are leaked, and used by this cell alone.
                unsafe { task.into_room(Rooms { inline, porch }) }
            }
        };
        if self.fails.is_some() {
            return Err(io::ErrorKind::Other.into());
        }
        let me = core_pool::take(2, None, None);
        self.spawned.set(Some(Thread { task, me }));
        Ok(me)
    }
}

/// A thread that the test plays. As a kernel thread, it has one more reference than the one that it shares
/// with its handle.
struct Thread {
    task: Task,
    me: ThreadRef,
}

// SAFETY: starts may run on other threads.
unsafe impl Send for Thread {}

impl Thread {
    /// Runs all of its life. `between` is called when it has run and not yet said that it ends.
    fn run(self, between: impl FnOnce()) {
        let unclaimed = self.task.run(self.me);
        between();
        end(self.me, unclaimed);
    }

    fn run_for_good(self, between: impl FnOnce()) {
        self.task.run_for_good(self.me);
        between();
        end(self.me, None);
    }
}

fn end(me: ThreadRef, unclaimed: Option<Unclaimed>) {
    if me.finish() {
        if let Some(unclaimed) = unclaimed {
            // SAFETY: the handle is gone.
            unsafe { unclaimed.discard() };
        }
        me.release();
    }
    me.release();
}

fn make_with<T: Send + 'static, E: Ending>(
    at: At,
    ending: E,
    f: impl FnOnce() -> T + Send + 'static,
) -> (Thread, Joining<T>) {
    let shelf = Shelf { at, fails: None, spawned: Default::default() };
    // SAFETY: everything is `Send` and borrows nothing.
    let joining = unsafe { spawn_unchecked(&shelf, &mut SpawnOptions::default(), f, ending) }.unwrap();
    (shelf.spawned.take().unwrap(), joining)
}

fn make<T: Send + 'static>(at: At, f: impl FnOnce() -> T + Send + 'static) -> (Thread, Joining<T>) {
    make_with(at, (), f)
}

#[test]
fn the_handle_takes_the_value() {
    for at in PLACES {
        let (thread, joining) = make(at, || String::from("value"));
        assert_eq!(thread.task.cell.0.addr().get() & HEAP, usize::from(at == At::Heap));
        thread.run(|| ());
        assert_eq!(joining.join().unwrap(), "value");
    }
}

#[test]
fn the_handle_takes_the_payload_of_a_panic() {
    for at in PLACES {
        let (thread, joining) = make(at, || std::panic::resume_unwind(Box::new(7_u8)));
        thread.run(|| ());
        let joining: Joining<()> = joining;
        assert_eq!(*joining.join().unwrap_err().downcast::<u8>().unwrap(), 7);
    }
}

#[test]
fn a_value_that_is_taken_is_dropped_by_its_taker() {
    for at in PLACES {
        let drops = Drops::default();
        let value = drops.one();
        let (thread, joining) = make(at, move || value);
        thread.run(|| ());
        let value = joining.join();
        assert_eq!(drops.count(), 0);
        drop(value);
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn the_thread_drops_the_value_at_once_if_the_handle_is_gone() {
    for at in PLACES {
        let drops = Drops::default();
        let value = drops.one();
        let (thread, joining) = make(at, move || value);
        assert!(!joining.abandon());
        assert_eq!(drops.count(), 0);
        let seen = drops.clone();
        thread.run(move || assert_eq!(seen.count(), 1));
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn the_thread_drops_the_value_at_its_end_if_the_handle_goes_in_between() {
    for at in PLACES {
        let drops = Drops::default();
        let value = drops.one();
        let (thread, joining) = make(at, move || value);
        let seen = drops.clone();
        thread.run(move || {
            drop(joining);
            assert_eq!(seen.count(), 0);
        });
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn the_handle_drops_the_value_that_was_left_for_good() {
    for at in PLACES {
        let drops = Drops::default();
        let value = drops.one();
        let (thread, joining) = make(at, move || value);
        let seen = drops.clone();
        thread.run_for_good(move || {
            assert_eq!(seen.count(), 0);
            drop(joining);
            assert_eq!(seen.count(), 1);
        });
        assert_eq!(drops.count(), 1);
    }
}

/// If a thread ends while its handle drops the result, the thread must not get the handle's reference. The
/// result lies in memory that goes to another thread with the last reference.
#[test]
fn a_thread_ends_while_its_handle_drops_the_value_that_was_left_for_good() {
    /// Ends the thread when dropped, and notes whether the thread got the handle's reference.
    struct EndsItsThread(Arc<OnceLock<ThreadRef>>, Arc<OnceLock<bool>>);
    impl Drop for EndsItsThread {
        fn drop(&mut self) {
            self.1.set(self.0.get().unwrap().finish()).unwrap();
        }
    }
    for at in PLACES {
        let (me, got_reference) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let value = EndsItsThread(Arc::clone(&me), Arc::clone(&got_reference));
        let (thread, joining) = make(at, move || value);
        me.set(thread.me).unwrap();
        thread.task.run_for_good(thread.me);
        drop(joining);
        assert_eq!(got_reference.get(), Some(&false));
        thread.me.release();
    }
}

#[test]
fn the_handle_drops_the_value_if_the_thread_has_ended() {
    for at in PLACES {
        let drops = Drops::default();
        let value = drops.one();
        let (thread, joining) = make(at, move || value);
        thread.run(|| ());
        assert_eq!(drops.count(), 0);
        drop(joining);
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn a_spawn_that_fails_drops_the_closure_once() {
    for (at, fails) in [(At::Room, false), (At::Heap, false), (At::Room, true), (At::Heap, true)] {
        let drops = Drops::default();
        let captured = drops.one();
        let shelf = Shelf { at, fails: Some(fails), spawned: Default::default() };
        let f = move || drop(captured);
        // SAFETY: everything is `Send` and borrows nothing.
        assert!(unsafe { spawn_unchecked(&shelf, &mut SpawnOptions::default(), f, ()) }.is_err());
        assert_eq!(drops.count(), 1);
    }
}

#[test]
fn a_closure_that_panics_when_it_is_dropped_unrun_frees_its_cell() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    for at in PLACES {
        let shelf = Shelf { at, fails: Some(true), spawned: Default::default() };
        let bomb = Bomb;
        // SAFETY: everything is `Send` and borrows nothing.
        let spawn =
            || unsafe { spawn_unchecked(&shelf, &mut SpawnOptions::default(), move || drop(bomb), ()) };
        assert!(catch_unwind(AssertUnwindSafe(spawn)).is_err());
    }
}

#[test]
fn the_ending_is_told_of_panics_that_were_not_seen() {
    for (panics, handle_first, expected) in
        [(false, true, 1), (true, true, 2), (false, false, 1), (true, false, 1)]
    {
        for at in PLACES {
            let told = Told::default();
            let f = move || assert!(!panics, "expected by the test");
            let (thread, joining) = make_with(at, told.clone(), f);
            let seen = told.clone();
            if handle_first {
                assert!(!joining.abandon());
                thread.run(move || assert_eq!(seen.0.load(SeqCst), expected));
            } else {
                thread.run(move || {
                    assert_eq!(seen.0.load(SeqCst), expected);
                    assert_eq!(joining.abandon(), panics);
                });
            }
        }
    }
}

#[test]
fn what_does_not_fit_lies_on_the_heap_as_it_is_aligned() {
    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    let large = [7_u8; 4 << 10];
    let (thread, joining) = make(At::Room, move || large);
    thread.run(|| ());
    assert_eq!(joining.join().unwrap(), large);
    let aligned = Aligned([3; 64]);
    let (thread, joining) = make(At::Room, move || {
        assert!((&raw const aligned).is_aligned());
        aligned
    });
    let at = thread.task.cell.at().addr().get();
    assert_eq!(at % 64, 0);
    thread.run(|| ());
    let value = joining.join().ok().unwrap();
    assert_eq!(value.0, [3; 64]);
    assert!((&raw const value).is_aligned());
}

/// A result that fits is taken where the thread's stack has gone, whatever the closure was.
#[test]
fn a_large_closure_lies_apart_from_its_result() {
    let words = [5_u64; 14];
    let (drops, unrun) = (Drops::default(), Drops::default());
    let (value, kept) = (drops.one(), unrun.one());
    let (thread, joining) = make(At::Room, move || {
        assert!(words == [5; 14]);
        value
    });
    assert_eq!(thread.task.cell.0.addr().get() & HEAP, 0, "in the room");
    thread.run(|| ());
    assert_eq!(drops.count(), 0);
    drop(joining.join().unwrap());
    assert_eq!(drops.count(), 1);
    let shelf = Shelf { at: At::Room, fails: Some(true), spawned: Default::default() };
    let f = move || drop((words, kept));
    // SAFETY: everything is `Send` and borrows nothing.
    assert!(unsafe { spawn_unchecked(&shelf, &mut SpawnOptions::default(), f, ()) }.is_err());
    assert_eq!(unrun.count(), 1);
    let (thread, _) = make(At::Room, move || words);
    assert_eq!(thread.task.cell.0.addr().get() & HEAP, HEAP, "the result does not fit");
    drop(thread.task);
}

#[test]
fn nothing_is_as_good_as_anything() {
    let (thread, joining) = make(At::Room, || ());
    assert_eq!(thread.task.cell.0.addr().get() & HEAP, 0, "in the room");
    thread.run(|| ());
    joining.join().unwrap();
}

#[test]
fn a_handle_is_two_words() {
    assert_eq!(size_of::<Joining<[u8; 100]>>(), 2 * size_of::<usize>());
    assert_eq!(size_of::<Option<Task>>(), 2 * size_of::<usize>());
}

#[test]
fn both_may_go_at_once() {
    for round in 0..400 {
        let drops = Drops::default();
        let value = drops.one();
        let (thread, joining) = make(PLACES[round % 2], move || value);
        std::thread::scope(|s| {
            s.spawn(|| thread.run(|| ()));
            s.spawn(|| drop(joining));
        });
        assert_eq!(drops.count(), 1);
    }
}
