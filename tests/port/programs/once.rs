// One-time initialization: `Once`, `OnceLock`, `LazyLock`.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Once, OnceLock, OnceState};
use std::thread;

static SETUP: Once = Once::new();
static CONFIG: OnceLock<Vec<u8>> = OnceLock::new();
static TABLE: LazyLock<Vec<usize>> = LazyLock::new(|| (0..4).map(|n| n * n).collect());

fn once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let runs = runs.clone();
            thread::spawn(move || {
                SETUP.call_once(|| {
                    thread::yield_now();
                    runs.fetch_add(1, Ordering::Relaxed);
                });
                SETUP.wait();
                assert!(SETUP.is_completed() && runs.load(Ordering::Relaxed) == 1);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());

    let once = Once::new();
    println!("{}", once.is_completed());
    println!("{}", catch_unwind(|| once.call_once(|| panic!("on purpose"))).is_err());
    println!("{}", catch_unwind(|| once.call_once(|| ())).is_err());
    println!("{}", catch_unwind(|| once.wait()).is_err());
    println!("{}", once.is_completed());
    once.call_once_force(|state: &OnceState| println!("{}", state.is_poisoned()));
    once.call_once_force(|_| unreachable!());
    once.wait_force();
    println!("{}", once.is_completed());
    Once::new().call_once_force(|state| println!("{}", state.is_poisoned()));
}

fn lock() {
    println!("{:?} {:?}", CONFIG.get(), CONFIG);
    let waiter = thread::spawn(|| CONFIG.wait());
    println!("{:?} {:?}", CONFIG.set(vec![1]), CONFIG.set(vec![2]));
    println!("{:?} {:?} {:?}", waiter.join().unwrap(), CONFIG.get_or_init(|| vec![3]), CONFIG);

    let mut cell = OnceLock::from(5);
    println!("{:?} {} {}", cell.clone(), cell == OnceLock::from(5), cell == OnceLock::new());
    *cell.get_mut().unwrap() += 1;
    println!("{:?} {:?} {:?}", cell.take(), cell.take(), cell);
    println!("{:?}", cell.into_inner());
    let cell = OnceLock::<u8>::default();
    println!("{}", catch_unwind(AssertUnwindSafe(|| *cell.get_or_init(|| panic!("on purpose")))).is_err());
    println!("{}", cell.get_or_init(|| 8));
    println!("{:?}", cell.into_inner());

    // The cell may outlive what its value refers to.
    let cell = OnceLock::new();
    let text = String::from("shorter");
    cell.set(&text).unwrap();
    println!("{:?}", cell.get());
}

fn lazy() {
    println!("{:?} {:?} {}", LazyLock::get(&TABLE), *TABLE, TABLE.deref().len());
    println!("{:?} {:?} {:?}", LazyLock::force(&TABLE), LazyLock::get(&TABLE), &TABLE);
    let mut lazy = LazyLock::new(|| 1);
    println!("{lazy:?}");
    println!("{:?}", LazyLock::get_mut(&mut lazy));
    *LazyLock::force_mut(&mut lazy) += 1;
    *lazy.deref_mut() += 1;
    println!("{lazy:?}");
    println!("{:?}", LazyLock::get_mut(&mut lazy));
    println!("{:?}", *LazyLock::<String>::default());
    let failing: LazyLock<u8> = LazyLock::new(|| panic!("on purpose"));
    println!("{} {}", catch_unwind(|| *failing).is_err(), catch_unwind(|| *failing).is_err());
}

fn main() {
    once();
    lock();
    lazy();
}
