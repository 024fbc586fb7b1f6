//! The process default: the runtime of programs that do not choose one. This file alone knows both backends.
//!
//! It is started when a thread that belongs to no runtime first needs one. It is never dropped, because such
//! a thread can come at any time. A start that fails leaves nothing behind, and may be tried again.
//!
//! `thread` asks for it, so it is made of the backends' cores, without the public values and the trait
//! `Runtime` above them.

use std::io;
use std::sync::Arc;

use crate::mxn::config::Builder as MxnBuilder;
use crate::mxn::start::start as start_mxn;
use crate::onetoone::config::Builder as OneToOneBuilder;
use crate::onetoone::inner::start as start_onetoone;
use crate::park::backend::Spawner;
use crate::settings::{self, Lookup};
use crate::sys::once::{Mutex, OnceLock};
use crate::sys::tcb;

/// The process default.
static DEFAULT: OnceLock<Arc<dyn Spawner + Send>> = OnceLock::new();

/// Held while the process default starts, so that it starts once.
static STARTING: Mutex<()> = Mutex::new(());

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

/// Returns what spawns the threads of a thread that belongs to no runtime.
pub(crate) fn spawner() -> io::Result<&'static dyn Spawner> {
    if let Some(spawner) = DEFAULT.get() {
        return Ok(&**spawner);
    }
    let _starting = STARTING.lock(|()| ());
    if let Some(spawner) = DEFAULT.get() {
        return Ok(&**spawner);
    }
    let fresh: Arc<dyn Spawner + Send> = match Model::from_env(&settings::process, tcb::DEFAULT)? {
        Model::Mxn => start_mxn(MxnBuilder::default().resolve()?)?,
        Model::OneToOne => start_onetoone(OneToOneBuilder::default().resolve()?)?,
    };
    Ok(&**DEFAULT.get_or_init(|| fresh))
}

/// Returns `true` if the process default has green threads, or would have them.
#[allow(dead_code, reason = "asked by `pthreads`, which not all builds have")]
pub(crate) fn is_mxn() -> bool {
    matches!(Model::from_env(&settings::process, tcb::DEFAULT), Ok(Model::Mxn))
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
