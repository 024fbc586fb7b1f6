//! All verdicts in one table, and how many there are of each.

use std::fmt::{self, Write as _};

use crate::report::Report;
use crate::verdict::{Answer, Whose, group};
use crate::words::tally;

/// How many claims there are, and how many of them hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) whose: Whose,
    /// `true` if these verdicts are about Selvedge, `false` if they are about its peers.
    pub(crate) ours: bool,
    pub(crate) all: usize,
    pub(crate) hold: usize,
    pub(crate) fail: usize,
}

impl Count {
    /// Counts the claims of this source that were asked of Selvedge, or of the others.
    pub(crate) fn of(report: &Report, whose: Whose, ours: bool) -> Self {
        let mut count = Self { whose, ours, all: 0, hold: 0, fail: 0 };
        for part in &report.parts {
            let claims = part.exhibits.iter().flat_map(|exhibit| &exhibit.claims);
            for claim in claims.filter(|claim| claim.whose == whose) {
                let verdicts = claim.judge(&part.findings).into_iter();
                let answers: Vec<_> = verdicts
                    .filter(|verdict| verdict.check.ours == ours)
                    .map(|verdict| verdict.answer)
                    .collect();
                count.all += usize::from(!answers.is_empty());
                match group(answers) {
                    Some(Answer::Holds) => count.hold += 1,
                    Some(Answer::Fails) => count.fail += 1,
                    Some(Answer::Open) | None => {}
                }
            }
        }
        count
    }

    /// Those that cannot be told, or that depend on which threads are compared.
    pub(crate) fn open(&self) -> usize {
        self.all - self.hold - self.fail
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { all, hold, fail, .. } = self;
        let open = self.open();
        let name = if self.ours { "Selvedge" } else { "the other libraries" };
        match self.whose {
            Whose::Paper => write!(
                f,
                "Of the papers' {all} conclusions that were asked of {name}, {hold} still hold here, {fail} \
                 no longer hold, and {open} cannot be told or depend on which threads are compared."
            ),
            Whose::Ours => write!(
                f,
                "Of {all} aims of {name}, {hold} are reached, {fail} are missed, and {open} cannot be told."
            ),
            Whose::Question => write!(
                f,
                "Of our {all} questions to {name}, the answer is yes to {hold} and no to {fail}, and {open} \
                 cannot be told."
            ),
        }
    }
}

/// All that the report counts.
pub(crate) fn counts(report: &Report) -> [Count; 3] {
    [(Whose::Paper, true), (Whose::Paper, false), (Whose::Ours, true)]
        .map(|(whose, ours)| Count::of(report, whose, ours))
}

/// Writes the counts, and one line for each claim.
pub(crate) fn write(text: &mut String, report: &Report) {
    text.push_str("## All verdicts\n\n");
    for count in counts(report).iter().filter(|count| count.all > 0) {
        let _ = writeln!(text, "- {count}");
    }
    text.push_str("\n| | claim | Selvedge | others |\n|---|---|---|---|\n");
    for part in &report.parts {
        for exhibit in &part.exhibits {
            for claim in &exhibit.claims {
                let verdicts = claim.judge(&part.findings);
                let answers = |ours: bool| {
                    let of = verdicts.iter().filter(|verdict| verdict.check.ours == ours);
                    tally(claim.whose, &of.map(|verdict| verdict.answer).collect::<Vec<_>>())
                };
                let (tag, id) = (part.paper.tag(), exhibit.id);
                let whose = match claim.whose {
                    Whose::Paper => "",
                    Whose::Ours => "our aim: ",
                    Whose::Question => "our question: ",
                };
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
