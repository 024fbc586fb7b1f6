//! The paper's models of threads, and what stands for them here.
//!
//! | the paper's | here |
//! |---|---|
//! | many-to-many, thread based synchronisation: the standard model | `mxn` |
//! | many-to-many, LWP based synchronisation | `mxn`, with mutexes fit to be shared between processes, which block the LWP |
//! | one-to-one, by bound threads | `mxn`, with threads that own a kernel thread each |
//! | one-to-one, by the alternate library | `onetoone` |

use std::fmt;
use std::io;

use super::workers::{Plan, Shares, work};
use crate::support::command_line::Model;
use crate::support::concurrency::Concurrency;
use crate::support::crew::Sampler;
use crate::support::library::{Attributes, Std};
use crate::support::selvedge::{Private, Shared};

/// The library of the threads, and the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) model: Model,
    /// Mutexes that processes can share.
    pub(crate) shared: bool,
    /// Threads that own a kernel thread.
    pub(crate) bound: bool,
}

/// The one that the paper compares the others with.
pub(crate) const STANDARD: Way = Way { model: Model::Mxn, shared: false, bound: false };

/// The paper's, and what std has; the standard one first.
pub(crate) const WAYS: [Way; 5] = [
    STANDARD,
    Way { shared: true, ..STANDARD },
    Way { bound: true, ..STANDARD },
    Way { model: Model::OneToOne, ..STANDARD },
    Way { model: Model::Std, ..STANDARD },
];

impl Way {
    /// Lets threads work in this way, on a runtime of their own; `concurrency` is M:N's, and 0 its default.
    ///
    /// # Errors
    /// The runtime does not start, or it cannot make a thread.
    pub(crate) fn work<W>(
        self,
        plan: Plan,
        concurrency: Concurrency,
        watch: impl FnOnce(Sampler) -> W + Send,
    ) -> io::Result<Shares> {
        let plan = Plan { attributes: Attributes { bound: self.bound, ..plan.attributes }, ..plan };
        match (self.model, self.shared) {
            (Model::Std, _) => work::<Std, W>(plan, watch),
            (model, false) => model.run(concurrency, || work::<Private, W>(plan, watch))?,
            (model, true) => model.run(concurrency, || work::<Shared, W>(plan, watch))?,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locks = if self.shared { ", shared mutexes" } else { "" };
        let threads = if self.bound { ", bound threads" } else { "" };
        write!(f, "{}{locks}{threads}", self.model)
    }
}
