//! `run` and `try_run`: a whole program on the process default.

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::process;

use crate::process_default;
use crate::thread::builder;

/// Runs `main` as a thread of the runtime that `SELVEDGE_RUNTIME` names. Waits for it, and returns its
/// result. If the variable is unset, the runtime is `mxn`; on musl, and on targets without green threads, it
/// is `onetoone`.
///
/// This is meant for a whole program: when `main` has returned, threads that it left behind end with the
/// process, as those of std do. If the runtime cannot start, this prints why and ends the process with
/// code 2. [`try_run`] returns an error instead.
///
/// The thread is named `main`, as std's. Its stack is that of any other thread: 256 KiB with `mxn`, 2 MiB
/// with `onetoone`. The main thread of a process has 8 MiB as a rule. If `main` needs more, set
/// `SELVEDGE_STACK_SIZE`, or let it start a thread with a larger
/// [`stack_size`](crate::thread::Builder::stack_size).
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let n = selvedge::run(|| {
///     assert_eq!(thread::current().name(), Some("main"));
///     thread::spawn(|| 7).join().unwrap()
/// });
/// assert_eq!(n, 7);
/// ```
///
/// # Panics
///
/// With the panic of `main`.
///
/// # Blocks
///
/// The calling thread, until `main` has returned.
pub fn run<F, T>(main: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    try_run(main).unwrap_or_else(|error| {
        // If nothing reads it, the status tells.
        let _ = writeln!(io::stderr(), "selvedge: {error}");
        process::exit(2)
    })
}

/// Like [`run`], but returns an error if the runtime, or the thread for `main`, cannot start.
///
/// # Examples
///
/// ```
/// assert_eq!(selvedge::try_run(|| 7)?, 7);
/// # std::io::Result::Ok(())
/// ```
///
/// # Panics
///
/// With the panic of `main`.
///
/// # Errors
///
/// If `SELVEDGE_RUNTIME` or another variable has an invalid value, or the system refuses what a runtime
/// needs. `main` has then not run.
///
/// # Blocks
///
/// As [`run`].
pub fn try_run<F, T>(main: F) -> io::Result<T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let outcome = builder::run_on(process_default::spawner()?, Some("main"), main)?;
    Ok(outcome.unwrap_or_else(|panic| resume_unwind(panic)))
}
