// Threads: their results, ends and names; and scopes.

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Builder, JoinHandle, Scope, ScopedJoinHandle};

fn results() {
    let threads: Vec<JoinHandle<usize>> = (0..8).map(|n| thread::spawn(move || n * n)).collect();
    println!("{:?}", threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>());

    let number = 7;
    let error = thread::spawn(move || panic!("number {number}")).join().unwrap_err();
    println!("{:?}", error.downcast_ref::<String>());
    let error = thread::spawn(|| -> u8 { panic!("plain") }).join().unwrap_err();
    println!("{:?}", error.downcast_ref::<&str>());
    let error = thread::spawn(|| panic::panic_any(7_u32)).join().unwrap_err();
    println!("{:?}", error.downcast::<u32>());
    let error: thread::Result<()> = thread::spawn(|| panic::resume_unwind(Box::new("quiet"))).join();
    println!("{:?}", error.unwrap_err().downcast_ref::<&str>());

    struct Tells;
    impl Drop for Tells {
        fn drop(&mut self) {
            println!("panicking: {}", thread::panicking());
        }
    }
    _ = thread::spawn(|| drop(Tells)).join();
    _ = thread::spawn(|| {
        let _tells = Tells;
        panic!("on purpose");
    })
    .join();
}

fn names() {
    println!("{:?}", thread::spawn(|| thread::current().name().map(str::to_owned)).join().unwrap());
    let named = Builder::new().name("näme".to_string()).stack_size(64 << 10);
    let thread =
        named.spawn(|| (thread::current().name().map(str::to_owned), thread::current().id())).unwrap();
    println!("{:?}", thread.thread().name());
    let id = thread.thread().id();
    let (name, own_id) = thread.join().unwrap();
    println!("{name:?} {}", id == own_id);
    println!("{}", thread::current().id() == thread::current().id());
    println!("{}", thread::current().id() == id);

    let words = ["warp", "weft"];
    // SAFETY: joined below, before `words` ends.
    let thread = unsafe { Builder::new().spawn_unchecked(|| words.len()) }.unwrap();
    println!("{}", thread.join().unwrap());
}

fn ends() {
    let thread = thread::spawn(thread::park);
    println!("{}", thread.is_finished());
    thread.thread().unpark();
    while !thread.is_finished() {
        thread::yield_now();
    }
    thread.join().unwrap();

    // If the handle is dropped, the thread runs on, and its result is dropped when it ends.
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let theirs = Counts(count.clone());
    drop(thread::spawn(move || theirs));
    while count.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    println!("dropped");
}

fn scopes() {
    let (mut list, text) = (vec![1, 2, 3], String::from("weft"));
    let sum = thread::scope(|s| {
        s.spawn(|| list.push(4));
        let length = s.spawn(|| text.len());
        s.spawn(|| s.spawn(|| println!("from within {text}")));
        length.join().unwrap()
    });
    println!("{list:?} {sum}");

    fn deeper<'scope>(s: &'scope Scope<'scope, '_>, depth: usize, count: &'scope AtomicUsize) {
        count.fetch_add(1, Ordering::SeqCst);
        if depth > 0 {
            for _ in 0..2 {
                s.spawn(move || deeper(s, depth - 1, count));
            }
        }
    }
    let count = AtomicUsize::new(0);
    thread::scope(|s| deeper(s, 5, &count));
    println!("{count:?}");

    // If a thread that panicked was not joined, the scope panics; otherwise it does not.
    let unseen = panic::catch_unwind(|| thread::scope(|s| drop(s.spawn(|| panic!("unseen")))));
    println!("{:?}", unseen.unwrap_err().downcast_ref::<&str>());
    thread::scope(|s| println!("{}", s.spawn(|| panic!("seen")).join().is_err()));
    let own = panic::catch_unwind(|| thread::scope(|_| panic!("own")));
    println!("{:?}", own.map_err(|error| error.downcast_ref::<&str>().copied()));

    let done = Mutex::new(Vec::new());
    thread::scope(|s| {
        let builder = Builder::new().name("scoped".into());
        let handle: ScopedJoinHandle<'_, ()> = builder
            .spawn_scoped(s, || done.lock().unwrap().push(thread::current().name().map(str::to_owned)))
            .unwrap();
        println!("{:?}", handle.thread().name());
        while !handle.is_finished() {
            thread::yield_now();
        }
    });
    println!("{done:?}");
}

fn main() {
    results();
    names();
    ends();
    scopes();
    println!("{}", thread::available_parallelism().unwrap().get() > 0);
}
