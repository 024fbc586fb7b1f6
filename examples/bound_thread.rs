//! A bound thread for a C library: all calls of it must come from the same kernel thread. Graphics
//! contexts, `ptrace` and io_uring rings with a single issuer are like that. A green thread may migrate
//! between two calls; a bound thread never does. Other threads send it closures to run.
//!
//! ```text
//! cargo run --release --example bound_thread
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use selvedge::channel::{self, Sender};
use selvedge::thread;

/// Runs closures on one kernel thread.
#[derive(Clone)]
struct Owner(Sender<Box<dyn FnOnce() + Send>>);

impl Owner {
    fn new() -> std::io::Result<Self> {
        let (jobs, todo) = channel::bounded::<Box<dyn FnOnce() + Send>>(16);
        // Ends when the last `Owner` is dropped.
        let _ = thread::Builder::new()
            .name("owner".into())
            .bound(true)
            .spawn(move || todo.into_iter().for_each(|job| job()))?;
        Ok(Self(jobs))
    }

    /// Runs `f` on the owner's kernel thread. Blocks the caller until `f` has returned. If `f` panics, so does
    /// the caller, and the owner runs the next one.
    fn call<R: Send + 'static>(&self, f: impl FnOnce() -> R + Send + 'static) -> R {
        let (send, result) = channel::bounded(1);
        let job = move || drop(send.send(catch_unwind(AssertUnwindSafe(f))));
        assert!(self.0.send(Box::new(job)).is_ok(), "the owner ends after the last sender");
        result.recv().expect("the owner runs all jobs").unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Stands for a call of the library: returns the kernel thread that runs it.
fn kernel_thread() -> i32 {
    // SAFETY: has no preconditions.
    unsafe { libc::gettid() }
}

fn main() -> std::io::Result<()> {
    selvedge::run(|| {
        let owner = Owner::new()?;
        let callers: Vec<_> = (0..50)
            .map(|_| {
                let owner = owner.clone();
                thread::spawn(move || (0..20).map(|_| owner.call(kernel_thread)).collect::<Vec<_>>())
            })
            .collect();
        let first = owner.call(kernel_thread);
        for caller in callers {
            assert!(caller.join().unwrap().iter().all(|&kernel_thread| kernel_thread == first));
        }
        println!("50 threads made 1,000 calls, all on kernel thread {first}");
        Ok(())
    })
}
