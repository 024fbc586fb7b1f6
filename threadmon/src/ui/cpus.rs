//! The view of CPUs.

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use selvedge::LwpState;

use crate::model::{Carrier, CpuRow, Model};
use crate::show::percent;
use crate::table::{Column, Key, Kind, Table, Value, number, text, wide};

const BAR: u16 = 20;

/// The table.
pub(crate) enum Cpus {}

pub(crate) const KIND: Kind = Kind::of::<Cpus>();

impl Table for Cpus {
    type Row<'a> = &'a CpuRow;

    const COLUMNS: &'static [Column] = &[
        number("CPU", 4, 0),
        number("ours", 5, 0),
        number("others", 6, 0),
        number("idle", 5, 1),
        text("", BAR, 3),
        text("LWP", 8, 1),
        wide("thread", 12, 2),
    ];

    fn rows(model: &Model) -> impl Iterator<Item = (Key, Self::Row<'_>)> {
        model.cpus.iter().map(|cpu| (Key::Cpu(cpu.number), cpu))
    }

    fn cells(model: &Model, cpu: &Self::Row<'_>) -> Vec<Line<'static>> {
        let (lwps, threads) = on_it(model, cpu.number);
        vec![
            Line::from(cpu.number.to_string()),
            Line::from(percent(cpu.ours)),
            Line::from(percent(cpu.others)),
            Line::from(percent(cpu.idle)),
            bar(cpu),
            Line::from(lwps),
            Line::from(threads),
        ]
    }

    fn value(model: &Model, cpu: &Self::Row<'_>, column: usize) -> Value {
        match column {
            0 => Value::Number(f64::from(cpu.number)),
            2 => Value::Number(cpu.others),
            3 => Value::Number(cpu.idle),
            5 => Value::Text(on_it(model, cpu.number).0),
            6 => Value::Text(on_it(model, cpu.number).1),
            _ => Value::Number(cpu.ours),
        }
    }

    fn label(model: &Model, cpu: &Self::Row<'_>) -> String {
        let (lwps, threads) = on_it(model, cpu.number);
        format!("{} {lwps} {threads}", cpu.number)
    }
}

/// Returns the LWPs that are on this CPU, or were last, those with threads first: their numbers and threads.
fn on_it(model: &Model, cpu: u32) -> (String, String) {
    // A kernel thread whose owner waits is on no CPU.
    let is_there =
        |it: &Carrier<'_>| it.cpu == Some(cpu) && (it.number.is_some() || it.state != LwpState::Idle);
    let mut all: Vec<_> = model.carriers().filter(is_there).collect();
    all.sort_by_key(|it| (it.thread.is_none(), it.runtime.number, it.number));
    let names: Vec<String> = all.iter().filter_map(|it| Some(model.name(it.thread?))).collect();
    let number = |it: &Carrier<'_>| it.number.map_or("own".into(), |number| number.to_string());
    let mut numbers: Vec<String> = all.iter().map(number).collect();
    numbers.dedup_by(|one, other| one == "own" && other == "own");
    (numbers.join(" "), names.join(" "))
}

fn bar(cpu: &CpuRow) -> Line<'static> {
    let ours = (cpu.ours * f64::from(BAR)).round() as usize;
    let others = ((cpu.ours + cpu.others) * f64::from(BAR)).round() as usize - ours;
    let idle = usize::from(BAR).saturating_sub(ours + others);
    Line::from(vec![
        Span::styled("█".repeat(ours), Style::new().fg(Color::Green)),
        Span::styled("▒".repeat(others), Style::new().fg(Color::Yellow)),
        Span::styled("·".repeat(idle), Style::new().fg(Color::DarkGray)),
    ])
}
