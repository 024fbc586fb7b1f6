//! A line for each series.

use std::path::Path;

use super::axis::Axis;
use super::canvas::{BOTTOM, Canvas, Drawn, LEFT, RIGHT, SHEET, TOP};
use super::{Series, style};
use crate::exhibit::{Exhibit, Scale};
use crate::findings::Summary;

/// The most pixels between two that stand at the same place.
const APART: i32 = 6;

/// How far beside their column so many stand, in order: side by side, so that no whisker hides another.
/// Their columns have so much room each.
pub(crate) fn dodges(all: usize, room: i32) -> impl Iterator<Item = i32> {
    let apart = (room / (all as i32 + 1)).min(APART);
    (0..all as i32).map(move |number| apart * number - apart * (all as i32 - 1) / 2)
}

pub(crate) fn draw(path: &Path, exhibit: &Exhibit, all: &[Series], (x, y): (Scale, Scale)) -> Drawn {
    let points = || all.iter().flat_map(|series| &series.points);
    let columns = exhibit.columns.iter().map(|column| column.at);
    let across = Axis::fitting(x, columns, false, (LEFT, RIGHT));
    let ends = points().flat_map(|(_, figures)| [figures.least, figures.most]);
    let up = Axis::fitting(y, ends, true, (BOTTOM, TOP));

    let canvas = Canvas::new(path, SHEET, &exhibit.title, LEFT)?;
    canvas.frame(&up, exhibit.over, exhibit.quantity)?;
    let mut free = LEFT;
    for column in &exhibit.columns {
        let at = across.place(column.at);
        // Labels must not touch.
        let half = 4 * column.label.len() as i32;
        if at - half >= free - half {
            canvas.tick(at, &column.label)?;
            free = at + 2 * half;
        }
    }
    // Each contender has one place, whatever the number of its series.
    let mut keys: Vec<_> = all.iter().map(|series| series.key).collect();
    keys.dedup();
    let columns = exhibit.columns.windows(2);
    let room = columns.map(|next| across.place(next[1].at) - across.place(next[0].at)).min();
    let beside: Vec<_> = dodges(keys.len(), room.unwrap_or(RIGHT - LEFT)).collect();
    let mut named = 0;
    for series in all {
        let style = style::of(series.key);
        let beside = beside[keys.iter().position(|key| *key == series.key).expect("all are there")];
        let place = |(at, figures): &(f64, Summary)| (across.place(*at) + beside, up.place(figures.median));
        let places: Vec<_> = series.points.iter().map(place).collect();
        canvas.curve(&places, style)?;
        for ((_, figures), &place) in series.points.iter().zip(&places) {
            canvas.whisker(place.0, up.place(figures.least), up.place(figures.most), style.color)?;
            canvas.marker(place, style)?;
        }
        if series.name.is_empty() {
            continue;
        }
        let (left, middle) = canvas.legend(named, &series.name)?;
        named += 1;
        canvas.curve(&[(left, middle), (left + 36, middle)], style)?;
        canvas.marker((left + 18, middle), style)?;
    }
    canvas.finish()
}
