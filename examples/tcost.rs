use selvedge::trace::{Level, set_level};
use selvedge::{Mxn, Runtime, sync, thread};
use std::time::Instant;
fn main() {
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let n = 2_000_000u32;
    for round in 0..4 {
        for level in [Level::Off, Level::Times, Level::Events] {
            set_level(level);
            let t = rt.run(|| {
                let other = thread::spawn(move || {
                    for _ in 0..n {
                        thread::yield_now()
                    }
                });
                let s = Instant::now();
                for _ in 0..n {
                    thread::yield_now()
                }
                let e = s.elapsed();
                other.join().unwrap();
                e
            });
            // work of 1us between switches
            let w = rt.run(|| {
                let work = || {
                    let mut x = 1u64;
                    for i in 0..900u64 {
                        x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
                    }
                    x
                };
                let k = 200_000u32;
                let other = thread::spawn(move || {
                    for _ in 0..k {
                        std::hint::black_box(work());
                        thread::yield_now()
                    }
                });
                let s = Instant::now();
                for _ in 0..k {
                    std::hint::black_box(work());
                    thread::yield_now()
                }
                let e = s.elapsed();
                other.join().unwrap();
                e / (2 * k)
            });
            let p = rt.run(|| {
                let me = thread::current();
                let k = 500_000u32;
                let other = thread::spawn(move || {
                    for _ in 0..k {
                        thread::park();
                        me.unpark();
                    }
                });
                let s = Instant::now();
                for _ in 0..k {
                    other.thread().unpark();
                    thread::park();
                }
                let e = s.elapsed();
                other.join().unwrap();
                e / (2 * k)
            });
            println!(
                "{round} {level:?}: {:.1} ns a yield; {:?} with work; park/unpark {:?}",
                t.as_nanos() as f64 / (2.0 * n as f64),
                w,
                p
            );
        }
    }
}
