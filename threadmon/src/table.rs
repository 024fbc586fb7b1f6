//! Tables: for the screen, as many columns as fit; as text, all of them.

use std::cmp::Ordering;
use std::fmt::Write;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use crate::model::Model;
use crate::show::{bold, dim};

pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) width: u16,
    /// Which columns are left out first if there is no room: those of the highest rank.
    pub(crate) rank: u8,
    /// It gets what room is left.
    pub(crate) grows: bool,
    /// Numbers: to the right, and the largest first when sorted.
    pub(crate) numeric: bool,
}

/// Returns a column of text.
pub(crate) const fn text(title: &'static str, width: u16, rank: u8) -> Column {
    Column { title, width, rank, grows: false, numeric: false }
}

/// Returns a column of text that gets what room is left.
pub(crate) const fn wide(title: &'static str, width: u16, rank: u8) -> Column {
    Column { title, width, rank, grows: true, numeric: false }
}

/// Returns a column of numbers.
pub(crate) const fn number(title: &'static str, width: u16, rank: u8) -> Column {
    Column { title, width, rank, grows: false, numeric: true }
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Thread(u64),
    Lwp(u32, usize),
    /// The kernel thread that this thread owns.
    Own(u64),
    Cpu(u32),
    Lock(u64),
}

/// What a row is sorted by.
#[derive(PartialEq, PartialOrd)]
pub(crate) enum Value {
    Number(f64),
    Text(String),
}

/// What a table shows of a model, and what it is sorted and filtered by.
pub(crate) trait Table {
    type Row<'a>;

    const COLUMNS: &'static [Column];

    fn rows(model: &Model) -> impl Iterator<Item = (Key, Self::Row<'_>)>;

    /// Returns the row of this key, or `None` if it has vanished.
    fn row(model: &Model, key: Key) -> Option<Self::Row<'_>> {
        Self::rows(model).find(|(it, _)| *it == key).map(|(_, row)| row)
    }

    /// Returns a cell for each column.
    fn cells(model: &Model, row: &Self::Row<'_>) -> Vec<Line<'static>>;

    /// Returns what rows are sorted by in a column.
    fn value(model: &Model, row: &Self::Row<'_>, column: usize) -> Value;

    /// Returns what a filter looks at.
    fn label(model: &Model, row: &Self::Row<'_>) -> String;
}

/// A table of any kind.
pub(crate) struct Kind {
    pub(crate) columns: &'static [Column],
    pub(crate) keys: fn(&Model) -> Vec<Key>,
    /// None if the row has vanished.
    cells: fn(&Model, Key) -> Vec<Line<'static>>,
    value: fn(&Model, Key, usize) -> Value,
    label: fn(&Model, Key) -> String,
}

/// Returns the value of what is not known: it comes before all numbers.
fn unknown() -> Value {
    Value::Number(-1.0)
}

/// Returns the value of a number that may not be known.
pub(crate) fn known(number: Option<f64>) -> Value {
    number.map_or(unknown(), Value::Number)
}

/// How the rows of a table are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sort {
    pub(crate) column: usize,
    pub(crate) reversed: bool,
}

impl Kind {
    pub(crate) const fn of<T: Table>() -> Self {
        Self {
            columns: T::COLUMNS,
            keys: |model| T::rows(model).map(|(key, _)| key).collect(),
            cells: |model, key| T::row(model, key).map(|row| T::cells(model, &row)).unwrap_or_default(),
            value: |model, key, column| {
                T::row(model, key).map_or(unknown(), |row| T::value(model, &row, column))
            },
            label: |model, key| T::row(model, key).map(|row| T::label(model, &row)).unwrap_or_default(),
        }
    }

    /// Returns the rows that pass the filter, sorted.
    pub(crate) fn rows(&self, model: &Model, sort: Sort, filter: &str) -> Vec<Key> {
        let filter = filter.to_lowercase();
        let mut keys = (self.keys)(model);
        if !filter.is_empty() {
            keys.retain(|&key| (self.label)(model, key).to_lowercase().contains(&filter));
        }
        let mut keys: Vec<(Value, Key)> =
            keys.into_iter().map(|key| ((self.value)(model, key, sort.column), key)).collect();
        // The first column is what rows are called by: it goes up.
        let down = (sort.column > 0 && self.columns[sort.column].numeric) != sort.reversed;
        keys.sort_by(|(a, a_key), (b, b_key)| {
            let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            if down { order.reverse() } else { order }.then_with(|| a_key.cmp(b_key))
        });
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Draws the title and the rows around the selected one.
    pub(crate) fn draw(
        &self,
        model: &Model,
        rows: &[Key],
        selected: usize,
        sort: Sort,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        if area.is_empty() {
            return;
        }
        let columns = fit(self.columns, area.width);
        let mut x = area.x;
        for &(at, width) in &columns {
            let column = &self.columns[at];
            let style = if at == sort.column { bold().add_modifier(Modifier::UNDERLINED) } else { dim() };
            put(buffer, x, area.y, width, Line::styled(column.title, style), column.numeric);
            x += width + 1;
        }
        let height = usize::from(area.height - 1);
        let first = first_row(rows.len(), selected, height);
        for (line, (at, &key)) in rows.iter().enumerate().skip(first).take(height).enumerate() {
            let y = area.y + 1 + line as u16;
            let cells = (self.cells)(model, key);
            let mut x = area.x;
            for &(column, width) in &columns {
                if let Some(cell) = cells.get(column) {
                    put(buffer, x, y, width, cell.clone(), self.columns[column].numeric);
                }
                x += width + 1;
            }
            if at == selected {
                let row = Rect::new(area.x, y, area.width, 1);
                buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
            }
        }
    }

    /// Returns the table as text, all columns as wide as they have to be.
    pub(crate) fn to_text(&self, model: &Model, sort: Sort) -> String {
        let rows = self.rows(model, sort, "");
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|&key| (self.cells)(model, key).iter().map(ToString::to_string).collect())
            .collect();
        let width = |at: usize| {
            let cells = cells.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            cells.chain([self.columns[at].title.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let titles: Vec<String> = self.columns.iter().map(|it| it.title.to_owned()).collect();
        let mut all = String::new();
        for row in std::iter::once(&titles).chain(&cells) {
            let mut line = String::new();
            for ((cell, &width), column) in row.iter().zip(&widths).zip(self.columns) {
                let _ = if column.numeric {
                    write!(line, "{cell:>width$}  ")
                } else {
                    write!(line, "{cell:<width$}  ")
                };
            }
            all.push_str(line.trim_end());
            all.push('\n');
        }
        all
    }
}

/// Returns which row is the first to be drawn, so that the selected one is in the middle if it can be.
fn first_row(rows: usize, selected: usize, height: usize) -> usize {
    selected.saturating_sub(height / 2).min(rows.saturating_sub(height))
}

/// Returns the columns for which there is room, with their widths. The first one is always there.
fn fit(columns: &[Column], room: u16) -> Vec<(usize, u16)> {
    let mut ranked: Vec<usize> = (0..columns.len()).collect();
    ranked.sort_by_key(|&at| (columns[at].rank, at));
    let (mut left, mut chosen) = (room, Vec::new());
    for at in ranked {
        let need = columns[at].width + u16::from(!chosen.is_empty());
        if need > left && !chosen.is_empty() {
            break;
        }
        left = left.saturating_sub(need);
        chosen.push(at);
    }
    chosen.sort_unstable();
    let growing = chosen.iter().filter(|&&at| columns[at].grows).count() as u16;
    let more = left.checked_div(growing).unwrap_or(0).min(40);
    let wide = |at: usize| columns[at].width + if columns[at].grows { more } else { 0 };
    chosen.into_iter().map(|at| (at, wide(at).min(room))).collect()
}

/// Writes a cell, cut where its column ends.
fn put(buffer: &mut Buffer, x: u16, y: u16, width: u16, cell: Line<'static>, right: bool) {
    let length = cell.width().min(usize::from(width)) as u16;
    let x = if right { x + (width - length) } else { x };
    buffer.set_line(x, y, &cell, width.min(buffer.area.right().saturating_sub(x)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] =
        &[number("id", 4, 0), wide("name", 8, 1), text("state", 6, 2), number("n", 3, 1)];

    #[test]
    fn columns_of_the_highest_rank_go_first() {
        assert_eq!(fit(COLUMNS, 2), [(0, 2)]);
        assert_eq!(fit(COLUMNS, 13), [(0, 4), (1, 8)]);
        assert_eq!(fit(COLUMNS, 17), [(0, 4), (1, 8), (3, 3)]);
        assert_eq!(fit(COLUMNS, 30), [(0, 4), (1, 14), (2, 6), (3, 3)]);
        assert_eq!(fit(COLUMNS, 500), [(0, 4), (1, 48), (2, 6), (3, 3)]);
    }

    #[test]
    fn the_selected_row_is_in_sight() {
        assert_eq!(first_row(5, 4, 10), 0);
        assert_eq!(first_row(100, 0, 10), 0);
        assert_eq!(first_row(100, 50, 10), 45);
        assert_eq!(first_row(100, 99, 10), 90);
        assert_eq!(first_row(100, 99, 0), 99);
    }
}
