//! A sheet with a frame for the figure, axes around it, and a legend to its right.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::style::{Marker, Style};

/// Pixels of a sheet with a legend.
pub(crate) const SHEET: (u32, u32) = (920, 460);
/// The frame's sides on it.
pub(crate) const LEFT: i32 = 84;
pub(crate) const RIGHT: i32 = 650;
pub(crate) const TOP: i32 = 44;
pub(crate) const BOTTOM: i32 = 396;
const FONT: &str = "sans-serif";
/// A marker's half width.
const SIZE: i32 = 4;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn = Result<(), Box<dyn Error>>;

/// Where a figure is drawn.
pub(crate) struct Canvas<'a> {
    area: Area<'a>,
}

/// A grey, from black, 0.
pub(crate) const fn gray(level: u8) -> RGBColor {
    RGBColor(level, level, level)
}

impl<'a> Canvas<'a> {
    /// A sheet of this size with a heading, which begins at `left`, and nothing else.
    pub(crate) fn new(
        path: &'a Path,
        sheet: (u32, u32),
        heading: &str,
        left: i32,
    ) -> Result<Self, Box<dyn Error>> {
        let area = SVGBackend::new(path, sheet).into_drawing_area();
        area.fill(&WHITE)?;
        let canvas = Self { area };
        canvas.text(heading, (left, TOP - 22), 16, HPos::Left, VPos::Center)?;
        Ok(canvas)
    }

    /// Writes the file.
    pub(crate) fn finish(self) -> Drawn {
        Ok(self.area.present()?)
    }

    pub(crate) fn text(&self, text: &str, at: (i32, i32), size: i32, across: HPos, along: VPos) -> Drawn {
        let style = (FONT, size).into_font().color(&BLACK).pos(Pos::new(across, along));
        Ok(self.area.draw(&Text::new(text.to_owned(), at, style))?)
    }

    /// A short text on a dark ground.
    pub(crate) fn white(&self, text: &str, at: (i32, i32)) -> Drawn {
        let style = (FONT, 11).into_font().color(&WHITE).pos(Pos::new(HPos::Center, VPos::Center));
        Ok(self.area.draw(&Text::new(text.to_owned(), at, style))?)
    }

    /// The frame, the second axis with its ticks, and the names of both.
    pub(crate) fn frame(&self, y: &Axis, x_name: &str, y_name: &str) -> Drawn {
        for (at, written) in y.ticks() {
            self.line((LEFT, at), (RIGHT, at), gray(218), 1)?;
            self.line((LEFT - 4, at), (LEFT, at), BLACK, 1)?;
            self.text(&written, (LEFT - 8, at), 12, HPos::Right, VPos::Center)?;
        }
        let frame = Rectangle::new([(LEFT, TOP), (RIGHT, BOTTOM)], gray(0).stroke_width(1));
        self.area.draw(&frame)?;
        let middle = (LEFT + RIGHT) / 2;
        self.text(x_name, (middle, BOTTOM + 44), 13, HPos::Center, VPos::Center)?;
        let upright = (FONT, 13).into_font().transform(FontTransform::Rotate270);
        let style = upright.color(&BLACK).pos(Pos::new(HPos::Center, VPos::Center));
        Ok(self.area.draw(&Text::new(y_name.to_owned(), (18, (TOP + BOTTOM) / 2), style))?)
    }

    /// A tick of the first axis.
    pub(crate) fn tick(&self, at: i32, written: &str) -> Drawn {
        self.line((at, BOTTOM), (at, BOTTOM + 4), BLACK, 1)?;
        self.text(written, (at, BOTTOM + 16), 12, HPos::Center, VPos::Center)
    }

    pub(crate) fn line(&self, from: (i32, i32), to: (i32, i32), color: RGBColor, width: u32) -> Drawn {
        Ok(self.area.draw(&PathElement::new(vec![from, to], color.stroke_width(width)))?)
    }

    /// A line in a contender's style.
    pub(crate) fn curve(&self, points: &[(i32, i32)], style: Style) -> Drawn {
        let stroke = style.color.stroke_width(style.width);
        let (drawn, left_out) = style.dash;
        if left_out == 0 {
            return Ok(self.area.draw(&PathElement::new(points.to_vec(), stroke))?);
        }
        let dashes = DashedPathElement::new(points.iter().copied(), drawn, left_out, stroke);
        Ok(self.area.draw(&dashes)?)
    }

    /// How far a figure spread: a thin line with ends.
    pub(crate) fn whisker(&self, x: i32, from: i32, to: i32, color: RGBColor) -> Drawn {
        if (from - to).abs() < 3 {
            return Ok(());
        }
        self.line((x, from), (x, to), color, 1)?;
        self.line((x - 3, from), (x + 3, from), color, 1)?;
        self.line((x - 3, to), (x + 3, to), color, 1)
    }

    pub(crate) fn marker(&self, (x, y): (i32, i32), style: Style) -> Drawn {
        let ink = style.color;
        let (full, open) = (ink.filled(), ink.stroke_width(1));
        let polygon = |corners: Vec<(i32, i32)>| -> Drawn {
            self.area.draw(&Polygon::new(corners.clone(), WHITE.filled()))?;
            let closed: Vec<_> = corners.iter().chain(corners.first()).copied().collect();
            Ok(self.area.draw(&PathElement::new(closed, open))?)
        };
        let strokes = |ends: [[(i32, i32); 2]; 2]| -> Drawn {
            ends.iter().try_for_each(|&[from, to]| self.line(from, to, style.color, 2))
        };
        let s = SIZE;
        match style.marker {
            Marker::Disc => self.area.draw(&Circle::new((x, y), s, full))?,
            Marker::Square => self.area.draw(&Rectangle::new([(x - s, y - s), (x + s, y + s)], full))?,
            Marker::Ring => {
                self.area.draw(&Circle::new((x, y), s, WHITE.filled()))?;
                self.area.draw(&Circle::new((x, y), s, open))?;
            }
            Marker::Box => polygon(vec![(x - s, y - s), (x + s, y - s), (x + s, y + s), (x - s, y + s)])?,
            Marker::Triangle => polygon(vec![(x - s, y + s), (x + s, y + s), (x, y - s)])?,
            Marker::Down => polygon(vec![(x - s, y - s), (x + s, y - s), (x, y + s)])?,
            Marker::Diamond => {
                polygon(vec![(x - s - 1, y), (x, y - s - 1), (x + s + 1, y), (x, y + s + 1)])?;
            }
            Marker::Cross => strokes([[(x - s, y - s), (x + s, y + s)], [(x - s, y + s), (x + s, y - s)]])?,
            Marker::Plus => strokes([[(x - s, y), (x + s, y)], [(x, y - s), (x, y + s)]])?,
        }
        Ok(())
    }

    /// A bar between two corners, with an outline that shows a light color on white.
    pub(crate) fn bar(&self, from: (i32, i32), to: (i32, i32), color: RGBColor) -> Drawn {
        self.fill(from, to, color)?;
        Ok(self.area.draw(&Rectangle::new([from, to], gray(60).stroke_width(1)))?)
    }

    /// A ground between two corners.
    pub(crate) fn fill(&self, from: (i32, i32), to: (i32, i32), color: RGBColor) -> Drawn {
        Ok(self.area.draw(&Rectangle::new([from, to], color.filled()))?)
    }

    /// How far a figure spread, lying: a thin line with ends.
    pub(crate) fn lying_whisker(&self, y: i32, from: i32, to: i32, color: RGBColor) -> Drawn {
        if (from - to).abs() < 3 {
            return Ok(());
        }
        self.line((from, y), (to, y), color, 1)?;
        self.line((from, y - 3), (from, y + 3), color, 1)?;
        self.line((to, y - 3), (to, y + 3), color, 1)
    }

    /// Where the legend's line of this number stands.
    pub(crate) fn legend(&self, number: usize, name: &str) -> Result<(i32, i32), Box<dyn Error>> {
        let at = (RIGHT + 20, TOP + 10 + 22 * number as i32);
        self.text(name, (at.0 + 44, at.1), 12, HPos::Left, VPos::Center)?;
        Ok(at)
    }
}
