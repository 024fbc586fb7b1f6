//! Channels and condition variables in a forked child, which has one thread. Time passes there. A wait that
//! nothing can end is refused. Waiters that the child does not have are forgotten. The list of a runtime's
//! threads has that one thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use selvedge::channel::{after, never, rendezvous, select};
use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::ThreadInfo;
use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::subprocess::{again, assert_passed, is_child};
use crate::threads::walk;

both! {
    own locals:
    waits_of_a_forked_child,
    a_condvar_of_a_forked_child_takes_another_mutex,
    a_list_of_threads_in_a_child_has_the_one_that_is_there,
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
    play_in_a_child(&L::new(), play);
}

fn play_in_a_child<R: Runtime>(rt: &R, play: impl FnOnce() + Send + 'static) {
    let played = rt.spawn(move || {
        // SAFETY: what the child does is what is under test; it leaves by _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: no preconditions. Ends a child that hangs.
            unsafe { libc::alarm(20) };
            let played = catch_unwind(AssertUnwindSafe(play)).is_ok();
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

fn a_list_of_threads_in_a_child_has_the_one_that_is_there<L: Leg>() {
    if !is_child() {
        return assert_passed(&again());
    }
    // The child has the runtime's memory, too.
    let rt: &'static L::Rt = Box::leak(Box::new(L::new()));
    let parked = rt.spawn(thread::park);
    play_in_a_child(rt, move || {
        let me = thread::current().id();
        let listed: Vec<_> = rt.threads().iter().map(ThreadInfo::id).collect();
        assert_eq!((listed, walk(rt, 1)), (vec![me], vec![me]));
    });
    parked.thread().unpark();
    parked.join().unwrap();
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
