//! What does a mutex cost without contention? And how large is it?

mod support;

use std::process::ExitCode;

use support::contender::all;
use support::harness::{Question, Unit, answer};
use support::library::{Library, Std};
use support::peers::{May, ParkingLot};
use support::pthread::Pthread;
use support::selvedge::Private;
use support::workloads::lock::LockUnlock;

fn main() -> ExitCode {
    let question = Question::new("lock + unlock", Unit::NanosEach("a pair"), all(LockUnlock));
    let verdict = answer(vec![question]);
    if !std::env::args().any(|argument| argument == "--sample" || argument == "--list") {
        println!("size of a mutex over nothing, in bytes");
        let sizes = [
            ("selvedge", size::<Private>()),
            ("std", size::<Std>()),
            ("parking_lot", size::<ParkingLot>()),
            ("pthread", size::<Pthread>()),
            ("may", size::<May>()),
            ("tokio", size_of::<tokio::sync::Mutex<()>>()),
        ];
        sizes.iter().for_each(|(name, bytes)| println!("    {name:<14}{bytes:>6}"));
    }
    verdict
}

fn size<L: Library>() -> usize {
    size_of::<L::Mutex<()>>()
}
