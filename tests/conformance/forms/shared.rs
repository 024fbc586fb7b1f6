//! Waits for a condition that processes share, in all forms.

use std::sync::Arc;
use std::time::Duration;

use selvedge::Runtime;
use selvedge::sync::process_shared;

use super::{LONG, SHORT, soon, timed};
use crate::legs::Leg;

both! {
    shared_conditions_are_waited_for_so_long,
}

fn shared_conditions_are_waited_for_so_long<L: Leg>() {
    let rt = L::new();
    let both = Arc::new((process_shared::Mutex::new(0), process_shared::Condvar::new()));
    rt.run(|| {
        let (count, changed) = &*both;
        let guard = count.lock().unwrap().unwrap();
        let (guard, result) = timed(|| changed.wait_while_for(guard, |count| *count == 0, SHORT)).unwrap();
        assert!(result.timed_out());
        let guard = guard.unwrap();
        let (guard, result) = timed(|| changed.wait_while_until(guard, |count| *count == 0, soon())).unwrap();
        assert!(result.timed_out());
        // What is so already is not waited for, whatever the time.
        let (guard, result) =
            changed.wait_while_for(guard.unwrap(), |count| *count > 0, Duration::ZERO).unwrap();
        assert!(!result.timed_out() && *guard.unwrap() == 0);
    });
    let theirs = Arc::clone(&both);
    let counts = rt.spawn(move || {
        for _ in 0..3 {
            *theirs.0.lock().unwrap().unwrap() += 1;
            theirs.1.notify_all();
        }
    });
    let (count, changed) = &*both;
    let guard = count.lock().unwrap().unwrap();
    let (guard, result) = changed.wait_while_for(guard, |count| *count < 3, LONG).unwrap();
    assert!(!result.timed_out() && *guard.unwrap() == 3);
    counts.join().unwrap();
}
