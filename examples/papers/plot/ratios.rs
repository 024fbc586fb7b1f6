//! A picture of the front page: ratios as lying bars that begin at one, where both take the same time. The
//! part where the paper's conclusion holds is shaded.

use std::path::Path;

use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::canvas::{Canvas, Drawn, TOP, gray};
use crate::exhibit::Scale;
use crate::front::{Bar, Picture, Source};
use crate::numbers;
use crate::verdict::Bound;

/// The sheet's width, and the sides of the axis on it. Values stand beside bars on either side.
const WIDTH: u32 = 760;
const LEFT: i32 = 270;
const RIGHT: i32 = 690;
/// The height of a bar with the gap below it, and the gap.
const ROW: i32 = 22;
const GAP: i32 = 6;
/// What the axis shows at least, so that 1.1 does not look like much.
const LEAST: [f64; 2] = [0.4, 2.5];

/// Returns the color of a source; they differ in lightness too.
pub(crate) fn color(source: Source) -> RGBColor {
    match source {
        Source::Paper => gray(140),
        Source::Selvedge => RGBColor(0x07, 0x2a, 0x5c),
        Source::Other => RGBColor(0xf3, 0xa9, 0x5c),
    }
}

pub(crate) fn draw(path: &Path, picture: &Picture) -> Drawn {
    let bottom = TOP + 18 + ROW * picture.bars.len() as i32 + GAP;
    let canvas = Canvas::new(path, (WIDTH, bottom as u32 + 26), picture.title, 12)?;
    let ratios = picture.bars.iter().flat_map(|bar| bar.ratio).flatten();
    let ends = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0).chain(LEAST);
    // Room for the values beside the bars.
    let across = Axis::fitting(Scale::Log, ends, false, (LEFT + 64, RIGHT - 10));

    let (from, to) = match picture.bound {
        Bound::AtLeast(border) => (across.place(border), RIGHT),
        Bound::AtMost(border) => (LEFT, across.place(border)),
        Bound::Within(low, high) => (across.place(low), across.place(high)),
        Bound::Exceeds { times, .. } => (across.place(times), RIGHT),
        Bound::Wider => (RIGHT, RIGHT),
    };
    canvas.fill((from, TOP), (to, bottom), gray(232))?;
    for (at, written) in across.ticks() {
        canvas.line((at, bottom), (at, bottom + 4), gray(0), 1)?;
        canvas.text(&written, (at, bottom + 14), 11, HPos::Center, VPos::Center)?;
    }
    let one = across.place(1.0);
    canvas.line((one, TOP), (one, bottom), gray(0), 1)?;
    for (side, at, position) in
        [(picture.sides[0], one - 8, HPos::Right), (picture.sides[1], one + 8, HPos::Left)]
    {
        canvas.text(side, (at, TOP + 9), 12, position, VPos::Center)?;
    }
    for (number, bar) in picture.bars.iter().enumerate() {
        bar_of(&canvas, &across, bar, TOP + 18 + ROW * number as i32, one)?;
    }
    canvas.finish()
}

fn bar_of(canvas: &Canvas<'_>, across: &Axis, bar: &Bar, top: i32, one: i32) -> Drawn {
    let middle = top + (ROW - GAP) / 2;
    canvas.text(&bar.name, (LEFT - 8, middle), 13, HPos::Right, VPos::Center)?;
    let Some([median, least, most]) = bar.ratio else {
        return canvas.text(
            "in the shaded part, by its words",
            (one + 8, middle),
            12,
            HPos::Left,
            VPos::Center,
        );
    };
    let end = across.place(median);
    let (left, right) = (one.min(end), one.max(end));
    canvas.bar((left, top), (right, top + ROW - GAP), color(bar.source))?;
    let (first, last) = (across.place(least), across.place(most));
    canvas.lying_whisker(middle, first, last, gray(110))?;
    let value = numbers::ratio(median);
    if end < one {
        canvas.text(&value, (left.min(first) - 6, middle), 13, HPos::Right, VPos::Center)
    } else {
        canvas.text(&value, (right.max(last) + 6, middle), 13, HPos::Left, VPos::Center)
    }
}
