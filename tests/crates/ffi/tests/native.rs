//! C++ exceptions, `longjmp` and foreign thread-locals, with switches in the middle.

#[cfg(no_cxx)]
#[test]
fn native() {
    println!("skipped: C++ exceptions and longjmp: there is no C++ compiler");
}

#[cfg(not(no_cxx))]
mod native {
    use std::ffi::{c_int, c_void};

    use ffi::{
        count_in_thread_local, exceptions_across_switch, jump_across_switch, thread_local_object,
        thread_local_objects,
    };
    use harness::{HOPS, Member, crew};

    extern "C" fn hop(context: *mut c_void) {
        // SAFETY: `context` made it, from a member that lives until the native call has returned.
        unsafe { &*context.cast::<Member<'_>>() }.hop();
    }

    fn context(member: &Member<'_>) -> *mut c_void {
        std::ptr::from_ref(member).cast_mut().cast()
    }

    fn jumps_land_in_their_frame() -> usize {
        crew(16, |member| {
            for round in 0..HOPS as c_int / 4 {
                // SAFETY: the jump crosses frames of C only.
                assert_eq!(unsafe { jump_across_switch(round % 20, hop, context(member)) }, 42 + round % 20);
                // SAFETY: no preconditions but a hop and its context.
                assert_eq!(unsafe { count_in_thread_local(hop, context(member)) }, round + 1);
            }
        })
    }

    fn exceptions_stay_with_their_thread() -> usize {
        crew(16, |member| {
            for round in 0..HOPS as c_int / 10 {
                // SAFETY: nothing is thrown across the callback or out of the call.
                let value = unsafe { exceptions_across_switch(round % 8, hop, context(member)) };
                assert_eq!(value, round % 8 + 1);
            }
        })
    }

    fn objects_are_made_and_destroyed_with_their_thread() -> usize {
        let counts = || {
            let (mut made, mut dropped) = (0, 0);
            // SAFETY: two places to write to.
            unsafe { thread_local_objects(&mut made, &mut dropped) };
            (made, dropped)
        };
        // Other rungs run this test at the same time, in the same process.
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = counts();
        let mut migrations = 0;
        for _ in 0..20 {
            migrations += crew(16, |member| {
                // SAFETY: no preconditions but a hop and its context.
                assert_eq!(unsafe { thread_local_object(member.index() as c_int, hop, context(member)) }, 1);
                for _ in 0..HOPS / 20 {
                    member.hop();
                }
            });
        }
        let after = counts();
        assert_eq!(
            (after.0 - before.0, after.1 - before.1),
            (320, 320),
            "made, and destroyed before join returned"
        );
        migrations
    }

    harness::on_every_runtime!(
        jumps_land_in_their_frame,
        exceptions_stay_with_their_thread,
        objects_are_made_and_destroyed_with_their_thread
    );
}
