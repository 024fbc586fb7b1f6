//! Why there is no sample.

use std::{fmt, io};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was given up.
    Late,
    /// Its process did not start, or has complained.
    Wrong(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Wrong(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late => f.write_str("it did not end in time"),
            Self::Wrong(reason) => f.write_str(reason),
        }
    }
}
