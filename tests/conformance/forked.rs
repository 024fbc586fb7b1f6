//! Channels and condition variables in a forked child, which has one thread. Time passes there. A wait that
//! nothing can end is refused. Waiters that the child does not have are forgotten.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use selvedge::channel::{after, never, rendezvous, select};
use selvedge::sync::{Condvar, Mutex};
use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::subprocess::{again, assert_passed, is_child};

both! {
    own locals:
    waits_of_a_forked_child,
    a_condvar_of_a_forked_child_takes_another_mutex,
}

const SHORT: Duration = Duration::from_millis(2);

fn waits_of_a_forked_child<L: Leg>() {
    in_a_child::<L>(wait_in_the_child);
}

/// The parent's waiter has a mutex that the child does not use.
fn a_condvar_of_a_forked_child_takes_another_mutex<L: Leg>() {
    static WAITS: Mutex<bool> = Mutex::new(false);
    static CHANGED: Condvar = Condvar::new();
    if is_child() {
        std::thread::spawn(|| {
            let mut waits = WAITS.lock();
            *waits = true;
            CHANGED.wait(&mut waits);
        });
        while !*WAITS.lock() {
            std::thread::yield_now();
        }
    }
    in_a_child::<L>(|| {
        let other = Mutex::new(());
        assert!(CHANGED.wait_for(&mut other.lock(), SHORT).timed_out());
    });
}

/// Forks in a thread of a process of its own, and plays this in the child.
fn in_a_child<L: Leg>(play: fn()) {
    if !is_child() {
        return assert_passed(&again());
    }
    let played = L::new().spawn(move || {
        // SAFETY: what the child does is what is under test; it leaves by _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: no preconditions. Ends a child that hangs.
            unsafe { libc::alarm(20) };
            let played = catch_unwind(play).is_ok();
            // SAFETY: no preconditions.
            unsafe { libc::_exit(libc::c_int::from(!played)) };
        }
        let mut status = 0;
        // SAFETY: a child of this process and a place for its status.
        assert_eq!(thread::blocking(|| unsafe { libc::waitpid(pid, &mut status, 0) }), pid);
        assert_eq!(status, 0, "the child has said why");
    });
    played.join().unwrap();
}

fn wait_in_the_child() {
    let (s, r) = rendezvous::<u32>();
    assert!(s.send_timeout(1, SHORT).is_err());
    assert!(r.recv_timeout(SHORT).is_err());
    assert!(select! {
        send(s, 1) -> _ => false,
        recv(never::<u32>()) -> _ => false,
        default(SHORT) => true,
    });
    assert!(select! {
        recv(r) -> _ => false,
        recv(after(SHORT)) -> _ => true,
    });
    let refused = |wait: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(wait)).is_err());
    refused(&|| _ = r.recv());
    refused(&|| _ = s.send(1));
    refused(&|| select! { recv(r) -> _ => {}, recv(never::<u32>()) -> _ => {} });
}
