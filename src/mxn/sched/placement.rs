//! On which LWPs a thread may run: one of three strategies, chosen when a runtime is built.
//!
//! | strategy | where a runnable thread goes | chosen by |
//! |---|---|---|
//! | `Anywhere` | to its waker's LWP, from where idle LWPs steal it | default |
//! | `Home` | to the LWP on which it first ran | `Builder::pinned` |
//! | `Elsewhere` | to the injection queue, for another LWP than its last | `Builder::migrate_always` |
//!
//! `wake` asks where a thread goes, and `search` whether slots are lent to homes. The hot paths compare with
//! `Anywhere` once.

use crate::fiber::ThreadRegister;

/// The LWPs on which a thread may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Any LWP.
    Anywhere,
    /// The LWP on which it first ran, its *home*: it uses that LWP's thread register. If the home has no
    /// slot, it is lent one.
    Home,
    /// Another LWP than the last, at each switch. For tests of what must survive a migration.
    Elsewhere,
}

impl Placement {
    /// Returns the strategy for threads with such a register. `migrates`: they shall move at each switch.
    pub(crate) fn new(rung: ThreadRegister, migrates: bool) -> Self {
        match rung {
            ThreadRegister::Pinned => Self::Home,
            _ if migrates => Self::Elsewhere,
            _ => Self::Anywhere,
        }
    }

    /// Returns `true` if a thread that has run has a home.
    #[inline]
    pub(crate) fn has_homes(self) -> bool {
        self == Self::Home
    }

    /// Returns `true` if a thread leaves its LWP at each switch.
    #[inline]
    pub(crate) fn moves_always(self) -> bool {
        self == Self::Elsewhere
    }
}
