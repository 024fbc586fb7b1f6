//! What a forked child finds of its thread's values.

use std::ffi::c_int;

use selvedge::thread::Builder;
use selvedge::tsd::Key;
use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::subprocess::{again, assert_passed, is_child};

both! {
    a_forked_child_has_the_values_of_its_thread,
}

fn a_forked_child_has_the_values_of_its_thread<L: Leg>() {
    static KEYS: [Key<usize>; 40] = [const { Key::new() }; 40];
    if !is_child() {
        return assert_passed(&again());
    }
    let rt = L::new();
    for bound in [false, true] {
        rt.spawn_with(Builder::new().bound(bound), || {
            KEYS.iter().enumerate().for_each(|(n, key)| key.set(n));
            // SAFETY: the child looks at memory of its own, and leaves by _exit.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let kept = KEYS.iter().enumerate().all(|(n, key)| key.get() == Some(n));
                KEYS.iter().for_each(|key| key.set(1));
                let changed = KEYS.iter().all(|key| key.replace(2) == Some(1) && key.take() == Some(2));
                // SAFETY: no preconditions.
                unsafe { libc::_exit(c_int::from(!(kept && changed))) };
            }
            let mut status = 0;
            // SAFETY: a child of this process and a place for its status.
            assert_eq!(thread::blocking(|| unsafe { libc::waitpid(pid, &mut status, 0) }), pid);
            assert_eq!(status, 0, "the child has not found what its thread had");
            assert!(KEYS.iter().enumerate().all(|(n, key)| key.get() == Some(n)));
        })
        .unwrap()
        .join()
        .unwrap();
    }
}
