//! Injected calls on x86-64: tiles, and the instructions of older machines.

use super::probe::{GARBAGE, Registers, Spoil, has_tiles, use_fxsave, use_xsave};
use crate::arch::inject_tests::{
    Count, decide, every_register_survives, hold_under_fire, migration, possible,
};
use crate::arch::*;
use crate::sys::child_tests::isolated;
use crate::sys::preempt;

/// Asks the kernel for the permission to use tiles.
fn ask_for_tiles() -> bool {
    const ARCH_REQ_XCOMP_PERM: i32 = 0x1023;
    const TILE_DATA: u64 = 18;
    // SAFETY: no memory is involved.
    has_tiles() && unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) } == 0
}

#[test]
fn tiles_survive_ten_thousand_injected_calls() {
    isolated(concat!(module_path!(), "::tiles_survive_ten_thousand_injected_calls"), || {
        if possible() && ask_for_tiles() {
            every_register_survives(true);
        }
    });
}

/// H1: the use of tiles on one of them makes its signal frames larger than the other's.
#[test]
fn registers_survive_a_kernel_thread_that_has_used_tiles() {
    isolated(concat!(module_path!(), "::registers_survive_a_kernel_thread_that_has_used_tiles"), || {
        if possible() && ask_for_tiles() {
            preempt::install(preempt::DEFAULT_SIGNAL, decide::<migration::Leave>).unwrap();
            assert_eq!(migration::swap(migration::turns(), false, true), Vec::<String>::new());
        }
    });
}

#[test]
fn tiles_survive_on_a_kernel_thread_that_has_used_none() {
    isolated(concat!(module_path!(), "::tiles_survive_on_a_kernel_thread_that_has_used_none"), || {
        if possible() && ask_for_tiles() {
            preempt::install(preempt::DEFAULT_SIGNAL, decide::<migration::Leave>).unwrap();
            assert_eq!(migration::swap(migration::turns(), true, true), Vec::<String>::new());
        }
    });
}

#[test]
fn registers_survive_without_the_newest_instruction() {
    isolated(concat!(module_path!(), "::registers_survive_without_the_newest_instruction"), || {
        if possible() {
            let tiles = ask_for_tiles();
            use_xsave();
            every_register_survives(tiles);
        }
    });
}

#[test]
fn registers_survive_on_an_old_machine() {
    isolated(concat!(module_path!(), "::registers_survive_on_an_old_machine"), || {
        if possible() {
            use_fxsave();
            // Every third has nothing that such a machine does not have.
            GARBAGE.set(*Registers::filled(101, false));
            let states: Vec<_> = (0..12).map(|i| Registers::filled(3 * i + 2, false)).collect();
            preempt::install(preempt::DEFAULT_SIGNAL, decide::<Spoil<Count>>).unwrap();
            assert_eq!(hold_under_fire(10_000, &states), Vec::<String>::new());
        }
    });
}

#[test]
fn tile_data_takes_room_only_where_there_are_some() {
    let plain = inject::room(0).unwrap();
    assert_eq!(inject::room(3), Some(plain));
    assert_eq!(inject::room(1 << 61), None);
    if has_tiles() {
        // And perhaps something to align them.
        assert!((8192..8192 + 64).contains(&(inject::room(1 << 18).unwrap() - plain)));
    }
}
