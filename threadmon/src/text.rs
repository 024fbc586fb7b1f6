//! A snapshot as text.

use ratatui::text::Line;

use crate::model::Model;
use crate::table::{Kind, Sort};
use crate::ui::{cpus, locks, lwps, mapping, program, queues, states, threads};
use crate::warnings::warnings;

/// How wide the mapping may be.
const WIDTH: usize = 110;

pub(crate) fn report(model: &Model) -> String {
    let mut all = format!("{}\n{}\n", program(model), states(model));
    for line in queues(model) {
        all += &trimmed(&line);
    }
    for warning in warnings(model) {
        all += &format!("! {warning}\n");
    }
    let tables: [(&str, &Kind); 4] =
        [("threads", &threads::KIND), ("LWPs", &lwps::KIND), ("CPUs", &cpus::KIND), ("locks", &locks::KIND)];
    for (title, kind) in tables {
        if !(kind.keys)(model).is_empty() {
            all += &format!("\n{title}\n{}", kind.to_text(model, Sort::default()));
        }
    }
    all += "\nmapping\n";
    for line in mapping::lines(model, WIDTH) {
        all += &trimmed(&line);
    }
    all
}

fn trimmed(line: &Line<'_>) -> String {
    format!("{}\n", line.to_string().trim_end())
}
