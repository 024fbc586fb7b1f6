//! The entries of a thread's values, and the near entries.

use super::*;
use crate::park::core_pool;

/// Creates a value under the key of this index. It is never freed.
fn value(index: usize) -> NonNull<Header> {
    fn discard(_: NonNull<Header>, _: Occasion) {
        unreachable!("no thread ends here");
    }
    let key = KeyId::new(index as u32, 1);
    NonNull::from(Box::leak(Box::new(Header::new(key, discard))))
}

#[test]
fn there_are_as_many_entries_as_needed_and_a_few_are_kept() {
    let values = Values::new();
    let most = FIRST + KEPT;
    for (index, entries) in [(FIRST, 16), (FIRST + 15, 16), (FIRST + 16, 32), (most - 1, KEPT)] {
        values.grow(index);
        assert_eq!(values.more().len(), entries, "{index}");
    }
    values.clear();
    assert_eq!(values.more().len(), KEPT);
    values.grow(most);
    assert_eq!(values.more().len(), 2 * KEPT);
    values.clear();
    assert_eq!(values.more().len(), 0);
}

#[test]
fn entries_with_a_value_are_counted() {
    let (values, one, other) = (Values::new(), value(0), value(1));
    assert_eq!((values.exchange(0, one), values.held.get()), (None, 1));
    assert_eq!((values.exchange(1, other), values.held.get()), (None, 2));
    assert_eq!((values.exchange(0, nothing()), values.held.get()), (Some(one), 1));
    assert_eq!((values.exchange(0, nothing()), values.held.get()), (None, 1));
    assert_eq!((values.exchange(1, one), values.held.get()), (Some(other), 1));
    assert_eq!((values.exchange(1, nothing()), values.held.get()), (Some(one), 0));
}

/// As if an allocator had used a key in the last life.
#[test]
fn the_next_life_finds_no_value() {
    let thread = core_pool::take(1, None, None);
    let specific = &thread.core().specific;
    let values = specific.values_or_new();
    assert!(!specific.has_any());
    values.exchange(3, value(3));
    assert!(specific.has_any());
    specific.begin();
    assert!(!specific.has_any() && values.at(3) == nothing());
    thread.release();
}

#[test]
fn what_is_near_is_the_last_of_one_threads_values() {
    const INDEX: usize = 3;
    let (native, values, others) = (Native::new(), Values::new(), Values::new());
    let (one, other) = (value(INDEX), value(INDEX + NEAR));
    let near = || native.near(KeyId::new(INDEX as u32, 1)).get();
    assert!(native.are(&NO_VALUES.0) && !native.are(&values));
    native.exchanged(&values, INDEX, nothing(), one);
    assert_eq!(near(), nothing(), "not this thread's");
    native.begin(&values);
    assert!(native.are(&values) && !native.are(&others));
    native.exchanged(&values, INDEX, nothing(), one);
    assert_eq!(near(), one);
    native.begin(&values);
    native.exchanged(&others, INDEX, one, nothing());
    native.cleared(&others);
    native.exchanged(&values, INDEX + NEAR, other, nothing());
    assert_eq!(near(), one, "nothing has happened to it");
    native.exchanged(&values, INDEX + NEAR, nothing(), other);
    assert_eq!(near(), other);
    native.exchanged(&values, INDEX + NEAR, other, nothing());
    assert_eq!(near(), nothing());
    native.exchanged(&values, INDEX, nothing(), one);
    native.cleared(&values);
    assert_eq!(near(), nothing());
    native.exchanged(&values, INDEX, nothing(), one);
    native.begin(&others);
    assert_eq!(near(), nothing());
    assert!(native.are(&others));
}

#[test]
fn a_thread_that_gives_its_core_back_has_no_values() {
    let values = Values::new();
    NATIVE.with(|native| native.begin(&values));
    leave();
    NATIVE.with(|native| assert!(native.are(&NO_VALUES.0)));
}

/// An allocator may use keys, too, even while a thread's first value needs memory.
#[test]
fn what_an_allocator_puts_under_a_key_stays() {
    use crate::park::tests::heap::at_next_allocation;
    thread_local! {
        static OWN: Specific = const { Specific::new() };
    }
    at_next_allocation(|| OWN.with(|own| assert!(own.values_or_new().exchange(0, value(0)).is_none())));
    OWN.with(|own| assert!(own.values_or_new().at(0) != nothing() && own.has_any()));
}
