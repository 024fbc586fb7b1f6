//! What threads did: a row for each, with a cell for each moment. States differ in color, LWPs by their
//! number, as in the windows of the paper's monitor.

use std::error::Error;
use std::path::Path;

use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{Canvas, SHEET, TOP, gray};
use super::style::label;
use crate::exhibit::Exhibit;
use crate::findings::Seen;
use crate::strip::{Doing, MOMENTS};

/// The left side of the cells, and their width.
const LEFT: i32 = 90;
const CELL: i32 = 8;
/// The height of a thread's row with the gap below it, and the gap.
const ROW: i32 = 20;
const GAP: i32 = 4;
/// The height of a contender's heading.
const HEADING: i32 = 30;
/// States without an LWP, with what the legend says.
const OFF: [(Doing, &str); 3] =
    [(Doing::Dispatchable, "dispatchable"), (Doing::RunQueue, "run queue"), (Doing::Blocked, "blocked")];

/// Returns the color of a state; they differ in lightness too.
fn color(doing: Doing) -> RGBColor {
    match doing {
        // Neighbors differ.
        Doing::OnLwp(lwp) if lwp % 2 == 0 => RGBColor(0x07, 0x2a, 0x5c),
        Doing::OnLwp(_) => RGBColor(0x30, 0x6f, 0xb0),
        Doing::Dispatchable => RGBColor(0xd9, 0x5f, 0x0e),
        Doing::RunQueue => RGBColor(0xf6, 0xc1, 0x5c),
        Doing::Blocked => gray(228),
    }
}

/// Draws all strips below each other. `false`: there are none.
pub(super) fn draw(path: &Path, exhibit: &Exhibit, all: &[&Seen]) -> Result<bool, Box<dyn Error>> {
    if all.is_empty() {
        return Ok(false);
    }
    let rows: usize = all.iter().map(|seen| seen.strip.threads.len()).sum();
    let bottom = TOP + HEADING * all.len() as i32 + ROW * rows as i32;
    let canvas = Canvas::new(path, (SHEET.0, bottom as u32 + 40), &exhibit.title, 20)?;
    let mut top = TOP;
    for seen in all {
        let heading = format!("{}, {} a cell", label(seen.contender), seen.strip.scale());
        canvas.text(&heading, (20, top + HEADING / 2), 13, HPos::Left, VPos::Center)?;
        top += HEADING;
        for (number, marks) in seen.strip.threads.iter().enumerate() {
            let name = format!("thread {}", number + 1);
            canvas.text(&name, (LEFT - 8, top + (ROW - GAP) / 2), 12, HPos::Right, VPos::Center)?;
            row(&canvas, marks, top)?;
            top += ROW;
        }
    }
    let mut at = LEFT;
    for (doing, said) in [(Doing::OnLwp(0), "on LWP, by number")].into_iter().chain(OFF) {
        canvas.bar((at, bottom + 14), (at + 12, bottom + 26), color(doing))?;
        canvas.text(said, (at + 18, bottom + 20), 12, HPos::Left, VPos::Center)?;
        at += 160;
    }
    canvas.finish()?;
    Ok(true)
}

/// Draws the cells of one thread, equal neighbors as one, with the numbers of LWPs on them.
fn row(canvas: &Canvas<'_>, marks: &str, top: i32) -> super::canvas::Drawn {
    let marks: Vec<char> = marks.chars().take(MOMENTS as usize).collect();
    let mut begin = 0;
    for same in marks.chunk_by(|one, other| one == other) {
        let (from, to) = (LEFT + CELL * begin, LEFT + CELL * (begin + same.len() as i32));
        begin += same.len() as i32;
        let Some(doing) = Doing::of_mark(same[0]) else { continue };
        // A gap tells one LWP from another of the same color.
        canvas.fill((from, top), (to - 1, top + ROW - GAP), color(doing))?;
        if let (Doing::OnLwp(_), true) = (doing, to - from >= 12) {
            canvas.white(&same[0].to_string(), ((from + to) / 2, top + (ROW - GAP) / 2))?;
        }
    }
    Ok(())
}
