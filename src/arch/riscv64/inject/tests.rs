//! Injected calls on riscv64: vectors (V), where the processor has them.

use super::probe::{GARBAGE, Registers, Spoil, inject_without_v0, vector_len};
use super::{ALIGNMENT, PLAIN, RECORD, VECTORS, WITH_VECTORS};
use crate::arch::inject::{SLACK, room};
use crate::arch::inject_tests::{
    Count, decide, every_register_survives, hold_under_fire, may, migration, states,
};
use crate::sys::child_tests::isolated;
use crate::sys::preempt::{self, Interrupted};

/// Returns `true` if the processor has vectors.
fn has_vectors() -> bool {
    let has = vector_len() != 0;
    if !has {
        println!("skipped: the processor has no vectors that are saved");
    }
    has
}

#[test]
fn vectors_survive_ten_thousand_injected_calls() {
    isolated(concat!(module_path!(), "::vectors_survive_ten_thousand_injected_calls"), || {
        if has_vectors() {
            every_register_survives(true);
        }
    });
}

/// The control of the one above.
#[test]
fn a_call_that_forgets_a_vector_is_found_out() {
    isolated(concat!(module_path!(), "::a_call_that_forgets_a_vector_is_found_out"), || {
        fn decide(interrupted: &mut Interrupted<'_>) {
            if interrupted.machine_state() != 0 && may(interrupted) {
                // SAFETY: the code that was stopped does not use the register that is not saved.
                unsafe { interrupted.redirect(inject_without_v0::<Spoil<Count>>) };
            }
        }
        if has_vectors() {
            GARBAGE.set(*Registers::filled(100, true));
            preempt::install(preempt::DEFAULT_SIGNAL, decide).unwrap();
            assert_ne!(hold_under_fire(1_000, &states(true)), Vec::<String>::new());
        }
    });
}

#[test]
fn vectors_survive_on_another_kernel_thread() {
    isolated(concat!(module_path!(), "::vectors_survive_on_another_kernel_thread"), || {
        if has_vectors() {
            preempt::install(preempt::DEFAULT_SIGNAL, decide::<migration::Leave>).unwrap();
            assert_eq!(migration::swap(migration::turns(), true, true), Vec::<String>::new());
        }
    });
}

/// There the kernel takes no vectors back, unless one has been used first.
#[test]
fn vectors_survive_on_a_kernel_thread_that_has_used_none() {
    isolated(concat!(module_path!(), "::vectors_survive_on_a_kernel_thread_that_has_used_none"), || {
        if has_vectors() {
            preempt::install(preempt::DEFAULT_SIGNAL, decide::<migration::Leave>).unwrap();
            (0..20).for_each(|_| assert_eq!(migration::once(true), Vec::<String>::new()));
        }
    });
}

#[test]
fn vectors_take_room_only_where_there_are_some() {
    let longest = (RECORD + VECTORS) as u64;
    assert_eq!(room(0), Some(PLAIN + ALIGNMENT + SLACK));
    for record in [RECORD as u64 + 32 * 16, longest] {
        assert_eq!(room(record), Some(WITH_VECTORS + ALIGNMENT + SLACK));
    }
    assert_eq!(room(longest + 1), None);
    assert_eq!(room(u64::MAX), None);
}
