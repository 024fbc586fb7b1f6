//! How verdicts are said, so that a reader understands each without a key.
//!
//! The answer has one meaning and three wordings, by the source of the claim. A conclusion of a paper still
//! holds or no longer does, and an aim of ours is reached or missed. A question has yes or no for an answer.

use crate::findings::{Findings, Summary};
use crate::numbers::short;
use crate::verdict::{Answer, Bound, Claim, Verdict, Whose, group};

/// Says an answer in two or three words, for a table.
pub(crate) fn brief(whose: Whose, answer: Answer) -> &'static str {
    match (whose, answer) {
        (Whose::Paper, Answer::Holds) => "still holds",
        (Whose::Paper, Answer::Fails) => "no longer holds",
        (Whose::Ours, Answer::Holds) => "reached",
        (Whose::Ours, Answer::Fails) => "missed",
        (Whose::Question, Answer::Holds) => "yes",
        (Whose::Question, Answer::Fails) => "no",
        (_, Answer::Open) => "cannot be told",
    }
}

/// Says the verdict on a conclusion of a paper.
pub(crate) fn on_the_paper(answer: Answer) -> &'static str {
    match answer {
        Answer::Holds => "The paper's conclusion still holds",
        Answer::Fails => "The paper's conclusion no longer holds",
        Answer::Open => "This run cannot tell whether the paper's conclusion still holds",
    }
}

/// Says several answers in few words.
pub(crate) fn tally(whose: Whose, answers: &[Answer]) -> String {
    match (answers.len(), group(answers.iter().copied())) {
        (0, _) => "–".to_owned(),
        (_, Some(answer)) => brief(whose, answer).to_owned(),
        (..) => {
            let count = |of: Answer| answers.iter().filter(|&&answer| answer == of).count();
            let each = [Answer::Holds, Answer::Fails, Answer::Open].map(|of| (count(of), of));
            let said = each.iter().filter(|(count, _)| *count > 0);
            said.map(|(count, answer)| format!("{count} {}", brief(whose, *answer)))
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}

/// Says the whole of a claim's verdict.
pub(crate) fn sentence(claim: &Claim, findings: &Findings) -> String {
    let verdicts = claim.judge(findings);
    let mut said = String::new();
    for ours in [true, false] {
        let of: Vec<&Verdict<'_>> = verdicts.iter().filter(|verdict| verdict.check.ours == ours).collect();
        if of.is_empty() {
            continue;
        }
        let answer = group(of.iter().map(|verdict| verdict.answer));
        if said.is_empty() {
            said = format!(
                "**{}:** *{}*. The measure is {}: {}. ",
                lead(claim.whose, ours, answer),
                claim.words,
                claim.ratio,
                claim.bound
            );
        } else {
            let answer = answer.map_or("it depends", |answer| brief(claim.whose, answer));
            said += &format!("**The others: {answer}.** ");
        }
        let each = of.iter().map(|verdict| match answer {
            Some(_) => measured(verdict, claim.bound),
            None => {
                format!("{}: {}", measured(verdict, claim.bound), brief(claim.whose, verdict.answer))
            }
        });
        said += &each.collect::<Vec<_>>().join("; ");
        said += ". ";
    }
    let rounds = findings.rounds;
    if !claim.bound.can_hold(rounds) {
        said += &format!("That it holds could not be told by {rounds} rounds, only that it does not.");
    }
    said.trim_end().to_owned()
}

/// Begins a verdict: what it says of Selvedge, or of the others if only they are asked.
fn lead(whose: Whose, ours: bool, answer: Option<Answer>) -> String {
    let name = if ours { "Selvedge" } else { "the others" };
    match (whose, answer) {
        (Whose::Paper, Some(answer)) => format!("{} for {name}", on_the_paper(answer)),
        (Whose::Paper, None) => format!("Whether the paper's conclusion still holds depends, for {name}"),
        (Whose::Ours, Some(answer)) => format!("The aim of {name}: {}", brief(whose, answer)),
        (Whose::Ours, None) => format!("The aim of {name}: reached in part"),
        (Whose::Question, Some(answer)) => format!("Our question, for {name}: {}", brief(whose, answer)),
        (Whose::Question, None) => format!("Our question, for {name}: it depends"),
    }
}

/// Says what was measured, by which the verdict was found.
fn measured(verdict: &Verdict<'_>, bound: Bound) -> String {
    let Verdict { check, seen, .. } = verdict;
    match (seen, bound) {
        (None, _) => format!("{} has no figures", check.who),
        (Some(Summary { most, least, .. }), Bound::Wider) => {
            format!("{} has a spread of {}, its control {}", check.who, short(*most), short(*least))
        }
        (Some(Summary { median, least, most }), _) => {
            format!("{} has {} ({} to {})", check.who, short(*median), short(*least), short(*most))
        }
    }
}
