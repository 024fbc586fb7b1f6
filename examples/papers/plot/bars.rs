//! A group of bars for each column. The scale is logarithmic, so a bar's foot means nothing; its head does.

use std::path::Path;

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::canvas::{BOTTOM, Canvas, Drawn, LEFT, RIGHT, TOP};
use super::{Series, style};
use crate::exhibit::{Exhibit, Scale};

/// The widest bar.
const WIDE: i32 = 34;

pub(crate) fn draw(path: &Path, exhibit: &Exhibit, all: &[Series]) -> Drawn {
    let points = || all.iter().flat_map(|series| &series.points);
    let ends = points().flat_map(|(_, figures)| [figures.least, figures.most]);
    // Room for what is below, so that the least is seen to be a bar.
    let least =
        points().map(|(_, figures)| figures.least).filter(|&least| least > 0.0).fold(f64::INFINITY, f64::min);
    let up = Axis::fitting(Scale::Log, ends.chain([least / 3.0]), true, (BOTTOM, TOP));

    let canvas = Canvas::new(path, &exhibit.title)?;
    canvas.frame(&up, exhibit.over, exhibit.quantity)?;
    let group = (RIGHT - LEFT) / exhibit.columns.len().max(1) as i32;
    for (number, column) in exhibit.columns.iter().enumerate() {
        let middle = LEFT + group * number as i32 + group / 2;
        // A label may have two lines.
        for (line, text) in column.label.split('\n').enumerate() {
            let at = (middle, BOTTOM + 12 + 14 * line as i32);
            canvas.text(text, at, 11, HPos::Center, VPos::Center)?;
        }
        let here: Vec<_> = all
            .iter()
            .filter_map(|series| {
                let (_, figures) = series.points.iter().find(|(place, _)| *place == number as f64)?;
                Some((style::of(series.key), figures))
            })
            .collect();
        let width = ((group - 12) / here.len().max(1) as i32).min(WIDE);
        let mut left = middle - width * here.len() as i32 / 2;
        for (style, figures) in here {
            let (top, inner) = (up.place(figures.median), (left + 1, left + width - 1));
            canvas.bar((inner.0, top), (inner.1, BOTTOM), style.hatch)?;
            let center = left + width / 2;
            canvas.whisker(center, up.place(figures.least), up.place(figures.most), 90)?;
            left += width;
        }
    }
    for (number, series) in all.iter().enumerate() {
        let (left, middle) = canvas.legend(number, &series.name)?;
        canvas.bar((left, middle - 7), (left + 36, middle + 7), style::of(series.key).hatch)?;
    }
    canvas.finish()
}
