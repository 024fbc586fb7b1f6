//! Selects that got an operation and do not complete it: other threads get it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use selvedge::channel::{Select, bounded, never, rendezvous, select, unbounded};
use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::waiting::until_waits;

both! {
    what_is_not_completed_goes_to_others,
    a_message_that_cannot_be_made_leaves_all_as_it_was,
    room_that_is_given_back_goes_to_the_next_sender,
}

const LONG: Duration = Duration::from_secs(1000);

fn what_is_not_completed_goes_to_others<L: Leg>() {
    L::new().run(|| {
        let silent = |f: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
        // A message.
        let (s, r) = bounded(1);
        s.send(1).unwrap();
        silent(&mut || {
            let mut sel = Select::new();
            sel.recv(&r);
            drop(sel.select());
        });
        assert_eq!((r.len(), r.recv()), (1, Ok(1)));
        // Room.
        silent(&mut || {
            let mut sel = Select::new();
            sel.send(&s);
            drop(sel.select());
        });
        assert_eq!((s.try_send(2), r.recv()), (Ok(()), Ok(2)));
        // A receiver that waits.
        let (s, r) = rendezvous();
        let receiver = thread::spawn(move || r.recv_timeout(LONG));
        silent(&mut || {
            let mut sel = Select::new();
            sel.send(&s);
            drop(sel.select());
        });
        s.send(3).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(3));
        // With the wrong receiver.
        let ((s, r), (_t, other)) = (unbounded(), unbounded::<u32>());
        s.send(4).unwrap();
        silent(&mut || {
            let mut sel = Select::new();
            sel.recv(&r);
            let _ = sel.select().recv(&other);
        });
        assert_eq!(r.recv(), Ok(4));
    });
}

fn a_message_that_cannot_be_made_leaves_all_as_it_was<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        for (capacity, selects) in [(0, false), (1, false), (0, true), (1, true)] {
            let (s, r) = bounded::<u32>(capacity);
            let receive = move || match selects {
                true => select! { recv(r) -> got => got.ok(), recv(never()) -> got => got.ok() },
                false => r.recv_timeout(LONG).ok(),
            };
            let receiver = thread::spawn(receive);
            until_waits(&rt, &receiver);
            for _ in 0..3 {
                let unmade = || -> u32 { std::panic::resume_unwind(Box::new("no message")) };
                let attempt = AssertUnwindSafe(|| select! { send(s, unmade()) -> _ => unreachable!() });
                assert!(catch_unwind(attempt).is_err());
            }
            s.send(9).unwrap();
            assert_eq!(receiver.join().unwrap(), Some(9));
            assert!(s.is_empty());
        }
    });
}

/// A select gets the room for which a sender waits too, and cannot make its message. The sender gets the
/// room, and a thread that waits for readiness is told of the sender's message.
fn room_that_is_given_back_goes_to_the_next_sender<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (s, r) = bounded::<u32>(1);
        s.send(1).unwrap();
        let ((begins, has_begun), (end, ends)) = (bounded(1), bounded::<()>(0));
        let sends = {
            let s = s.clone();
            thread::spawn(move || s.send(2).unwrap())
        };
        until_waits(&rt, &sends);
        // Both wait for room. The last to come is served first, as a rule.
        let selects = {
            let s = s.clone();
            thread::spawn(move || {
                let unmade = || -> u32 {
                    let _ = begins.send(());
                    let _ = ends.recv();
                    std::panic::resume_unwind(Box::new("no message"))
                };
                let attempt = AssertUnwindSafe(|| {
                    select! {
                        recv(never::<()>()) -> _ => unreachable!(),
                        send(s, unmade()) -> _ => unreachable!(),
                    }
                });
                assert!(catch_unwind(attempt).is_err());
            })
        };
        until_waits(&rt, &selects);
        assert_eq!(r.recv(), Ok(1));
        let sender_was_faster = select! {
            recv(r) -> _ => true,
            recv(has_begun) -> _ => false,
        };
        if sender_was_faster {
            // There is nothing to be given back.
            drop(end);
            return;
        }
        let watches = {
            let r = r.clone();
            thread::spawn(move || {
                let mut select = Select::new();
                select.recv(&r);
                select.ready_timeout(LONG).is_ok()
            })
        };
        until_waits(&rt, &watches);
        drop(end);
        assert!(watches.join().unwrap());
        assert_eq!(r.recv(), Ok(2));
        sends.join().unwrap();
        selects.join().unwrap();
        assert!(r.is_empty());
    });
}
