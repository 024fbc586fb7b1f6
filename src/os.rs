//! What belongs to one operating system, under the paths that it has in `std::os`.

/// Unix.
pub mod unix {
    /// Threads that own a kernel thread, as the C library knows them: [`std::os::unix::thread`].
    pub mod thread {
        pub use crate::thread::pthread::{JoinHandleExt, RawPthread};
    }
}
