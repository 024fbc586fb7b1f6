//! The mapping, drawn. Threads are under the LWP and the CPU on which they stand, and those that could run
//! are beside them. Those that wait are below, by what they wait for.

use std::collections::BTreeMap;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use selvedge::LwpState;
use selvedge::threadmon::RuntimeView;
use selvedge::trace::State;

use crate::model::{Model, Row, lwp_state};
use crate::show::{bold, dim, object, percent, state_style};

/// The width of an LWP's column, with the space after it.
const COLUMN: usize = 18;

/// The most lines of a run queue.
const QUEUE: usize = 12;

/// The most groups of threads that wait.
const GROUPS: usize = 40;

/// Returns the picture, as wide as it may be.
pub(crate) fn lines(model: &Model, width: usize) -> Vec<Line<'static>> {
    let mut all = Vec::new();
    let many = model.runtimes().len() > 1;
    for runtime in model.runtimes() {
        if many {
            all.push(Line::styled(format!("{} {}", runtime.model, runtime.number), bold()));
        }
        draw(model, runtime, width, &mut all);
    }
    if all.is_empty() {
        all.push(Line::styled("no runtime yet", dim()));
    }
    all
}

fn draw(model: &Model, runtime: &RuntimeView, width: usize, all: &mut Vec<Line<'static>>) {
    let mut rows: Vec<&Row> = model.threads.values().filter(|row| row.runtime == runtime.number).collect();
    rows.sort_by_key(|row| row.view.id);
    let mut columns = lwp_columns(model, runtime, &rows);
    let queue: Vec<String> =
        rows.iter().filter(|it| it.view.state == State::Runnable).map(|it| model.name(it.view.id)).collect();
    if runtime.model == "mxn" || !queue.is_empty() {
        columns.push(queue_column(&queue));
    }
    let across = (width / COLUMN).max(1);
    for group in columns.chunks(across) {
        let height = group.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut spans = Vec::new();
            for column in group {
                let (text, style) = column.get(line).cloned().unwrap_or_default();
                let text: String = text.chars().take(COLUMN - 2).collect();
                spans.push(Span::styled(format!("{text:<COLUMN$}"), style));
            }
            all.push(Line::from(spans));
        }
        all.push(Line::default());
    }
    all.extend(waiting(model, &rows, width));
}

type Column = Vec<(String, Style)>;

/// Returns a column for each LWP that has a thread or could take one, and one for all others.
fn lwp_columns(model: &Model, runtime: &RuntimeView, rows: &[&Row]) -> Vec<Column> {
    let mut columns = Vec::new();
    let mut spare = 0;
    for lwp in model.carriers().filter(|it| it.runtime.number == runtime.number) {
        if lwp.state == LwpState::Spare {
            spare += 1;
            continue;
        }
        if lwp.number.is_none() && lwp.state == LwpState::Idle {
            // Its thread stands below, with what it waits for.
            continue;
        }
        let cpu = lwp.cpu.map_or("CPU ?".into(), |cpu| format!("CPU {cpu}"));
        let ran = lwp.rates.ran.map(|it| format!(" {}", percent(it))).unwrap_or_default();
        let mut column = vec![
            (format!("{cpu}{ran}"), bold()),
            (
                lwp.number.map_or("own".into(), |it| format!("LWP {it}")) + " " + lwp_state(lwp.state),
                Style::new(),
            ),
            ("─".repeat(COLUMN - 2), dim()),
        ];
        if let Some(id) = lwp.thread {
            let in_kernel = matches!(lwp.state, LwpState::Blocking | LwpState::InKernel);
            let state = if in_kernel { State::InKernel } else { State::Running };
            column.push((model.name(id), state_style(state)));
        }
        let is_chosen = |row: &&&Row| {
            row.view.state == State::Dispatchable && row.view.lwp.is_some() && row.view.lwp == lwp.number
        };
        let chosen = rows.iter().filter(is_chosen);
        let style = state_style(State::Dispatchable);
        column.extend(chosen.map(|row| (format!("> {}", model.name(row.view.id)), style)));
        columns.push(column);
    }
    if spare > 0 {
        let text = if spare == 1 { "1 spare LWP".to_owned() } else { format!("{spare} spare LWPs") };
        columns.push(vec![(text, dim())]);
    }
    columns
}

fn queue_column(queue: &[String]) -> Column {
    let style = state_style(State::Runnable);
    let mut column = vec![
        ("run queue".to_owned(), bold()),
        (queue.len().to_string(), style),
        ("─".repeat(COLUMN - 2), dim()),
    ];
    column.extend(queue.iter().take(QUEUE).map(|name| (name.clone(), style)));
    if queue.len() > QUEUE {
        column.push((format!("... {} more", queue.len() - QUEUE), dim()));
    }
    column
}

/// Returns the threads that wait, a line for each thing for which they wait, the most first.
fn waiting(model: &Model, rows: &[&Row], width: usize) -> Vec<Line<'static>> {
    let mut groups: BTreeMap<(State, String), Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|it| matches!(it.view.state, State::Blocked | State::Sleeping)) {
        groups.entry((row.view.state, object(&row.view))).or_default().push(row);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    let more = groups.len().saturating_sub(GROUPS);
    let mut all = Vec::new();
    for ((state, what), rows) in groups.into_iter().take(GROUPS) {
        let owner = rows.iter().find_map(|row| row.view.owner.as_ref());
        let holds = rows[0].view.reason.is_some_and(crate::show::is_lock);
        let owner = owner.filter(|_| holds).map(|(id, _)| format!(", held by {}", model.name(*id)));
        let head = format!("{what} ({}{}): ", rows.len(), owner.unwrap_or_default());
        let room = width.saturating_sub(head.chars().count());
        all.push(Line::from(vec![
            Span::styled(head, state_style(state)),
            Span::raw(names(model, &rows, room)),
        ]));
    }
    if more > 0 {
        all.push(Line::styled(format!("... and {more} more that are waited for"), dim()));
    }
    all
}

/// Returns as many names as there is room for.
fn names(model: &Model, rows: &[&Row], room: usize) -> String {
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let name = model.name(row.view.id);
        let rest = rows.len() - at;
        if at > 0 && text.chars().count() + name.chars().count() + 14 > room {
            text.push_str(&format!("... {rest} more"));
            break;
        }
        text.push_str(&name);
        text.push(' ');
    }
    text
}
