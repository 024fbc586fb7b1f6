// Thread-locals, their destructors, and what a destructor can still use.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Sender, channel};
use std::thread;

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Option<Tells>> = const { RefCell::new(None) };
}

struct Tells(Sender<String>);

impl Drop for Tells {
    fn drop(&mut self) {
        let gone = LAST.try_with(|_| ());
        self.0.send(format!("{:?} {}", gone, gone.unwrap_err())).unwrap();
        self.0.send(format!("{}", thread::panicking())).unwrap();
    }
}

fn main() {
    let threads: Vec<_> = (1..5)
        .map(|n| {
            thread::spawn(move || {
                for _ in 0..n {
                    COUNT.set(COUNT.get() + 1);
                    thread::yield_now();
                }
                COUNT.get()
            })
        })
        .collect();
    println!(
        "{:?} {}",
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>(),
        COUNT.get()
    );

    // Destructors have run when `join` returns.
    let (tx, rx) = channel();
    thread::spawn(move || LAST.set(Some(Tells(tx)))).join().unwrap();
    println!("{:?}", rx.try_iter().collect::<Vec<_>>());
    println!("{:?}", LAST.with_borrow(Option::is_none));
}
