//! The report, as Markdown.

use std::fmt::Write as _;

use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::findings::{Findings, Seen, Summary};
use crate::machine::Machine;
use crate::numbers::short;
use crate::plot::style::label;
use crate::support::harness::Failure;
use crate::{front, overview, words};

/// The status of a program that a Ctrl-C has ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// All that there is to report.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Experiments in their order.
    pub(crate) parts: Vec<Part>,
    /// What was to be measured.
    pub(crate) size: &'static str,
    pub(crate) minutes: f64,
    pub(crate) load_at_end: String,
    /// Samples that were taken, and that were to be; if it was stopped.
    pub(crate) interrupted: Option<(usize, usize)>,
    /// Checks that did not hold: empty if all is well.
    pub(crate) complaints: Vec<String>,
    /// Ours that were given up at some points, which is no fault as long as they end at others.
    pub(crate) late: Vec<String>,
}

/// An experiment: what it shows, and what was found.
pub(crate) struct Part {
    pub(crate) paper: Paper,
    pub(crate) name: &'static str,
    pub(crate) exhibits: Vec<Exhibit>,
    pub(crate) findings: Findings,
    /// That it took.
    pub(crate) seconds: f64,
    /// The exhibits that have a figure, by their number.
    pub(crate) drawn: Vec<bool>,
}

impl Report {
    /// The exit status of a program that has this to report: 2 if a check failed, 130 (as a shell would
    /// say it) if a Ctrl-C ended it.
    pub(crate) fn status(&self) -> u8 {
        match (self.complaints.is_empty(), self.interrupted) {
            (false, _) => 2,
            (true, Some(_)) => INTERRUPTED,
            (true, None) => 0,
        }
    }

    /// The whole of it.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("# Do five papers about threads still hold?\n\n");
        self.warnings(&mut text);
        front::write(&mut text, self);
        text.push_str("## How it was measured\n\n");
        self.method(&mut text);
        overview::write(&mut text, self);
        let mut paper = None;
        for part in &self.parts {
            if paper != Some(part.paper) {
                paper = Some(part.paper);
                let (tag, heading, about) = (part.paper.tag(), part.paper.heading(), part.paper.about());
                let _ = write!(text, "## {tag} {heading}\n\n");
                if part.paper != Paper::Beyond {
                    let _ = write!(text, "*{}*. {}. ", part.paper.title(), part.paper.source());
                }
                let _ = write!(text, "{about}\n\n");
            }
            for (number, exhibit) in part.exhibits.iter().enumerate() {
                show(&mut text, part, exhibit, part.drawn[number]);
            }
        }
        text
    }

    /// What a reader must know before all else.
    fn warnings(&self, text: &mut String) {
        if let Some((taken, all)) = self.interrupted {
            let _ = write!(
                text,
                "> **This run was interrupted** after {taken} of {all} samples. What follows is what had \
                 been measured by then.\n\n"
            );
        }
        for complaint in &self.complaints {
            let _ = write!(text, "> **A check failed:** {complaint}\n\n");
        }
        for late in &self.late {
            let _ = write!(text, "> **Not in time:** {late}. No result was wrong.\n\n");
        }
    }

    /// The machine, and what the verdicts mean.
    fn method(&self, text: &mut String) {
        let _ = write!(text, "| | |\n|---|---|\n");
        for (name, value) in self.machine.lines() {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        let _ = writeln!(text, "| load average at the end | {} |", self.load_at_end);
        let _ = write!(text, "| length | {}, {:.1} minutes |\n\n", self.size, self.minutes);
        let _ = write!(
            text,
            "Selvedge has both models behind one interface. Beside it stand kernel threads (`std`, \
             `parking_lot`'s locks, and `pthread` called as from C), coroutines (`may`), and asynchronous \
             tasks (`tokio`).\n\nEvery sample is taken in a process of its own. In each round the contenders \
             take turns, beginning with another one each time. A figure is the median of the rounds, with \
             the least and the most in parentheses.\n\nVerdicts are computed: the two figures that a claim \
             compares are divided round by round. A conclusion *still holds* if the ratio lies on its side \
             of the border (or between its two) in every round. It *no longer holds* if the ratio lies on \
             the other side in every round. Otherwise it *cannot be told*. Fewer than five rounds must keep \
             a tenth away from the border, so they cannot show two figures to be the same within 5 %; fewer \
             than three tell nothing. The borders are ours: the papers seldom say how much is, for example, \
             several times. A verdict is about this machine: {cpus} CPUs.\n\n",
            cpus = self.machine.cpus
        );
        // What we start ourselves adds to it by the end.
        if self.machine.load.parse().is_ok_and(|load: f64| load > self.machine.cpus as f64 / 2.0) {
            text.push_str(
                "Other programs kept the machine busy when this began, so expect wide spreads and few \
                 certain verdicts.\n\n",
            );
        }
    }
}

fn show(text: &mut String, part: &Part, exhibit: &Exhibit, drawn: bool) {
    let Exhibit { id, title, claim, here, .. } = exhibit;
    let what = if part.paper == Paper::Beyond { "The point" } else { "The claim" };
    let _ = write!(text, "<a id=\"{id}\"></a>\n\n### {title}\n\n**{what}.** {claim}\n\n");
    then(text, &exhibit.then);
    let _ = write!(text, "**Here.** {here} ");
    let (rounds, wanted) = (part.findings.complete_rounds(), part.findings.rounds);
    if part.findings.taken() == 0 {
        text.push_str("It was not reached.\n\n");
        return;
    }
    let _ = match rounds == wanted {
        true => write!(text, "{rounds} round{}; ", if rounds == 1 { "" } else { "s" }),
        false => write!(text, "{rounds} of {wanted} rounds are complete; "),
    };
    match exhibit.chart {
        Chart::Rounds { .. } => text.push_str("the figures are those above:\n\n"),
        _ => {
            let _ = write!(text, "{}:\n\n", exhibit.quantity);
            table(text, exhibit, &part.findings);
        }
    }
    failures(text, exhibit, &part.findings);
    said(text, exhibit, &part.findings);
    if drawn {
        let _ = write!(text, "![{title}]({id}.svg)\n\n");
    }
    if let Chart::Strips { first, last } = exhibit.chart {
        strips(text, &part.findings.seen_at(first, last));
    }
    for claim in &exhibit.claims {
        let _ = write!(text, "{}\n\n", words::sentence(claim, &part.findings));
    }
}

/// What the threads did, as text.
fn strips(text: &mut String, all: &[&Seen]) {
    if all.is_empty() {
        return;
    }
    text.push_str(
        "A line for each thread, a mark for each moment: a digit is the LWP that it is on, `d` is \
         dispatchable, `q` is in the run queue, and a dot is blocked.\n\n",
    );
    for Seen { contender, strip, .. } in all {
        let _ = write!(text, "{}, {} a mark:\n\n```text\n", label(contender), strip.scale());
        strip.threads.iter().for_each(|line| *text += &format!("{}\n", line.trim_end()));
        text.push_str("```\n\n");
    }
}

fn then(text: &mut String, then: &Then) {
    match then {
        Then::Words(words) => {
            let _ = write!(text, "**Then.** {words}\n\n");
        }
        Then::Table(heading, lines) => {
            let _ =
                write!(text, "**Then:**\n\n| {} |\n|{}\n", heading.join(" | "), "---|".repeat(heading.len()));
            for line in *lines {
                let _ = writeln!(text, "| {} |", line.join(" | "));
            }
            text.push('\n');
        }
    }
}

/// Contenders above each other, columns beside each other; or the other way round where there are many
/// columns.
fn table(text: &mut String, exhibit: &Exhibit, findings: &Findings) {
    let shows = |who: &str| exhibit.columns.iter().any(|column| column.shows(findings, who));
    let here: Vec<_> = findings.contenders.iter().filter(|who| shows(who.name)).collect();
    let name = |number: usize| {
        let who = here[number];
        if who.ours { format!("**{}**", label(who.name)) } else { label(who.name) }
    };
    let columns = &exhibit.columns;
    let heading = |column: &Column| column.label.replace('\n', " ");
    let cell = |contender: usize, column: usize| figure(findings, here[contender].name, &columns[column]);
    let asked = |contender: usize, column: usize| columns[column].shows(findings, here[contender].name);
    let pairs =
        || (0..columns.len()).flat_map(|column| (0..here.len()).map(move |contender| (contender, column)));
    let taking_part: Vec<_> = pairs().filter(|&(contender, column)| asked(contender, column)).collect();
    if 2 * taking_part.len() < pairs().count() {
        // Mostly holes: a line for each figure.
        let _ = write!(text, "| {} | | |\n|---|---|---:|\n", exhibit.over);
        for (contender, column) in taking_part {
            let heading = heading(&columns[column]);
            let _ = writeln!(text, "| {heading} | {} | {} |", name(contender), cell(contender, column));
        }
    } else if columns.len() <= here.len() {
        let headings: Vec<_> = columns.iter().map(heading).collect();
        let _ = write!(text, "| | {} |\n|---|{}\n", headings.join(" | "), "---:|".repeat(columns.len()));
        for contender in 0..here.len() {
            let cells: Vec<_> = (0..columns.len()).map(|column| cell(contender, column)).collect();
            let _ = writeln!(text, "| {} | {} |", name(contender), cells.join(" | "));
        }
    } else {
        let names: Vec<_> = (0..here.len()).map(name).collect();
        let over = exhibit.over;
        let _ = write!(text, "| {over} | {} |\n|---:|{}\n", names.join(" | "), "---:|".repeat(here.len()));
        for (number, column) in columns.iter().enumerate() {
            let cells: Vec<_> = (0..here.len()).map(|contender| cell(contender, number)).collect();
            let _ = writeln!(text, "| {} | {} |", heading(column), cells.join(" | "));
        }
    }
    text.push('\n');
}

/// The median with least and most; or why there is none.
fn figure(findings: &Findings, contender: &str, column: &Column) -> String {
    if !column.shows(findings, contender) {
        return String::new();
    }
    let figures = column.figures(findings, contender);
    match Summary::of(&figures) {
        Some(all) if figures.len() == 1 => short(all.median),
        Some(Summary { median, least, most }) => {
            format!("{} ({}–{})", short(median), short(least), short(most))
        }
        None => match findings.failure(contender, &column.points) {
            Some(Failure::Late) => "not in time".to_owned(),
            Some(_) => "failed".to_owned(),
            None => "–".to_owned(),
        },
    }
}

/// What the contenders said in the first round.
fn said(text: &mut String, exhibit: &Exhibit, findings: &Findings) {
    let shown = |point| exhibit.columns.iter().any(|column| column.points.contains(&point));
    let here: Vec<_> = findings.said.iter().filter(|said| shown(said.point)).collect();
    for said in &here {
        let _ = writeln!(text, "- {}: {}", label(said.contender), said.words);
    }
    if !here.is_empty() {
        text.push('\n');
    }
}

/// The contenders that have failed, and why.
fn failures(text: &mut String, exhibit: &Exhibit, findings: &Findings) {
    for who in &findings.contenders {
        for column in &exhibit.columns {
            for &point in &column.points {
                if let Some(reason) = findings.failure(who.name, &[point]) {
                    let (name, column) = (label(who.name), column.label.replace('\n', " "));
                    let what = if *reason == Failure::Late { "was given up" } else { "failed" };
                    let _ = write!(text, "{name} {what} at \"{column}\": {reason}\n\n");
                }
            }
        }
    }
}
