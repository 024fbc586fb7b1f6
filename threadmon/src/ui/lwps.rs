//! The view of LWPs.

use ratatui::style::{Color, Style};
use ratatui::text::Line;
use selvedge::LwpState;

use crate::model::{Carrier, Model, lwp_state};
use crate::show::{duration, or_dash, percent, rate};
use crate::table::{Column, Key, Kind, Table, Value, known, number, text, wide};

/// The table.
pub(crate) enum Lwps {}

pub(crate) const KIND: Kind = Kind::of::<Lwps>();

impl Table for Lwps {
    type Row<'a> = Carrier<'a>;

    const COLUMNS: &'static [Column] = &[
        number("LWP", 5, 0),
        text("runtime", 10, 4),
        number("tid", 7, 3),
        text("state", 12, 0),
        text("call", 9, 3),
        wide("thread", 12, 1),
        number("CPU", 3, 1),
        number("on CPU", 6, 2),
        number("waits for CPU", 13, 3),
        number("disp/s", 6, 2),
        number("steals/s", 8, 3),
        number("for", 7, 3),
        number("queue", 5, 5),
    ];

    fn rows(model: &Model) -> impl Iterator<Item = (Key, Self::Row<'_>)> {
        model.carriers().map(|row| {
            let own = row.thread.map_or(Key::Lwp(row.runtime.number, 0), Key::Own);
            (row.number.map_or(own, |number| Key::Lwp(row.runtime.number, number)), row)
        })
    }

    fn row(model: &Model, key: Key) -> Option<Self::Row<'_>> {
        match key {
            Key::Own(id) => model.owned_by(id),
            Key::Lwp(runtime, number) => {
                model.carriers().find(|it| it.runtime.number == runtime && it.number == Some(number))
            }
            _ => None,
        }
    }

    fn cells(model: &Model, lwp: &Self::Row<'_>) -> Vec<Line<'static>> {
        let (runtime, rates) = (lwp.runtime, lwp.rates);
        vec![
            Line::from(lwp.number.map_or("own".into(), |it| it.to_string())),
            Line::from(format!("{} {}", runtime.model, runtime.number)),
            Line::from(lwp.tid.to_string()),
            Line::styled(lwp_state(lwp.state), style(lwp.state)),
            Line::from(call(model, lwp)),
            Line::from(lwp.thread.map(|id| model.name(id)).unwrap_or_default()),
            Line::from(or_dash(lwp.cpu.map(|it| it.to_string()))),
            Line::from(or_dash(rates.ran.map(percent))),
            Line::from(or_dash(rates.waited.map(percent))),
            Line::from(rate(rates.dispatches)),
            Line::from(rate(rates.steals)),
            Line::from(duration(rates.in_state)),
            Line::from(or_dash(lwp.number.map(|_| lwp.queued.to_string()))),
        ]
    }

    fn value(model: &Model, lwp: &Self::Row<'_>, column: usize) -> Value {
        let (runtime, rates) = (lwp.runtime, lwp.rates);
        match column {
            // Those that threads own come after the others of their runtime.
            0 => {
                let number = lwp.number.map_or(1e8 + lwp.thread.unwrap_or(0) as f64, |it| it as f64);
                Value::Number(number + f64::from(runtime.number) * 1e12)
            }
            1 => Value::Number(f64::from(runtime.number)),
            2 => Value::Number(f64::from(lwp.tid)),
            3 => Value::Text(lwp_state(lwp.state).into()),
            4 => Value::Text(call(model, lwp).into()),
            5 => Value::Text(lwp.thread.map(|id| model.name(id)).unwrap_or_default()),
            6 => known(lwp.cpu.map(f64::from)),
            7 => known(rates.ran),
            8 => known(rates.waited),
            9 => Value::Number(rates.dispatches),
            10 => Value::Number(rates.steals),
            11 => Value::Number(rates.in_state.as_secs_f64()),
            _ => known(lwp.number.map(|_| lwp.queued as f64)),
        }
    }

    fn label(model: &Model, row: &Self::Row<'_>) -> String {
        Self::cells(model, row).iter().map(|cell| format!("{cell} ")).collect()
    }
}

/// Returns the system call in which it waits for its thread.
fn call(model: &Model, lwp: &Carrier<'_>) -> &'static str {
    let in_kernel = matches!(lwp.state, LwpState::InKernel | LwpState::Blocking);
    in_kernel.then(|| model.call(lwp.tid)).flatten().unwrap_or_default()
}

fn style(state: LwpState) -> Style {
    Style::new().fg(match state {
        LwpState::Running => Color::Green,
        LwpState::Searching => Color::Yellow,
        LwpState::Blocking | LwpState::InKernel => Color::Magenta,
        LwpState::WithoutSlot => Color::Red,
        _ => Color::DarkGray,
    })
}
