//! The settings of a 1:1 runtime.

use std::io;

use crate::settings;
use crate::thread::deadlock::watch::{self, OnDeadlock};

/// The stack of a thread that asks for none. Std's default too.
const DEFAULT_STACK_SIZE: usize = 2 << 20;

/// Settings of a [`OneToOne`](crate::OneToOne) runtime.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, Runtime};
///
/// let rt = OneToOne::builder().stack_size(256 << 10).build()?;
/// assert_eq!(rt.run(|| 1), 1);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    stack_size: Option<usize>,
    on_deadlock: Option<OnDeadlock>,
}

/// Valid settings, each with a value.
pub(crate) struct Settings {
    pub(super) stack_size: usize,
    pub(super) on_deadlock: OnDeadlock,
    /// Contention at locks is counted.
    pub(super) lock_stats: bool,
}

impl Builder {
    /// Sets the stack, in bytes, of threads that do not get one from their own builder. Default:
    /// `SELVEDGE_STACK_SIZE`, otherwise 2 MiB.
    ///
    /// # Examples
    ///
    /// ```
    /// let rt = selvedge::OneToOne::builder().stack_size(1 << 20).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets what is done about deadlocks. Default: `SELVEDGE_DEADLOCK`, otherwise nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::OneToOne;
    /// use selvedge::thread::OnDeadlock;
    ///
    /// let rt = OneToOne::builder().on_deadlock(OnDeadlock::Report).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn on_deadlock(mut self, what: OnDeadlock) -> Self {
        self.on_deadlock = Some(what);
        self
    }

    /// Returns the settings, or an error for the first that is not valid.
    pub(crate) fn resolve(self) -> io::Result<Settings> {
        let stack_size = match self.stack_size {
            Some(bytes) => settings::check_stack_size(bytes)?,
            None => {
                settings::stack_size(&settings::process, settings::MAX_STACK)?.unwrap_or(DEFAULT_STACK_SIZE)
            }
        };
        let on_deadlock = match self.on_deadlock {
            Some(what) => what,
            None => watch::from_environment(&settings::process)?.unwrap_or_default(),
        };
        let lock_stats = settings::lock_stats(&settings::process)?;
        Ok(Settings { stack_size, on_deadlock, lock_stats })
    }
}
