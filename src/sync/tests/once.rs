//! Tests of `Once` and its kin that need no threads.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::sync::{LazyLock, Once, OnceLock};

#[test]
fn takes_a_word() {
    assert_eq!(size_of::<Once>(), size_of::<usize>());
    // A word, and the size of the value as an `Option`.
    assert_eq!(size_of::<OnceLock<usize>>(), 3 * size_of::<usize>());
    assert_eq!(size_of::<OnceLock<Box<u8>>>(), 2 * size_of::<usize>());
    assert_eq!(size_of::<LazyLock<usize>>(), 2 * size_of::<usize>());
}

#[test]
fn unwinds_as_in_std() {
    fn both<T: UnwindSafe + RefUnwindSafe>() {}
    both::<Once>();
    both::<OnceLock<u32>>();
    both::<LazyLock<u32>>();
}

/// A value that counts how often it has been dropped.
struct Counted(Rc<Cell<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_cell_drops_its_value_once() {
    let drops = Rc::new(Cell::new(0));
    drop(OnceLock::<Counted>::new());
    let cell = OnceLock::from(Counted(drops.clone()));
    assert!(cell.set(Counted(drops.clone())).is_err());
    assert_eq!(drops.get(), 1, "the refused one");
    drop(cell);
    assert_eq!(drops.get(), 2);
    let mut cell = OnceLock::from(Counted(drops.clone()));
    let taken = cell.take();
    assert!(taken.is_some() && cell.take().is_none());
    assert!(cell.set(Counted(drops.clone())).is_ok(), "as new");
    assert_eq!(drops.get(), 2);
    drop(taken);
    assert!(cell.into_inner().is_some());
    assert_eq!(drops.get(), 4);
}

#[test]
fn a_lazy_value_drops_what_is_there_once() {
    let (closures, values) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let lazy = || {
        let (closure, values) = (Counted(closures.clone()), values.clone());
        LazyLock::new(move || {
            let _closure = closure;
            Counted(values)
        })
    };
    let seen = || (closures.get(), values.get());
    drop(lazy());
    assert_eq!(seen(), (1, 0), "the closure");
    let forced = lazy();
    LazyLock::force(&forced);
    assert_eq!(seen(), (2, 0));
    drop(forced);
    assert_eq!(seen(), (2, 1), "the value");
    let forced = lazy();
    LazyLock::force(&forced);
    let Ok(value) = LazyLock::into_inner(forced) else { panic!("made") };
    assert_eq!(seen(), (3, 1));
    drop(value);
    let Err(closure) = LazyLock::into_inner(lazy()) else { panic!("not made") };
    assert_eq!(seen(), (3, 2));
    drop(closure());
    assert_eq!(seen(), (4, 3));
    // If the closure has panicked, the payload is neither.
    let poisoned = {
        let closure = Counted(closures.clone());
        LazyLock::new(move || -> Counted {
            let _closure = closure;
            panic!("on purpose")
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(|| LazyLock::force(&poisoned).0.get())).is_err());
    assert_eq!(seen(), (5, 3));
    drop(poisoned);
    assert_eq!(seen(), (5, 3));
}
