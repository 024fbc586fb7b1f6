//! Why there are no blocks of this crate's own.

use std::fmt;
use std::io;

/// Why this process cannot have thread control blocks of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// The C library has no such symbol. It is another one, or an old one, or linked statically.
    Missing(&'static str),
    /// What this names could not be found in the block of a real thread, or was not as expected.
    Unexpected(&'static str),
    /// The process runs on a shadow stack, and a switch of stacks does not handle that.
    ShadowStack,
    /// No real thread could be made to compare with, or there was no memory. The value is the error number.
    NoThread(i32),
}

impl Unfit {
    /// Returns `true` if it may be otherwise at another time.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::NoThread(_))
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Missing(name) => write!(
                f,
                "the C library has no symbol {name} (it takes glibc, linked dynamically, on x86-64, aarch64 or \
                 riscv64, of which 2.27 to 2.44 are known to fit, or musl on x86-64)"
            ),
            Unfit::Unexpected(what) => {
                write!(f, "this C library keeps {what} where this crate does not find it")
            }
            Unfit::ShadowStack => f.write_str("shadow stacks are on in this process"),
            Unfit::NoThread(errno) => {
                write!(f, "no thread for calibration: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> Self {
        let kind = match unfit {
            Unfit::NoThread(errno) => io::Error::from_raw_os_error(errno).kind(),
            _ => io::ErrorKind::Unsupported,
        };
        io::Error::new(kind, unfit.to_string())
    }
}
