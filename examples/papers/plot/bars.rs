//! A group of lying bars for each column, each with its name and its value.

use std::path::Path;

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::canvas::{Canvas, Drawn, SHEET, TOP, gray};
use super::{Series, style};
use crate::exhibit::{Exhibit, Scale};
use crate::findings::Summary;
use crate::numbers::short;

/// Where names end and bars begin, and where bars end and only values have room.
const FOOT: i32 = 230;
const HEAD: i32 = 810;
/// The height of a bar with the gap below it, and the gap.
const ROW: i32 = 21;
const GAP: i32 = 5;
/// The height of a column's heading.
const HEADING: i32 = 30;
/// If figures are further apart than this, the scale is logarithmic. A bar's foot means nothing then.
const FAR: f64 = 30.0;

pub(crate) fn draw(path: &Path, exhibit: &Exhibit, all: &[Series]) -> Drawn {
    let groups: Vec<(String, Vec<(&Series, Summary)>)> = exhibit
        .columns
        .iter()
        .enumerate()
        .map(|(number, column)| {
            let here = all.iter().filter_map(|series| {
                let (_, figures) = series.points.iter().find(|(place, _)| *place == number as f64)?;
                Some((series, *figures))
            });
            (heading(exhibit, &column.label), here.collect())
        })
        .filter(|(_, here): &(String, Vec<_>)| !here.is_empty())
        .collect();
    let rows: usize = groups.iter().map(|(_, here)| here.len()).sum();
    let bottom = TOP + HEADING * groups.len() as i32 + ROW * rows as i32 + GAP;
    let (across, logarithmic) = axis(all);

    let canvas = Canvas::new(path, (SHEET.0, bottom as u32 + 48), &exhibit.title, 20)?;
    for (at, written) in across.ticks() {
        canvas.line((at, TOP), (at, bottom), gray(225), 1)?;
        canvas.text(&written, (at, bottom + 12), 12, HPos::Center, VPos::Center)?;
    }
    canvas.line((FOOT, TOP), (FOOT, bottom), gray(0), 1)?;
    let scale = if logarithmic { " (logarithmic scale)" } else { "" };
    let quantity = format!("{}{scale}", exhibit.quantity);
    canvas.text(&quantity, ((FOOT + HEAD) / 2, bottom + 34), 13, HPos::Center, VPos::Center)?;

    let mut top = TOP;
    for (heading, here) in groups {
        canvas.text(&heading, (20, top + HEADING / 2 + 2), 13, HPos::Left, VPos::Center)?;
        top += HEADING;
        for (series, Summary { median, least, most }) in here {
            let (middle, end) = (top + (ROW - GAP) / 2, across.place(median));
            canvas.text(&series.name, (FOOT - 8, middle), 12, HPos::Right, VPos::Center)?;
            canvas.bar((FOOT, top), (end, top + ROW - GAP), style::of(series.key).color)?;
            canvas.lying_whisker(middle, across.place(least), across.place(most), gray(130))?;
            let beside = end.max(across.place(most)) + 6;
            canvas.text(&short(median), (beside, middle), 12, HPos::Left, VPos::Center)?;
            top += ROW;
        }
    }
    canvas.finish()
}

/// What stands above a group: its label, or what its number counts.
fn heading(exhibit: &Exhibit, label: &str) -> String {
    match label.starts_with(|first: char| first.is_ascii_digit()) && !exhibit.over.is_empty() {
        true => format!("{}: {label}", exhibit.over),
        false => label.replace('\n', " "),
    }
}

/// The axis, and whether it is logarithmic.
fn axis(all: &[Series]) -> (Axis, bool) {
    let points = || all.iter().flat_map(|series| &series.points);
    let ends = points().flat_map(|(_, figures)| [figures.least, figures.most]);
    let medians = points().map(|(_, figures)| figures.median).filter(|&median| median > 0.0);
    let least = medians.clone().fold(f64::INFINITY, f64::min);
    let most = medians.fold(0.0, f64::max);
    if most > FAR * least {
        // Room before the least, so that it is seen to be a bar.
        (Axis::fitting(Scale::Log, ends.chain([least / 2.0]), true, (FOOT, HEAD)), true)
    } else {
        (Axis::fitting(Scale::Linear, ends, true, (FOOT, HEAD)), false)
    }
}
