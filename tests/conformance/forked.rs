//! Channels and condition variables in a forked child, which has one thread. Time passes there. A wait that
//! nothing can end is refused. Waiters that the child does not have are forgotten. The list of a runtime's
//! threads has that one thread. When it ends, so does the child.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use selvedge::channel::{after, never, rendezvous, select};
use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::ThreadInfo;
use selvedge::tsd::Key;
use selvedge::{Runtime, Wait, thread};

use crate::keys::call_last;
use crate::legs::Leg;
use crate::subprocess::{again, assert_passed, is_child};
use crate::threads::walk;

both! {
    own locals:
    waits_of_a_forked_child,
    a_condvar_of_a_forked_child_takes_another_mutex,
    a_list_of_threads_in_a_child_has_the_one_that_is_there,
    a_thread_that_forks_in_a_destructor_ends_in_the_child,
    a_thread_that_ends_in_a_child_drops_its_values,
    a_thread_on_its_way_out_is_joined_in_a_child,
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
        if forks(0) {
            let played = catch_unwind(AssertUnwindSafe(play)).is_ok();
            // SAFETY: no preconditions.
            unsafe { libc::_exit(libc::c_int::from(!played)) };
        }
    });
    played.join().unwrap();
}

/// Forks. Returns `true` in the child. In the parent, waits for the child, which must exit with `code`.
fn forks(code: libc::c_int) -> bool {
    // SAFETY: what the child does is what is under test.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: no preconditions. Ends a child that hangs.
        unsafe { libc::alarm(20) };
        return true;
    }
    let mut status = 0;
    // SAFETY: a child of this process and a place for its status.
    assert_eq!(thread::blocking(|| unsafe { libc::waitpid(pid, &mut status, 0) }), pid);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), code, "the child has said why");
    false
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

fn a_thread_that_forks_in_a_destructor_ends_in_the_child<L: Leg>() {
    struct Forks;
    impl Drop for Forks {
        fn drop(&mut self) {
            forks(0);
        }
    }
    thread_local! {
        static FORKS: Forks = const { Forks };
    }
    if !is_child() {
        return assert_passed(&again());
    }
    L::new().spawn(|| FORKS.with(|_| ())).join().unwrap();
}

/// The value says so by the code with which it ends the child.
fn a_thread_that_ends_in_a_child_drops_its_values<L: Leg>() {
    const DROPPED: libc::c_int = 7;
    struct Exits(Cell<Option<libc::c_int>>);
    impl Drop for Exits {
        fn drop(&mut self) {
            if let Some(code) = self.0.get() {
                // SAFETY: no preconditions.
                unsafe { libc::_exit(code) };
            }
        }
    }
    static KEY: Key<Exits> = Key::new();
    if !is_child() {
        return assert_passed(&again());
    }
    let body = || {
        KEY.set(Exits(Cell::new(None)));
        if forks(DROPPED) {
            KEY.with(|value| value.expect("it was set").0.set(Some(DROPPED)));
        }
    };
    L::new().spawn(body).join().unwrap();
}

/// Its result is there, and its kernel thread is not. Another kernel thread may have the place of that one.
fn a_thread_on_its_way_out_is_joined_in_a_child<L: Leg>() {
    static GO: AtomicBool = AtomicBool::new(false);
    /// Lets the thread go, also if an assertion fails.
    struct Goes;
    impl Drop for Goes {
        fn drop(&mut self) {
            GO.store(true, SeqCst);
        }
    }
    if !is_child() {
        return assert_passed(&again());
    }
    let wait = || {
        while !GO.load(SeqCst) {
            std::thread::yield_now();
        }
    };
    let rt = L::new();
    let body = move || {
        call_last(Box::new(wait));
        7
    };
    let ended = rt.spawn_with(thread::Builder::new().bound(true), body).unwrap();
    while !ended.is_finished() {
        std::thread::yield_now();
    }
    let goes = Goes;
    if forks(0) {
        std::thread::spawn(std::thread::park);
        let result = ended.join();
        // SAFETY: no preconditions.
        unsafe { libc::_exit(libc::c_int::from(!matches!(result, Ok(7)))) };
    }
    drop(goes);
    ended.join().unwrap();
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
    refused(&|| _ = thread::sleep_with(Wait::forever().interruptible()));
    refused(&|| select! { recv(r) -> _ => {}, recv(never::<u32>()) -> _ => {} });
}
