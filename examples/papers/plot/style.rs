//! How each contender looks, the same in all figures, and what it is called.

/// A contender's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// From black, 0.
    pub(crate) gray: u8,
    pub(crate) width: u32,
    /// Drawn and left out, in turn; nothing left out: a whole line.
    pub(crate) dash: (i32, i32),
    pub(crate) marker: Marker,
    pub(crate) hatch: Hatch,
}

/// What stands at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Disc,
    Square,
    Ring,
    Box,
    Triangle,
    Down,
    Diamond,
    Cross,
    Plus,
}

/// What fills a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hatch {
    Solid,
    Gray,
    Empty,
    /// Lines that rise, fall, lie or stand, so many pixels apart.
    Rising(i32),
    Falling(i32),
    Lying(i32),
    Standing(i32),
    /// Both ways.
    Crossed(i32),
    Checked(i32),
}

const fn style(gray: u8, width: u32, dash: (i32, i32), marker: Marker, hatch: Hatch) -> Style {
    Style { gray, width, dash, marker, hatch }
}

/// By the names that the benches give them.
pub(crate) const STYLES: [(&str, &str, Style); 18] = [
    ("mxn", "Selvedge M:N", style(0, 3, (1, 0), Marker::Disc, Hatch::Solid)),
    ("mxn, 1 slot", "Selvedge M:N, one LWP", style(0, 2, (9, 4), Marker::Ring, Hatch::Gray)),
    ("mxn, bound", "Selvedge M:N, bound", style(0, 2, (3, 3), Marker::Diamond, Hatch::Checked(6))),
    ("mxn, shared", "Selvedge M:N, shared locks", style(0, 2, (3, 3), Marker::Disc, Hatch::Lying(3))),
    ("onetoone", "Selvedge 1:1", style(0, 3, (9, 4), Marker::Square, Hatch::Crossed(6))),
    ("onetoone, shared", "Selvedge 1:1, shared locks", style(0, 2, (2, 4), Marker::Square, Hatch::Lying(6))),
    ("std", "std", style(110, 1, (1, 0), Marker::Box, Hatch::Rising(5))),
    ("parking_lot", "parking_lot", style(110, 1, (6, 3), Marker::Triangle, Hatch::Falling(5))),
    ("pthread", "pthread", style(110, 1, (2, 3), Marker::Cross, Hatch::Standing(4))),
    ("may", "may", style(60, 1, (1, 0), Marker::Down, Hatch::Empty)),
    ("may, 1 worker", "may, one worker", style(60, 1, (6, 3), Marker::Down, Hatch::Lying(8))),
    ("tokio", "tokio", style(60, 1, (2, 3), Marker::Diamond, Hatch::Rising(10))),
    ("tokio, current thread", "tokio, one thread", style(60, 1, (10, 3), Marker::Plus, Hatch::Falling(10))),
    ("pthread, shared", "pthread, shared locks", style(110, 1, (4, 4), Marker::Box, Hatch::Checked(10))),
    ("crossbeam-channel", "crossbeam-channel", style(110, 1, (6, 3), Marker::Triangle, Hatch::Falling(5))),
    ("flume", "flume", style(110, 1, (2, 3), Marker::Cross, Hatch::Standing(4))),
    ("std mpsc", "std mpsc", style(110, 1, (1, 0), Marker::Box, Hatch::Rising(5))),
    ("", "", style(140, 1, (1, 3), Marker::Plus, Hatch::Standing(8))),
];

/// How the contender of this name looks. One that is not in the table looks like its last.
pub(crate) fn of(key: &str) -> Style {
    let known = STYLES.iter().find(|(name, ..)| *name == key);
    known.unwrap_or(&STYLES[STYLES.len() - 1]).2
}

/// What the contender of this name is called in the report.
pub(crate) fn label(key: &str) -> String {
    STYLES.iter().find(|(name, ..)| *name == key).map_or(key, |(_, label, _)| label).to_owned()
}
