//! `ThreadId`: the identity of a thread.

use std::fmt;
use std::num::NonZeroU64;

/// The identity of a thread. No other thread of this process, on any runtime, has had it or will have it.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, Runtime, thread};
///
/// let rt = OneToOne::new()?;
/// let theirs = rt.spawn(|| thread::current().id()).join().unwrap();
/// assert_ne!(theirs, thread::current().id());
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(NonZeroU64);

impl ThreadId {
    pub(crate) fn from_number(number: NonZeroU64) -> Self {
        Self(number)
    }

    /// Returns the number in it, as std's method does, which is unstable. LWPs give numbers in
    /// blocks, and other threads get one when it is first asked for. So their order says nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// let id = thread::current().id();
    /// assert_eq!(format!("ThreadId({})", id.as_u64()), format!("{id:?}"));
    /// ```
    #[must_use]
    pub fn as_u64(&self) -> NonZeroU64 {
        self.0
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadId").field(&self.0).finish()
    }
}
