//! Items that belong to one operating system, under the same paths as in `std::os`.

/// Unix.
pub mod unix {
    /// Threads that own a kernel thread, as the C library sees them: [`std::os::unix::thread`].
    pub mod thread {
        pub use crate::thread::pthread::{JoinHandleExt, RawPthread};
    }
}
