//! What happens where the system has no more to give.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::subprocess::{again_limited, assert_passed, is_child};

both! {
    threads_until_memory_ends,
}

/// Under a limit of memory, threads are started until one is refused. The error says what to look at, and
/// those that run are not harmed.
fn threads_until_memory_ends<L: Leg>() {
    /// Of stack, for each thread.
    const STACK: usize = 64 << 20;
    /// More than fit.
    const TRIES: usize = 1000;
    if !is_child() {
        // In KiB: 4 GiB of address space.
        return assert_passed(&again_limited("ulimit -v 4194304"));
    }
    let rt = L::new();
    rt.run(|| {
        let (ended, go) = (AtomicUsize::new(0), AtomicBool::new(false));
        let dropped = AtomicUsize::new(0);
        struct Counted<'a>(&'a AtomicUsize);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let started = thread::scope(|s| {
            let mut handles = Vec::new();
            let error = loop {
                assert!(handles.len() < TRIES, "the limit was not felt");
                let counted = Counted(&dropped);
                let (ended, go) = (&ended, &go);
                let spawned = thread::Builder::new().stack_size(STACK).spawn_scoped(s, move || {
                    let _counted = counted;
                    while !go.load(SeqCst) {
                        thread::park();
                    }
                    ended.fetch_add(1, SeqCst);
                });
                match spawned {
                    Ok(handle) => handles.push(handle),
                    Err(error) => break error,
                }
            };
            let text = error.to_string();
            assert!(text.contains("ulimit -v") || text.contains("max_map_count"), "no help: {text}");
            assert_eq!(dropped.load(SeqCst), 1, "the refused closure, and no other");
            go.store(true, SeqCst);
            for handle in &handles {
                handle.thread().unpark();
            }
            handles.len()
        });
        assert!(started > 0);
        assert_eq!((ended.load(SeqCst), dropped.load(SeqCst)), (started, started + 1));
        // What they left can be used again.
        assert_eq!(thread::spawn(|| 1).join().unwrap(), 1);
    });
}
