//! How verdicts are said.

use crate::findings::{Findings, Summary};
use crate::numbers::short;
use crate::verdict::{Answer, Bound, Claim, Verdict, Whose, group};

/// What several have answered, as few words.
pub(crate) fn tally(answers: &[Answer]) -> String {
    match (answers.len(), group(answers.iter().copied())) {
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

/// The whole of a claim's verdict, as one sentence.
pub(crate) fn sentence(claim: &Claim, findings: &Findings) -> String {
    let verdicts = claim.judge(findings);
    let mut parts = Vec::new();
    for (ours, name) in [(true, "Selvedge"), (false, "the others")] {
        let of: Vec<&Verdict<'_>> = verdicts.iter().filter(|verdict| verdict.check.ours == ours).collect();
        if of.is_empty() {
            continue;
        }
        let each: Vec<String> = of.iter().map(|verdict| one(verdict, claim.bound)).collect();
        let group = group(of.iter().map(|verdict| verdict.answer)).map_or_else(
            || format!("for {name} it depends: "),
            |answer| format!("for {name} it **{answer}**: "),
        );
        parts.push(group + &each.join("; "));
    }
    let whose = match claim.whose {
        Whose::Paper => "",
        Whose::Ours => "Our own aim: ",
        Whose::Question => "Our own question: ",
    };
    let rounds = findings.rounds;
    let few = match claim.bound.can_hold(rounds) {
        true => String::new(),
        false => format!(" That it holds could not be told by {rounds} rounds, only that it does not."),
    };
    format!("{whose}*{}* ({}, {}): {}.{few}", claim.words, claim.ratio, claim.bound, parts.join("; and "))
}

fn one(verdict: &Verdict<'_>, bound: Bound) -> String {
    let Verdict { check, answer, seen } = verdict;
    match (seen, bound) {
        (None, _) => format!("{} {answer}, having no figures", check.who),
        (Some(Summary { most, least, .. }), Bound::Wider) => {
            format!("{} {answer} (spread {}, control {})", check.who, short(*most), short(*least))
        }
        (Some(Summary { median, least, most }), _) => {
            format!("{} {answer} ({}; {} to {})", check.who, short(*median), short(*least), short(*most))
        }
    }
}
