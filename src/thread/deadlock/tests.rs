//! What a report says, word by word.

use super::{Blocked, Cycle, Deadlocks, EndsBy, Standstill};
use crate::park::reason::WaitReason;
use crate::thread::ThreadId;

fn id(number: u64) -> ThreadId {
    ThreadId::from_number(number.try_into().expect("not zero"))
}

/// Returns a thread that waits for a mutex with an unknown owner.
pub(super) fn blocked(number: u64, ends_by: EndsBy) -> Blocked {
    Blocked {
        id: id(number),
        name: None,
        reason: WaitReason::Mutex,
        at: None,
        called: None,
        owners: Vec::new(),
        ends_by,
    }
}

/// Returns the report of a program in which no thread waits.
pub(super) fn report() -> Deadlocks {
    Deadlocks {
        cycles: Vec::new(),
        stuck: Vec::new(),
        waiting: Vec::new(),
        standstill: Standstill::None,
        owners_recorded: true,
    }
}

#[test]
fn a_waiter_is_described() {
    use EndsBy::{AnyThread, Deadline, Interrupt, Nothing, Owner, UnknownOwner};
    let plain = |ends_by| blocked(1, ends_by).to_string();
    assert_eq!(plain(Nothing), "ThreadId(1) waits for a mutex");
    assert_eq!(plain(Deadline), "ThreadId(1) waits for a mutex: at most until its deadline");
    assert_eq!(plain(Interrupt), "ThreadId(1) waits for a mutex: an interrupt would end it");
    assert_eq!(plain(Owner), "ThreadId(1) waits for a mutex: the owner may go on");
    assert_eq!(plain(UnknownOwner), "ThreadId(1) waits for a mutex: the owner is not known");
    assert_eq!(plain(AnyThread), "ThreadId(1) waits for a mutex: any thread may end it");
    assert_eq!(Nothing.to_string(), "nothing ends it");

    let owners = vec![(id(2), Some("owner".to_owned())), (id(3), None)];
    let named = Blocked {
        name: Some("waiter".to_owned()),
        at: Some(0x40),
        called: Some("table".to_owned()),
        owners,
        ..blocked(1, Nothing)
    };
    assert_eq!(
        named.to_string(),
        "ThreadId(1) \"waiter\" waits for a mutex at 0x40 \"table\", held by ThreadId(2) \"owner\", ThreadId(3)"
    );
    let joins = Blocked { reason: WaitReason::Join, owners: vec![(id(2), None)], ..blocked(1, Owner) };
    assert_eq!(
        joins.to_string(),
        "ThreadId(1) waits for the end of a thread (join), that of ThreadId(2): the owner may go on"
    );
}

#[test]
fn a_standstill_is_described() {
    assert_eq!(Standstill::None.to_string(), "a thread can go on, or there is none");
    assert_eq!(Standstill::Forever.to_string(), "all threads wait, and no thread is left to wake one");
    assert_eq!(
        Standstill::UnlessWokenFromOutside.to_string(),
        "all threads wait, unless a thread from outside wakes one"
    );
}

#[test]
fn a_report_has_all_parts_in_order() {
    const ADVICE: &str =
        "(owners of locks are recorded after thread::record_owners, or with SELVEDGE_DEADLOCK=report)";
    assert_eq!(report().to_string(), "no thread waits");
    let own = |number| Blocked { owners: vec![(id(number), None)], ..blocked(number, EndsBy::Nothing) };
    let all = Deadlocks {
        cycles: vec![Cycle { blocked: vec![own(1)] }, Cycle { blocked: vec![own(2), own(3)] }],
        stuck: vec![own(4)],
        waiting: vec![blocked(5, EndsBy::Deadline)],
        standstill: Standstill::Forever,
        owners_recorded: true,
    };
    let said = "deadlock: a thread waits for itself:\n  \
         ThreadId(1) waits for a mutex, held by ThreadId(1)\n\
         deadlock: 2 threads wait for each other:\n  \
         ThreadId(2) waits for a mutex, held by ThreadId(2)\n  \
         ThreadId(3) waits for a mutex, held by ThreadId(3)\n\
         deadlock: these wait forever:\n  \
         ThreadId(4) waits for a mutex, held by ThreadId(4)\n\
         these wait:\n  \
         ThreadId(5) waits for a mutex: at most until its deadline\n\
         all threads wait, and no thread is left to wake one";
    assert_eq!(all.to_string(), said);
    // Advice is given only if it would help.
    let advised = Deadlocks { owners_recorded: false, ..all };
    assert_eq!(advised.to_string(), format!("{said}\n{ADVICE}"));
    let known = Deadlocks { waiting: vec![own(5)], owners_recorded: false, ..report() };
    assert!(!known.to_string().contains(ADVICE));
    let no_lock = Blocked { reason: WaitReason::Park, ..blocked(5, EndsBy::AnyThread) };
    let parked = Deadlocks { waiting: vec![no_lock], owners_recorded: false, ..report() };
    assert!(!parked.to_string().contains(ADVICE));
}
