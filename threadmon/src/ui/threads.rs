//! The view of threads.

use ratatui::text::Line;

use selvedge::trace::State;

use crate::model::{Model, Row, clean};
use crate::show::{bar, or_dash, rate, state_style, waits_for};
use crate::table::{Column, Key, Kind, Table, Value, known, number, text, wide};

const BAR: u16 = 10;

/// The table.
pub(crate) enum Threads {}

pub(crate) const KIND: Kind = Kind::of::<Threads>();

impl Table for Threads {
    type Row<'a> = &'a Row;

    const COLUMNS: &'static [Column] = &[
        number("id", 6, 0),
        wide("name", 11, 0),
        text("state", 12, 1),
        wide("waits for", 18, 2),
        number("LWP", 3, 2),
        number("CPU", 3, 3),
        text("shares", BAR, 2),
        number("disp/s", 6, 2),
        number("on LWP", 6, 4),
        number("preempt", 7, 5),
        number("migr", 5, 5),
    ];

    fn rows(model: &Model) -> impl Iterator<Item = (Key, Self::Row<'_>)> {
        model.threads.iter().map(|(&id, row)| (Key::Thread(id), row))
    }

    fn row(model: &Model, key: Key) -> Option<Self::Row<'_>> {
        match key {
            Key::Thread(id) => model.threads.get(&id),
            _ => None,
        }
    }

    fn cells(model: &Model, row: &Self::Row<'_>) -> Vec<Line<'static>> {
        let view = &row.view;
        let times = view.times.as_ref();
        let count = |it: Option<u64>| Line::from(or_dash(it.map(|it| rate(it as f64))));
        vec![
            Line::from(view.id.to_string()),
            Line::from(name(row)),
            Line::styled(view.state.to_string(), state_style(view.state)),
            Line::from(waits(model, row)),
            Line::from(or_dash(view.lwp.map(|it| it.to_string()))),
            Line::from(or_dash(row.cpu().map(|it| it.to_string()))),
            bar(row.shares, usize::from(BAR)),
            Line::from(or_dash(row.dispatches.map(rate))),
            Line::from(or_dash(row.shares.map(|it| crate::show::percent(it[0])))),
            count(times.map(|it| it.preempted.into())),
            count(times.map(|it| it.migrations)),
        ]
    }

    fn value(model: &Model, row: &Self::Row<'_>, column: usize) -> Value {
        let view = &row.view;
        let times = view.times.as_ref();
        match column {
            0 => Value::Number(view.id as f64),
            1 => Value::Text(name(row)),
            2 => Value::Number(crate::model::index(view.state) as f64),
            3 => Value::Text(waits(model, row)),
            4 => known(view.lwp.map(|it| it as f64)),
            5 => known(row.cpu().map(f64::from)),
            6 | 8 => known(row.shares.map(|it| it[0])),
            7 => known(row.dispatches),
            9 => known(times.map(|it| f64::from(it.preempted))),
            _ => known(times.map(|it| it.migrations as f64)),
        }
    }

    fn label(model: &Model, row: &Self::Row<'_>) -> String {
        format!("{} {} {} {}", row.view.id, name(row), row.view.state, waits(model, row))
    }
}

/// Returns what it waits for: in the kernel, the system call.
fn waits(model: &Model, row: &Row) -> String {
    let call = row.view.tid.filter(|_| row.view.state == State::InKernel).and_then(|tid| model.call(tid));
    call.map_or_else(|| waits_for(&row.view), str::to_owned)
}

fn name(row: &Row) -> String {
    let name = row.view.name.as_deref().map(clean).unwrap_or_default();
    if row.view.bound { format!("{name} [bound]").trim_start().to_owned() } else { name }
}
