//! What threads did over a stretch of time, as text: a line for each thread, a mark for each moment.

use std::fmt;
use std::time::Duration;

/// The moments of a strip.
pub(crate) const MOMENTS: u32 = 96;
/// The word that a strip begins with.
const BEGIN: &str = "strip";

/// What a thread does, by the names of the paper's monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It is on the LWP of this number, from zero.
    OnLwp(usize),
    /// An LWP was chosen for it, and has not come yet.
    Dispatchable,
    RunQueue,
    Blocked,
}

impl Doing {
    /// Its mark: a digit for an LWP.
    pub(crate) fn mark(self) -> char {
        match self {
            Self::OnLwp(lwp) => char::from_digit(lwp as u32 + 1, 10).unwrap_or('+'),
            Self::Dispatchable => 'd',
            Self::RunQueue => 'q',
            Self::Blocked => '.',
        }
    }

    /// What a mark means; `None` for a moment of which nothing is known. Past the ninth, all LWPs are one.
    pub(crate) fn of_mark(mark: char) -> Option<Self> {
        Some(match mark {
            'd' => Self::Dispatchable,
            'q' => Self::RunQueue,
            '.' => Self::Blocked,
            '+' => Self::OnLwp(9),
            digit => Self::OnLwp((digit.to_digit(10)?.checked_sub(1)?) as usize),
        })
    }
}

/// The marks of some threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    /// The time from its first moment to its end.
    pub(crate) length: Duration,
    /// A line of marks for each thread.
    pub(crate) threads: Vec<String>,
}

impl Strip {
    /// Reads what `Display` has written; `None` if it is no strip.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, lines) = text.split_once('\n')?;
        let nanos = head.strip_prefix(BEGIN)?.trim().parse().ok()?;
        Some(Self {
            length: Duration::from_nanos(nanos),
            threads: lines.lines().map(str::to_owned).collect(),
        })
    }

    /// Says the time from one moment to the next, for people.
    pub(crate) fn scale(&self) -> String {
        let nanos = self.length.as_nanos() as f64 / f64::from(MOMENTS);
        let (value, unit) = match nanos {
            ..1e3 => (nanos, "ns"),
            ..1e6 => (nanos / 1e3, "µs"),
            _ => (nanos / 1e6, "ms"),
        };
        format!("{} {unit}", crate::numbers::short(value))
    }
}

impl fmt::Display for Strip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{BEGIN} {}", self.length.as_nanos())?;
        self.threads.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
