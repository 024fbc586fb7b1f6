//! The figures as they were measured, as JSON.

use serde_json::{Value, json};

use crate::findings::{Said, Summary};
use crate::overview::{self, Count};
use crate::report::{Part, Report};
use crate::verdict::{Bound, Claim, Verdict, Whose};

/// All samples and all verdicts.
pub(crate) fn json(report: &Report) -> Value {
    let machine: serde_json::Map<String, Value> =
        report.machine.lines().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({
        "program": "papers",
        "machine": machine,
        "size": report.size,
        "minutes": report.minutes,
        "interrupted": report.interrupted.is_some(),
        "complaints": report.complaints,
        "late": report.late,
        "counts": overview::counts(report).iter().map(count).collect::<Vec<_>>(),
        "experiments": report.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

fn count(count: &Count) -> Value {
    json!({
        "whose": match count.whose {
            Whose::Paper => "paper",
            Whose::Ours => "ours",
            Whose::Question => "question",
        },
        "asked": if count.ours { "Selvedge" } else { "others" },
        "all": count.all,
        "hold": count.hold,
        "fail": count.fail,
        "open": count.open(),
    })
}

fn part(part: &Part) -> Value {
    let findings = &part.findings;
    let mut figures = Vec::new();
    for (point, cells) in findings.cells.iter().enumerate() {
        for (contender, cell) in findings.contenders.iter().zip(cells) {
            if cell.asked {
                let said = |said: &&Said| (said.point, said.contender) == (point, contender.name);
                figures.push(json!({
                    "point": point,
                    "contender": contender.name,
                    "ours": contender.ours,
                    "samples": cell.samples,
                    "failure": cell.failure.as_ref().map(ToString::to_string),
                    "said": findings.said.iter().find(said).map(|said| &said.words),
                }));
            }
        }
    }
    let exhibits = part.exhibits.iter().map(|exhibit| {
        let columns =
            exhibit.columns.iter().map(|column| json!({"label": column.label, "points": column.points}));
        let verdicts = exhibit.claims.iter().flat_map(|claim| {
            claim.judge(findings).into_iter().map(|verdict| judged(claim, &verdict)).collect::<Vec<_>>()
        });
        json!({
            "id": exhibit.id,
            "title": exhibit.title,
            "quantity": exhibit.quantity,
            "columns": columns.collect::<Vec<_>>(),
            "verdicts": verdicts.collect::<Vec<_>>(),
        })
    });
    json!({
        "paper": part.paper.tag(),
        "experiment": part.name,
        "rounds": findings.rounds,
        "seconds": part.seconds,
        "figures": figures,
        "exhibits": exhibits.collect::<Vec<_>>(),
    })
}

fn judged(claim: &Claim, verdict: &Verdict<'_>) -> Value {
    let mut value = json!({
        "claim": claim.words,
        "who": verdict.check.who,
        "ours": verdict.check.ours,
        "answer": verdict.answer.to_string(),
    });
    if claim.bound == Bound::Wider {
        value["spread"] = verdict.seen.map(|all| all.most).into();
        value["control"] = verdict.seen.map(|all| all.least).into();
    } else {
        let ratio = |all: Summary| json!({"median": all.median, "least": all.least, "most": all.most});
        value["ratio"] = verdict.seen.map(ratio).into();
    }
    value
}
