//! The report, as Markdown.

use std::fmt::Write as _;

use crate::exhibit::{Column, Exhibit, Paper, Then};
use crate::findings::{Findings, Summary};
use crate::machine::Machine;
use crate::numbers::short;
use crate::plot::style::label;
use crate::verdict::{self, Answer, Whose};

/// All that there is to report.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Experiments in their order.
    pub(crate) parts: Vec<Part>,
    /// What was to be measured.
    pub(crate) size: &'static str,
    pub(crate) minutes: f64,
    pub(crate) load_at_end: String,
    /// Samples that were taken, and that were to be; if somebody stopped it.
    pub(crate) interrupted: Option<(usize, usize)>,
    /// Checks that did not hold: empty if all is well.
    pub(crate) complaints: Vec<String>,
}

/// An experiment: what it shows, and what was found.
pub(crate) struct Part {
    pub(crate) paper: Paper,
    pub(crate) name: &'static str,
    pub(crate) exhibits: Vec<Exhibit>,
    pub(crate) findings: Findings,
    /// The exhibits that have a figure, by their number.
    pub(crate) drawn: Vec<bool>,
}

impl Report {
    /// The whole of it.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("# The papers, again\n\n");
        self.preface(&mut text);
        self.overview(&mut text);
        let mut paper = None;
        for part in &self.parts {
            if paper != Some(part.paper) {
                paper = Some(part.paper);
                let (tag, heading, about) = (part.paper.tag(), part.paper.heading(), part.paper.about());
                let _ = write!(text, "## {tag} {heading}\n\n{about}\n\n");
            }
            for (number, exhibit) in part.exhibits.iter().enumerate() {
                show(&mut text, part, exhibit, part.drawn[number]);
            }
        }
        text
    }

    fn preface(&self, text: &mut String) {
        if let Some((taken, all)) = self.interrupted {
            let _ = write!(
                text,
                "> **This run was interrupted** after {taken} of {all} samples. What follows is what had been measured by then.\n\n"
            );
        }
        for complaint in &self.complaints {
            let _ = write!(text, "> **A check failed:** {complaint}\n\n");
        }
        let _ = write!(text, "| | |\n|---|---|\n");
        for (name, value) in self.machine.lines() {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        let _ = write!(text, "| load average at the end | {} |\n", self.load_at_end);
        let _ = write!(text, "| length | {}, {:.1} minutes |\n\n", self.size, self.minutes);
        let _ = write!(
            text,
            "Between 1996 and 2003 five papers argued about how threads should be mapped to kernel threads: many to a few (M:N), or each \
             to its own (1:1). This report repeats their measurements. Selvedge has both models behind one interface; beside it \
             stand kernel threads (`std`, `parking_lot`'s locks, and `pthread` called as from C), coroutines (`may`), and asynchronous tasks \
             (`tokio`).\n\n\
             Every sample is taken in a process of its own, and in each round everybody has one turn after the other. A figure is the median \
             of the rounds, with the least and the most in parentheses. Verdicts are computed: the two figures that a claim compares are \
             divided round by round. A claim *holds* if the ratio lies on its side of the border in every round, it *does not hold* if it lies on \
             the other side in every round, and else it *cannot be told*; fewer than five rounds must keep a tenth away from the border. \
             A verdict is about this machine: {cpus} CPUs.\n\n",
            cpus = self.machine.cpus
        );
    }

    /// One line for each claim.
    fn overview(&self, text: &mut String) {
        let _ = write!(text, "## In short\n\n| | claim | Selvedge | others |\n|---|---|---|---|\n");
        for part in &self.parts {
            for exhibit in &part.exhibits {
                for claim in &exhibit.claims {
                    let verdicts = claim.judge(&part.findings);
                    let answers = |ours: bool| {
                        let of = verdicts.iter().filter(|verdict| verdict.check.ours == ours);
                        tally(&of.map(|verdict| verdict.answer).collect::<Vec<_>>())
                    };
                    let (tag, id) = (part.paper.tag(), exhibit.id);
                    let whose = if claim.whose == Whose::Ours { "our aim: " } else { "" };
                    let _ = writeln!(
                        text,
                        "| [{tag}](#{id}) | {whose}{} | {} | {} |",
                        claim.words,
                        answers(true),
                        answers(false)
                    );
                }
            }
        }
        text.push('\n');
    }
}

/// What several have answered, as few words.
pub(crate) fn tally(answers: &[Answer]) -> String {
    match (answers.len(), verdict::group(answers.iter().copied())) {
        (0, _) => "–".to_owned(),
        (_, Some(answer)) => answer.to_string(),
        (..) => {
            let count = |of: Answer| answers.iter().filter(|&&answer| answer == of).count();
            let each = [Answer::Holds, Answer::Fails, Answer::Open].map(|of| (count(of), of));
            let said = each.iter().filter(|(count, _)| *count > 0);
            said.map(|(count, answer)| format!("{count} {answer}")).collect::<Vec<_>>().join(", ")
        }
    }
}

fn show(text: &mut String, part: &Part, exhibit: &Exhibit, drawn: bool) {
    let Exhibit { id, title, claim, here, .. } = exhibit;
    let _ = write!(text, "<a id=\"{id}\"></a>\n\n### {title}\n\n**The claim.** {claim}\n\n");
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
    let _ = write!(text, "{}:\n\n", exhibit.quantity);
    table(text, exhibit, &part.findings);
    failures(text, exhibit, &part.findings);
    if drawn {
        let _ = write!(text, "![{title}]({id}.svg)\n\n");
    }
    for claim in &exhibit.claims {
        let _ = write!(text, "**Verdict.** {}\n\n", verdict::sentence(claim, &part.findings));
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

/// Contenders above each other, columns beside each other; or the other way round where there are many columns.
fn table(text: &mut String, exhibit: &Exhibit, findings: &Findings) {
    let points: Vec<usize> = exhibit.columns.iter().flat_map(|column| column.points.clone()).collect();
    let here: Vec<_> = findings.contenders.iter().filter(|who| findings.asked(who.name, &points)).collect();
    let name = |number: usize| {
        let who = here[number];
        if who.ours { format!("**{}**", label(who.name)) } else { label(who.name) }
    };
    let columns = &exhibit.columns;
    let heading = |column: &Column| column.label.replace('\n', " ");
    let cell = |contender: usize, column: usize| figure(findings, here[contender].name, &columns[column]);
    if columns.len() <= here.len() {
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
    if !findings.asked(contender, &column.points) {
        return String::new();
    }
    let figures = findings.figures(contender, &column.points);
    match Summary::of(&figures) {
        Some(all) if figures.len() == 1 => short(all.median),
        Some(Summary { median, least, most }) => {
            format!("{} ({}–{})", short(median), short(least), short(most))
        }
        None if findings.failure(contender, &column.points).is_some() => "failed".to_owned(),
        None => "–".to_owned(),
    }
}

/// Who has failed, and why.
fn failures(text: &mut String, exhibit: &Exhibit, findings: &Findings) {
    for who in &findings.contenders {
        for column in &exhibit.columns {
            for &point in &column.points {
                if let Some(reason) = findings.failure(who.name, &[point]) {
                    let (name, column) = (label(who.name), column.label.replace('\n', " "));
                    let _ = write!(text, "{name} failed at \"{column}\": {reason}\n\n");
                }
            }
        }
    }
}
