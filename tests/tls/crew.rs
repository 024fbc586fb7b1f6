//! Many threads of one runtime doing the same thing, changing LWP as often as they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::thread;

/// How often each thread of a crew hops, unless a scenario says otherwise.
pub(crate) const HOPS: usize = 200;

/// One thread of a crew.
pub(crate) struct Member {
    /// 0 up to the size of the crew.
    pub(crate) index: usize,
    migrations: Arc<AtomicUsize>,
    hops: AtomicUsize,
}

/// The kernel's number of the LWP that runs this thread, asked of the kernel: `gettid` may answer from
/// memory.
pub(crate) fn kernel_thread() -> i64 {
    // SAFETY: no arguments, no effects.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

impl Member {
    /// Gives up the LWP, sometimes for good (a sleep), and counts whether another one came back with us.
    pub(crate) fn hop(&self) {
        let nth = self.hops.fetch_add(1, Ordering::Relaxed);
        self.across(|| {
            if nth % 16 == 15 { thread::sleep(Duration::from_micros(20)) } else { thread::yield_now() }
        });
    }

    /// Runs something that may switch, and counts whether it migrated.
    pub(crate) fn across<T>(&self, f: impl FnOnce() -> T) -> T {
        let before = kernel_thread();
        let value = f();
        self.migrations.fetch_add(usize::from(kernel_thread() != before), Ordering::Relaxed);
        value
    }
}

/// Runs `body` on `size` threads at once, on the caller's runtime, and waits for all. Gives the number of
/// migrations.
pub(crate) fn crew(size: usize, body: impl Fn(&Member) + Send + Sync + 'static) -> usize {
    let migrations = Arc::new(AtomicUsize::new(0));
    let body = Arc::new(body);
    let start = |index| {
        let (body, migrations) = (body.clone(), migrations.clone());
        thread::spawn(move || body(&Member { index, migrations, hops: AtomicUsize::new(0) }))
    };
    let handles: Vec<_> = (0..size).map(start).collect();
    for handle in handles {
        handle.join().expect("a thread of the crew panicked");
    }
    migrations.load(Ordering::Relaxed)
}
