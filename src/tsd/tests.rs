//! Keys and their values, in kernel threads.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use super::Key;
use crate::park::specific::{FIRST, ROUNDS};
use crate::park::tests::watched;

/// A key may be sent and shared, with values of any type.
#[test]
fn a_key_may_be_shared_whatever_its_values_are() {
    fn both<T: Send + Sync>() {}
    both::<Key<Rc<Cell<u32>>>>();
    both::<Key<*mut u8>>();
    both::<Key<fn(&str)>>();
    assert_eq!(format!("{:?}", Key::<u32>::default()), "Key { .. }");
}

/// Counts how often it is dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Counted + Clone + Send + Sync) {
    let count = Arc::new(AtomicUsize::new(0));
    (Arc::clone(&count), move || Counted(Arc::clone(&count)))
}

/// Runs `f` on a thread of std, to its end and that of its thread-locals.
fn on_another<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|s| s.spawn(f).join().unwrap())
}

#[test]
fn a_value_is_one_threads() {
    let key = Key::new();
    assert_eq!(key.get(), None);
    key.set(1);
    on_another(|| {
        assert_eq!(key.get(), None);
        key.set(2);
        assert_eq!(key.get(), Some(2));
    });
    assert_eq!((key.get(), key.replace(3), key.take(), key.take()), (Some(1), Some(1), Some(3), None));
}

#[test]
fn a_value_is_dropped_when_another_takes_its_place() {
    let (dropped, value) = counter();
    let key = Key::new();
    key.set(value());
    key.set(value());
    assert_eq!(dropped.load(SeqCst), 1);
    drop(key.replace(value()));
    assert_eq!(dropped.load(SeqCst), 2);
    drop(key.take());
    assert_eq!((dropped.load(SeqCst), key.take().is_none()), (3, true));
}

#[test]
fn values_may_be_of_any_size_and_alignment() {
    #[repr(align(256))]
    #[derive(Clone, Copy)]
    struct Aligned(u8);
    let (nothing, aligned, large) = (Key::new(), Key::new(), Key::new());
    nothing.set(());
    aligned.set(Aligned(7));
    large.set([3u8; 100_000]);
    assert_eq!(nothing.get(), Some(()));
    assert_eq!(aligned.with(|value| value.map(|value| std::ptr::from_ref(value).addr() % 256)), Some(0));
    assert_eq!(aligned.get().map(|value| value.0), Some(7));
    assert_eq!(
        large.with(|value| value.map(|bytes| bytes.iter().map(|&b| u32::from(b)).sum())),
        Some(300_000)
    );
}

#[test]
fn a_value_in_use_stays() {
    let key = Key::new();
    key.set(String::from("first"));
    let refused = |f: &dyn Fn()| {
        let payload = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        let text = payload.downcast_ref::<&str>().expect("a text");
        assert!(text.contains("in use"), "{text}");
    };
    key.with(|outer| {
        refused(&|| key.set(String::from("second")));
        refused(&|| drop(key.replace(String::from("second"))));
        refused(&|| drop(key.take()));
        key.with(|inner| assert!(std::ptr::eq(outer.unwrap(), inner.unwrap())));
        // Still in use after the inner call.
        refused(&|| drop(key.take()));
        let unwound = catch_unwind(AssertUnwindSafe(|| key.with(|_| panic!("as the test wants"))));
        assert!(unwound.is_err());
        refused(&|| drop(key.take()));
        assert_eq!(outer.unwrap(), "first");
    });
    assert_eq!(key.replace(String::from("second")).as_deref(), Some("first"));
    let unwound = catch_unwind(AssertUnwindSafe(|| key.with(|_| panic!("as the test wants"))));
    assert!(unwound.is_err());
    assert_eq!(key.take().as_deref(), Some("second"));
}

#[test]
fn a_copy_may_be_had_of_a_value_in_use() {
    let key = Key::new();
    key.set(5);
    assert_eq!(key.with(|value| (value.copied(), key.get())), (Some(5), Some(5)));
}

#[test]
fn no_value_is_in_use_if_there_is_none() {
    let key = Key::new();
    key.with(|none| {
        assert!(none.is_none());
        key.set(1);
    });
    assert_eq!(key.get(), Some(1));
}

#[test]
fn a_value_is_made_once() {
    let (key, made) = (Key::new(), Cell::new(0));
    for n in 1..=3 {
        let init = || {
            made.set(made.get() + 1);
            Cell::new(0)
        };
        key.with_or_init(init, |cell| cell.set(cell.get() + 1));
        assert_eq!((made.get(), key.with(|cell| cell.unwrap().get())), (1, n));
    }
}

#[test]
#[should_panic(expected = "while it was being made")]
fn a_value_that_makes_itself_is_refused() {
    let key = Key::new();
    key.with_or_init(
        || {
            key.set(1);
            2
        },
        |_| (),
    );
}

#[test]
fn keys_of_dropped_ones_find_nothing() {
    let _watched = watched();
    on_another(|| {
        let (dropped, value) = counter();
        for _ in 0..1000 {
            let key = Key::new();
            key.set(value());
        }
        // Each has had the entry of one before it, or will have it at the thread's end. Other tests
        // create keys, too.
        let other = Key::<u32>::new();
        other.register().unwrap();
        assert_eq!(other.get(), None);
        assert!(dropped.load(SeqCst) > 0, "entries are not used again");
    });
}

#[test]
fn a_stale_value_is_dropped_with_its_thread() {
    let (dropped, value) = counter();
    on_another(|| {
        let key = Key::new();
        key.set(value());
        drop(key);
        // Unless the key of another test has got the entry and this thread used it, which it does not.
        assert_eq!(dropped.load(SeqCst), 0);
    });
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn thousands_of_keys_have_a_value_each() {
    on_another(|| {
        let keys: Vec<Key<usize>> = (0..5000).map(|_| Key::new()).collect();
        keys.iter().enumerate().for_each(|(n, key)| key.set(n));
        assert!(keys.iter().enumerate().all(|(n, key)| key.get() == Some(n)));
        keys.iter().step_by(2).for_each(|key| assert!(key.take().is_some()));
        assert!(keys.iter().enumerate().all(|(n, key)| key.get() == (n % 2 == 1).then_some(n)));
    });
}

/// If the last bits of keys' indices are the same, the keys share the near entry, where a look begins.
#[test]
fn neighbours_do_not_see_each_other() {
    on_another(|| {
        let keys: Vec<Key<usize>> = (0..4 * FIRST).map(|_| Key::try_new().unwrap()).collect();
        for round in 0..3 {
            for step in [1, FIRST, 7, 3 * FIRST - 1] {
                for n in (0..keys.len()).map(|n| n * step % keys.len()) {
                    keys[n].set(n + round);
                    let other = &keys[(n + FIRST) % keys.len()];
                    assert!(other.get().is_none_or(|value| value != n + round));
                    assert_eq!(
                        (keys[n].get(), keys[n].with(|value| value.copied())),
                        (Some(n + round), Some(n + round))
                    );
                    if n % 3 == round {
                        assert_eq!((keys[n].take(), keys[n].get()), (Some(n + round), None));
                    }
                }
            }
        }
    });
}

#[test]
fn a_value_stays_where_it_is_while_places_grow() {
    on_another(|| {
        let first = Key::new();
        first.set(String::from("here"));
        let later: Vec<Key<usize>> = (0..20 * FIRST).map(|_| Key::new()).collect();
        let last = &later[later.len() - 1];
        last.set(7);
        last.with(|seven| {
            first.with(|here| {
                later.iter().rev().skip(1).for_each(|key| key.set(1));
                assert_eq!((here.map(String::as_str), seven), (Some("here"), Some(&7)));
            });
        });
    });
}

#[test]
fn a_destructor_gets_what_a_thread_leaves() {
    static GOT: AtomicUsize = AtomicUsize::new(0);
    let key = Key::with_destructor(|n: usize| {
        GOT.fetch_add(n, SeqCst);
    });
    on_another(|| {
        key.set(1);
        key.set(10);
    });
    assert_eq!(GOT.load(SeqCst), 10, "not what was replaced");
    on_another(|| {
        key.set(100);
        key.take();
    });
    assert_eq!(GOT.load(SeqCst), 10, "nor what was taken");
}

#[test]
fn no_destructor_runs_for_a_key_that_is_gone() {
    let (dropped, value) = counter();
    let key = Key::with_destructor(|_: Counted| panic!("the key is gone"));
    on_another(|| {
        key.set(value());
        drop(key);
    });
    assert_eq!(dropped.load(SeqCst), 1);
}

/// Puts itself back, as often as it is told.
struct Back {
    key: &'static Key<Back>,
    left: usize,
    count: Arc<AtomicUsize>,
}

impl Drop for Back {
    fn drop(&mut self) {
        self.count.fetch_add(1, SeqCst);
        assert!(self.key.with(|value| value.is_none()), "out of its key before it is dropped");
        if self.left > 0 {
            let (key, left) = (self.key, self.left - 1);
            key.set(Back { key, left, count: Arc::clone(&self.count) });
        }
    }
}

#[test]
fn destructors_run_in_rounds_and_then_leak() {
    static KEY: Key<Back> = Key::new();
    for (left, drops) in [(0, 1), (ROUNDS - 1, ROUNDS), (ROUNDS + 10, ROUNDS)] {
        let count = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&count);
        on_another(move || KEY.set(Back { key: &KEY, left, count: theirs }));
        assert_eq!(count.load(SeqCst), drops);
    }
    // The next threads that get the cores find nothing.
    for _ in 0..10 {
        assert!(on_another(|| {
            crate::park::current::current();
            KEY.with(|value| value.is_none())
        }));
    }
}

#[test]
fn an_ending_value_may_use_others() {
    static LIST: Key<RefCell<Vec<u32>>> = Key::new();
    static OTHER: Key<u32> = Key::new();
    thread_local! {
        static NATIVE: Cell<u32> = const { Cell::new(0) };
    }
    let (sum, key) = (Arc::new(AtomicUsize::new(0)), Key::new());
    struct Uses(Arc<AtomicUsize>);
    impl Drop for Uses {
        fn drop(&mut self) {
            OTHER.set(4);
            LIST.with_or_init(RefCell::default, |list| list.borrow_mut().push(1));
            NATIVE.set(NATIVE.get() + 2);
            self.0.fetch_add((NATIVE.get() + OTHER.get().unwrap()) as usize, SeqCst);
        }
    }
    let theirs = Arc::clone(&sum);
    on_another(move || {
        NATIVE.set(10);
        key.set(Uses(theirs));
    });
    // Windows (GNU) destroys thread-locals in the order in which the process first used them, and makes those
    // that are used again anew.
    let anew = cfg!(windows) && sum.load(SeqCst) == 6;
    assert!(anew || sum.load(SeqCst) == 16, "{sum:?}");
}
