//! What a dump says of single threads, read from its JSON.

use std::time::Duration;

use selvedge::thread;
use selvedge::threadmon::Dump;
use serde_json::Value;

/// The three functions of the tests, one inside the other, as a backtrace has them.
pub(crate) const CHAIN: [&str; 3] = ["innermost", "midmost", "outermost"];

/// All functions of the tests that are looked for.
const OWN: [&str; 10] = [
    CHAIN[0],
    CHAIN[1],
    CHAIN[2],
    "computes",
    "computes_in_turns",
    "reads",
    "waits_for_input",
    "even_walk",
    "odd_walk",
    "takes_a_dump",
];

pub(crate) fn json(dump: &Dump) -> Value {
    let mut json = Vec::new();
    dump.write_json(&mut json).unwrap();
    serde_json::from_slice(&json)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&json)))
}

/// What a dump says of one thread.
pub(crate) struct Seen {
    pub(crate) state: String,
    pub(crate) functions: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) note: Option<String>,
}

impl Seen {
    pub(crate) fn of(json: &Value, thread: &Value) -> Self {
        let backtrace = &json["backtraces"][thread["backtrace"].as_u64().expect("a backtrace") as usize];
        let frames = backtrace["frames"].as_array().unwrap();
        let field =
            |name: &str| frames.iter().map(|it| it[name].as_str().unwrap_or("?").to_owned()).collect();
        Self {
            state: thread["state"].as_str().unwrap().to_owned(),
            functions: field("function"),
            files: field("file"),
            note: backtrace["note"].as_str().map(str::to_owned),
        }
    }

    /// Returns the functions of this file, without their paths: some kinds of debug information have none.
    pub(crate) fn own(&self) -> Vec<&str> {
        let names = self.functions.iter().map(|name| name.rsplit("::").next().unwrap_or_default());
        names.filter(|name| OWN.contains(name)).collect()
    }

    /// It did not run, so it was read from its stack.
    pub(crate) fn was_saved(&self) -> bool {
        self.functions
            .first()
            .is_some_and(|name| name.rsplit("::").next().unwrap_or(name).starts_with("switch"))
    }

    #[track_caller]
    pub(crate) fn expect(&self, own: &[&str]) {
        assert_eq!(self.own(), own, "{:?}: {:#?}", self.note, self.functions);
    }

    /// The backtrace ends where a green thread begins.
    #[track_caller]
    pub(crate) fn expect_complete(&self) {
        let last = self.functions.last().map(String::as_str).unwrap_or_default();
        assert!(self.note.is_none() && last.ends_with("::start"), "{:?}: {:#?}", self.note, self.functions);
    }
}

/// Takes dumps until one shows the thread of this name as `is` says.
pub(crate) fn until(name: &str, is: impl Fn(&Seen) -> bool) -> Seen {
    loop {
        let dump = json(&Dump::take());
        let thread = dump["threads"].as_array().unwrap().iter().find(|it| it["name"] == name);
        if let Some(seen) = thread.map(|thread| Seen::of(&dump, thread)).filter(&is) {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.into())
}
