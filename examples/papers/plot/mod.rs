//! Figures as SVG, in colors that differ in lightness too, so that they can be read in grey. Bars have their
//! names and values beside them; lines have markers and dashes of their own.
//!
//! plotters draws the elements; the axes are ours, since its own put no ticks where decades are.

pub(crate) mod axis;
mod bars;
mod canvas;
pub(crate) mod lines;
pub(crate) mod ratios;
mod strips;
pub(crate) mod style;

use std::error::Error;
use std::path::Path;

use crate::exhibit::{Chart, Exhibit, Scale};
use crate::findings::{Findings, Summary};

/// What is drawn of one contender.
pub(crate) struct Series {
    pub(crate) name: String,
    /// By which its style is found.
    pub(crate) key: &'static str,
    /// Where it stands on the first axis, and its figures there.
    pub(crate) points: Vec<(f64, Summary)>,
}

/// Draws an exhibit into a file. `false`: there is nothing to draw.
pub(crate) fn draw(path: &Path, exhibit: &Exhibit, findings: &Findings) -> Result<bool, Box<dyn Error>> {
    let (series, scales) = match exhibit.chart {
        Chart::Strips { first, last } => return strips::draw(path, exhibit, &findings.seen_at(first, last)),
        Chart::Bars => (by_contender(exhibit, findings, false), None),
        Chart::Lines { x, y } => (by_contender(exhibit, findings, true), Some((x, y))),
        Chart::Rounds { of, beside } => {
            (by_round(exhibit, findings, of, beside), Some((Scale::Linear, Scale::Linear)))
        }
    };
    if series.iter().all(|series| series.points.is_empty()) {
        return Ok(false);
    }
    match scales {
        None => bars::draw(path, exhibit, &series)?,
        Some(scales) => lines::draw(path, exhibit, &series, scales)?,
    }
    Ok(true)
}

/// For bars, a column's place is its number.
fn by_contender(exhibit: &Exhibit, findings: &Findings, numbers: bool) -> Vec<Series> {
    let of = |key: &'static str| {
        let columns = exhibit.columns.iter().enumerate();
        let points = columns.filter_map(|(number, column)| {
            let place = if numbers { column.at } else { number as f64 };
            Some((place, Summary::of(&column.figures(findings, key))?))
        });
        Series { name: style::label(key), key, points: points.collect() }
    };
    let all = findings.contenders.iter().map(|contender| of(contender.name));
    all.filter(|series| !series.points.is_empty()).collect()
}

fn by_round(exhibit: &Exhibit, findings: &Findings, of: &'static str, beside: &'static str) -> Vec<Series> {
    let mut all = Vec::new();
    for (key, name) in [(of, style::label(of)), (beside, style::label(beside))] {
        for round in 0..findings.rounds {
            let point = |column: &crate::exhibit::Column| {
                let figures = column.figures(findings, key);
                let figure = *figures.get(round)?;
                Some((column.at, Summary { median: figure, least: figure, most: figure }))
            };
            let points: Vec<_> = exhibit.columns.iter().filter_map(point).collect();
            if !points.is_empty() {
                // One line of the legend for all rounds.
                let name = if round == 0 { format!("{name}, each run") } else { String::new() };
                all.push(Series { name, key, points });
            }
        }
    }
    all
}
