//! The runtime of programs that do not choose one: the one file that knows both backends.
//!
//! The process default is started when a thread that belongs to no runtime first needs one. It is never
//! dropped, because such a thread can come at any time. A start that fails leaves nothing behind, and may
//! be tried again.

use std::io;
use std::process;

use crate::mxn::Mxn;
use crate::onetoone::OneToOne;
use crate::runtime::{Spawner, sealed::Sealed};
use crate::settings::{self, Lookup};
use crate::sys::once::{Mutex, OnceLock};
use crate::sys::tcb;
use crate::thread::builder;

/// The process default.
static DEFAULT: OnceLock<Selected> = OnceLock::new();

/// Held while the process default starts, so that it starts once.
static STARTING: Mutex<()> = Mutex::new(());

enum Selected {
    Mxn(Mxn),
    OneToOne(OneToOne),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    Mxn,
    OneToOne,
}

impl Model {
    /// `green`: this target has green threads. Otherwise 1:1 threads are the default.
    fn from_env(lookup: Lookup<'_>, green: bool) -> io::Result<Self> {
        let named = settings::read(lookup, settings::RUNTIME, "mxn or onetoone", |value| match value {
            "mxn" => Some(Self::Mxn),
            "onetoone" => Some(Self::OneToOne),
            _ => None,
        })?;
        Ok(named.unwrap_or(if green { Self::Mxn } else { Self::OneToOne }))
    }
}

fn selected() -> io::Result<&'static Selected> {
    if let Some(selected) = DEFAULT.get() {
        return Ok(selected);
    }
    let _starting = STARTING.lock(|()| ());
    if let Some(selected) = DEFAULT.get() {
        return Ok(selected);
    }
    let fresh = match Model::from_env(&settings::process, tcb::SUPPORTED)? {
        Model::Mxn => Selected::Mxn(Mxn::new()?),
        Model::OneToOne => Selected::OneToOne(OneToOne::new()?),
    };
    Ok(DEFAULT.get_or_init(|| fresh))
}

/// Returns the runtime of threads that a thread of no runtime spawns.
pub(crate) fn process_default() -> io::Result<&'static dyn Spawner> {
    Ok(match selected()? {
        Selected::Mxn(rt) => rt.spawner().0,
        Selected::OneToOne(rt) => rt.spawner().0,
    })
}

/// Runs `main` as a thread of the runtime that `SELVEDGE_RUNTIME` names. Waits for it, and returns its
/// result. If the variable is unset, the runtime is `mxn`; on targets without green threads, it is
/// `onetoone`.
///
/// This is meant for a whole program: when `main` has returned, threads that it left behind end with the
/// process, as those of std do. If the runtime cannot start, this prints why and ends the process with
/// code 2. [`try_run`] returns an error instead.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let n = selvedge::run(|| thread::spawn(|| 7).join().unwrap());
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
        eprintln!("selvedge: {error}");
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
    let outcome = builder::run_on(process_default()?, main)?;
    Ok(outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_a_model() {
        for (value, model) in [("mxn", Model::Mxn), ("onetoone", Model::OneToOne), (" mxn ", Model::Mxn)] {
            for green in [true, false] {
                assert_eq!(Model::from_env(&|_| Some(value.into()), green).unwrap(), model);
            }
        }
        assert_eq!(Model::from_env(&|_| None, true).unwrap(), Model::Mxn);
        assert_eq!(Model::from_env(&|_| None, false).unwrap(), Model::OneToOne);
    }

    #[test]
    fn an_unknown_model_is_an_error_that_says_what_is_known() {
        for value in ["green", "", "MXN", "1:1"] {
            let error = Model::from_env(&|_| Some(value.into()), true).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains("SELVEDGE_RUNTIME") && text.contains("mxn or onetoone"), "{text}");
        }
    }
}
