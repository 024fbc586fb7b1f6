use selvedge::{Mxn, Runtime, thread};
use std::time::Instant;
fn main() {
    let rt = Mxn::new().unwrap();
    println!("{:?}", rt);
    println!("{}", rt.spawn(|| 42).join().unwrap());
    let n = rt.run(|| {
        let v: Vec<_> = (0..1000u64).map(|i| thread::spawn(move || { thread::yield_now(); i })).collect();
        v.into_iter().map(|h| h.join().unwrap()).sum::<u64>()
    });
    println!("{n}");
    println!("{}", rt.run(|| { thread::sleep(std::time::Duration::from_millis(20)); 5 }));
    let t = Instant::now();
    rt.run(|| { for _ in 0..1_000_000 { thread::spawn(|| ()).join().unwrap(); } });
    println!("spawn+join {} ns", t.elapsed().as_nanos() as f64 / 1e6);
    let rt1 = Mxn::builder().concurrency(1).build().unwrap();
    let t = Instant::now();
    rt1.run(|| { let h = thread::spawn(|| for _ in 0..5_000_000 { thread::yield_now(); }); for _ in 0..5_000_000 { thread::yield_now(); } h.join().unwrap(); });
    println!("yield {} ns", t.elapsed().as_nanos() as f64 / 1e7);
    let r = rt.spawn(|| { if true { panic!("boo") } }).join();
    println!("{:?}", r.unwrap_err().downcast_ref::<&str>());
    drop(rt);
    println!("dropped");
}
