//! The view of locks for which threads have waited.

use ratatui::text::Line;
use selvedge::thread::WaitReason;
use selvedge::threadmon::LockView;

use crate::model::{Model, clean};
use crate::show::{duration, or_dash, rate};
use crate::table::{Column, Key, Kind, Table, Value, known, number, text, wide};

/// The table.
pub(crate) enum Locks {}

pub(crate) const KIND: Kind = Kind::of::<Locks>();

impl Table for Locks {
    type Row<'a> = &'a LockView;

    const COLUMNS: &'static [Column] = &[
        text("address", 14, 3),
        wide("name", 10, 0),
        text("kind", 9, 1),
        number("contd/s", 7, 0),
        number("contended", 9, 2),
        number("slept", 6, 4),
        number("waited", 8, 1),
        number("longest", 8, 2),
        number("waiting", 7, 2),
        wide("owner", 10, 1),
    ];

    fn rows(model: &Model) -> impl Iterator<Item = (Key, Self::Row<'_>)> {
        model.locks.iter().map(|(&at, lock)| (Key::Lock(at), lock))
    }

    fn row(model: &Model, key: Key) -> Option<Self::Row<'_>> {
        match key {
            Key::Lock(at) => model.locks.get(&at),
            _ => None,
        }
    }

    fn cells(model: &Model, lock: &Self::Row<'_>) -> Vec<Line<'static>> {
        vec![
            Line::from(format!("{:#x}", lock.at)),
            Line::from(lock.name.as_deref().map(clean).unwrap_or_default()),
            Line::from(lock.kind.map(WaitReason::as_str).unwrap_or_default()),
            Line::from(or_dash(model.contention.get(&lock.at).map(|&it| rate(it)))),
            Line::from(rate(lock.contended as f64)),
            Line::from(rate(lock.slept as f64)),
            Line::from(duration(lock.waited)),
            Line::from(duration(lock.longest)),
            Line::from(waiting(model, lock).to_string()),
            Line::from(owner(model, lock)),
        ]
    }

    fn value(model: &Model, lock: &Self::Row<'_>, column: usize) -> Value {
        match column {
            0 => Value::Number(lock.at as f64),
            1 => Value::Text(lock.name.clone().unwrap_or_default()),
            2 => Value::Text(lock.kind.map(WaitReason::as_str).unwrap_or_default().into()),
            3 => known(model.contention.get(&lock.at).copied()),
            4 => Value::Number(lock.contended as f64),
            5 => Value::Number(lock.slept as f64),
            6 => Value::Number(lock.waited.as_secs_f64()),
            7 => Value::Number(lock.longest.as_secs_f64()),
            8 => Value::Number(waiting(model, lock) as f64),
            _ => Value::Text(owner(model, lock)),
        }
    }

    fn label(model: &Model, lock: &Self::Row<'_>) -> String {
        let kind = lock.kind.map(WaitReason::as_str).unwrap_or_default();
        format!("{:#x} {} {kind} {}", lock.at, lock.name.as_deref().unwrap_or_default(), owner(model, lock))
    }
}

fn owner(model: &Model, lock: &LockView) -> String {
    let owner = lock.owner.as_ref();
    let name = owner.map(|(id, name)| name.as_deref().map_or_else(|| model.name(*id), clean));
    name.unwrap_or_default()
}

/// Returns how many threads wait for the lock now, as far as is known.
fn waiting(model: &Model, lock: &LockView) -> usize {
    model.waiting.get(&lock.at).copied().unwrap_or(0)
}
