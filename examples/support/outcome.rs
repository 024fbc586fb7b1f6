//! What a program found out, for people's scripts: what was run, what was measured, and whether it did
//! what it was to do.

use serde_json::{Map, Value, json};

/// Configuration, figures, and checks of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    program: &'static str,
    configuration: Map<String, Value>,
    figures: Vec<Value>,
    checks: Vec<Check>,
}

/// Something that must be so if the program and what stands behind its threads are right.
#[derive(Clone, Debug, PartialEq)]
struct Check {
    claim: String,
    held: bool,
}

impl Outcome {
    /// Nothing has been found out yet.
    pub(crate) fn new(program: &'static str) -> Self {
        Self { program, configuration: Map::new(), figures: Vec::new(), checks: Vec::new() }
    }

    /// One setting of the run: `threads` was 4, `runtime` was "mxn".
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.configuration.insert(name.to_owned(), value.into());
    }

    /// One measured value, after those before it. One that is not finite becomes `null`, as JSON has no
    /// such numbers.
    pub(crate) fn figure(&mut self, name: &str, unit: &str, value: f64) {
        self.figures.push(json!({ "name": name, "unit": unit, "value": value }));
    }

    /// Says whether something is as it must be.
    pub(crate) fn check(&mut self, claim: impl Into<String>, held: bool) {
        self.checks.push(Check { claim: claim.into(), held });
    }

    /// The claims that did not hold.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &str> {
        self.checks.iter().filter(|check| !check.held).map(|check| check.claim.as_str())
    }

    /// 0, or 2 if a check did not hold. (1 is for what could not be run at all.)
    pub(crate) fn exit_status(&self) -> u8 {
        if self.failed().next().is_none() { 0 } else { 2 }
    }

    /// All of it as one JSON object, in one line.
    pub(crate) fn to_json(&self) -> String {
        let check = |check: &Check| json!({ "claim": check.claim, "held": check.held });
        json!({
            "program": self.program,
            "configuration": self.configuration,
            "figures": self.figures,
            "checks": self.checks.iter().map(check).collect::<Vec<_>>(),
        })
        .to_string()
    }
}
