//! How each contender looks, the same in all figures, and what it is called.

use plotters::style::RGBColor;

/// A contender's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) color: RGBColor,
    pub(crate) width: u32,
    /// Drawn and left out, in turn; nothing left out: a whole line.
    pub(crate) dash: (i32, i32),
    pub(crate) marker: Marker,
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

const fn style(color: u32, width: u32, dash: (i32, i32), marker: Marker) -> Style {
    let color = RGBColor((color >> 16) as u8, (color >> 8) as u8, color as u8);
    Style { color, width, dash, marker }
}

/// By the names that the benches give them. Their colors differ in lightness too, so that they can be told
/// apart in grey. The channels at the end stand in for libraries, and never beside them.
pub(crate) const STYLES: [(&str, &str, Style); 21] = [
    ("mxn", "Selvedge M:N", style(0x07_2a_5c, 3, (1, 0), Marker::Disc)),
    ("mxn, 1 slot", "Selvedge M:N, one LWP", style(0x12_67_a4, 2, (9, 4), Marker::Ring)),
    ("mxn, bound", "Selvedge M:N, bound", style(0x73_8d_dc, 2, (3, 3), Marker::Diamond)),
    ("mxn, shared", "Selvedge M:N, shared locks", style(0x91_cd_ec, 2, (3, 3), Marker::Disc)),
    ("mxn, cooperative", "Selvedge M:N, no slices", style(0x36_85_7f, 2, (12, 3), Marker::Ring)),
    ("mxn, cooperative, one LWP more", "the same, one LWP more", style(0xaa_e0_c6, 2, (12, 3), Marker::Plus)),
    ("onetoone", "Selvedge 1:1", style(0x81_28_07, 3, (9, 4), Marker::Square)),
    ("onetoone, shared", "Selvedge 1:1, shared locks", style(0xf3_83_20, 2, (2, 4), Marker::Square)),
    ("std", "std", style(0x20_60_36, 1, (1, 0), Marker::Box)),
    ("parking_lot", "parking_lot", style(0x4d_7e_2a, 1, (6, 3), Marker::Triangle)),
    ("pthread", "pthread", style(0xac_65_c4, 1, (2, 3), Marker::Cross)),
    ("may", "may", style(0xdc_aa_12, 2, (1, 0), Marker::Down)),
    ("may, 1 worker", "may, one worker", style(0xc2_8c_22, 1, (6, 3), Marker::Down)),
    ("tokio", "tokio", style(0xf3_ab_cf, 2, (2, 3), Marker::Diamond)),
    ("tokio, current thread", "tokio, one thread", style(0xd7_61_92, 1, (10, 3), Marker::Plus)),
    ("pthread, shared", "pthread, shared locks", style(0xc7_81_d5, 1, (4, 4), Marker::Box)),
    ("kernel object", "std, kernel objects", style(0x14_40_20, 1, (4, 4), Marker::Cross)),
    ("crossbeam-channel", "crossbeam-channel", style(0x4d_7e_2a, 1, (6, 3), Marker::Triangle)),
    ("flume", "flume", style(0xac_65_c4, 1, (2, 3), Marker::Cross)),
    ("std mpsc", "std mpsc", style(0x20_60_36, 1, (1, 0), Marker::Box)),
    ("", "", style(0x8c_8c_8c, 1, (1, 3), Marker::Plus)),
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
