//! Shutdown with a deadline: `shutdown` waits, interrupts all threads halfway, and lists those that have not
//! ended when the time is over.
//!
//! ```text
//! cargo run --release --example shutdown
//! ```

use std::sync::mpsc;
use std::time::Duration;

use selvedge::thread::{self, Builder};
use selvedge::{Mxn, Runtime, Wait};

fn main() -> std::io::Result<()> {
    let rt = Mxn::new()?;

    // Ends by itself.
    let _ = rt.spawn(|| thread::sleep(Duration::from_millis(10)));

    // Ends when it is interrupted: the sleep returns an error.
    let heartbeat = rt.spawn(|| {
        let mut beats = 0;
        while thread::sleep_with(Wait::timeout(Duration::from_millis(20)).interruptible()).is_ok() {
            beats += 1;
        }
        println!("the heartbeat ends after {beats} beats");
    });

    // Does not end: it waits for a message that never comes, in a wait that cannot be interrupted.
    let (send, messages) = mpsc::channel::<()>();
    let _ = rt.spawn_with(Builder::new().name("listener".into()), move || messages.recv())?;

    let unstopped = rt.shutdown(Duration::from_millis(500)).expect_err("the listener waits");
    println!("{unstopped}");
    let names: Vec<_> = unstopped.threads().iter().map(|thread| thread.name()).collect();
    assert_eq!(names, [Some("listener")]);
    heartbeat.join().unwrap();

    // Threads that have not ended keep their runtime alive. The program may still let them end.
    drop(send);
    Ok(())
}
