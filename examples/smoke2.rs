use selvedge::{Mxn, Runtime, thread, sync::{Mutex, Condvar}};
use std::sync::Arc;
use std::sync::atomic::*;
use std::time::{Instant, Duration};
use std::cell::{Cell, RefCell};
thread_local! { static R: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) }; static D: Cell<u32> = const { Cell::new(7) }; }
fn mig(conc: usize, migrate: bool) {
    let rt = Mxn::builder().concurrency(conc).migrate_always(migrate).build().unwrap();
    let moved = Arc::new(AtomicUsize::new(0));
    let hs: Vec<_> = (0..100u32).map(|i| { let moved = moved.clone(); rt.spawn(move || {
        R.with(|r| { let mut b = r.borrow_mut(); assert!(b.is_empty()); for k in 0..200 { b.push(k ^ i); let t0 = unsafe { libc::syscall(libc::SYS_gettid) }; thread::yield_now(); let t1 = unsafe { libc::syscall(libc::SYS_gettid) }; if t0 != t1 { moved.fetch_add(1, Ordering::Relaxed); } assert_eq!(b.len(), k as usize + 1); } assert!(b.iter().enumerate().all(|(k, v)| *v == k as u32 ^ i)); b.clear(); });
        D.with(|d| { assert_eq!(d.get(), 7); d.set(i); });
    })}).collect();
    for h in hs { h.join().unwrap(); }
    println!("conc {conc} migrate {migrate}: moved {} of 20000", moved.load(Ordering::Relaxed));
}
fn main() {
    mig(2, false); mig(2, true); mig(8, true); mig(1, true);
    // blocking
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let t = Instant::now();
    let hs: Vec<_> = (0..50).map(|_| rt.spawn(|| std::thread::sleep(Duration::from_millis(100)))).collect();
    for h in hs { h.join().unwrap(); }
    println!("50 raw sleeps of 100ms on concurrency 1: {:?} lwps {:?}", t.elapsed(), rt.info());
    let t = Instant::now();
    let hs: Vec<_> = (0..50).map(|_| rt.spawn(|| thread::blocking(|| std::thread::sleep(Duration::from_millis(100))))).collect();
    for h in hs { h.join().unwrap(); }
    println!("announced: {:?} {:?}", t.elapsed(), rt.info());
    let t = Instant::now();
    let hs: Vec<_> = (0..1000).map(|_| rt.spawn(|| thread::sleep(Duration::from_millis(100)))).collect();
    for h in hs { h.join().unwrap(); }
    println!("1000 sleeps: {:?} {:?}", t.elapsed(), rt.info());
    // pipe deadlock
    let mut f = [0i32; 2]; unsafe { libc::pipe(f.as_mut_ptr()); }
    let t = Instant::now();
    for _ in 0..100 { let a = rt.spawn(move || { let mut b = 0u8; unsafe { libc::read(f[0], (&raw mut b).cast(), 1) }; b }); let b = rt.spawn(move || { let x = 9u8; unsafe { libc::write(f[1], (&raw const x).cast(), 1) } }); assert_eq!(a.join().unwrap(), 9); b.join().unwrap(); }
    println!("100 pipe: {:?} {:?}", t.elapsed(), rt.info());
    // condvar timeouts, mutex contention across foreign
    let m = Arc::new((Mutex::new(0u64), Condvar::new()));
    let mut hs = vec![]; let mut ks = vec![];
    let rt2 = Mxn::new().unwrap();
    for i in 0..8 { let m1 = m.clone(); let f = move || for _ in 0..50_000 { *m1.0.lock() += 1; }; if i % 2 == 0 { hs.push(rt2.spawn(f)); } else { ks.push(std::thread::spawn(f)); } }
    for h in hs { h.join().unwrap(); } for k in ks { k.join().unwrap(); }
    assert_eq!(*m.0.lock(), 400_000);
    let t = Instant::now();
    rt2.run(|| { let mut g = m.0.lock(); for _ in 0..20 { assert!(m.1.wait_for(&mut g, Duration::from_millis(5)).timed_out()); } });
    println!("20 timeouts of 5 ms {:?}", t.elapsed());
    // park timeout storms
    let hs: Vec<_> = (0..200).map(|i| rt2.spawn(move || for k in 0..50 { thread::park_timeout(Duration::from_micros(50 + 7 * i + k)); })).collect();
    for _ in 0..100 { for h in &hs { h.thread().unpark(); } }
    for h in hs { h.join().unwrap(); }
    let b = rt2.spawn_with(thread::Builder::new().bound(true).name("bb".into()), || { thread::spawn(|| 3).join().unwrap() }).unwrap();
    assert_eq!(b.join().unwrap(), 3);
    println!("pinned:");
    let rt3 = unsafe { Mxn::builder().concurrency(3).pinned() }.build().unwrap();
    let hs: Vec<_> = (0..100).map(|i| rt3.spawn(move || { let t0 = unsafe { libc::syscall(libc::SYS_gettid) }; for k in 0..100 { if (k + i) % 3 == 0 { thread::sleep(Duration::from_micros(20)); } else { thread::yield_now(); } assert_eq!(t0, unsafe { libc::syscall(libc::SYS_gettid) }); } })).collect();
    for h in hs { h.join().unwrap(); }
    drop(rt3); drop(rt); 
    // own drop
    let rt4 = Arc::new(Mxn::new().unwrap()); let r = rt4.clone(); let h = rt4.spawn(move || { drop(r); 1 }); drop(rt4); println!("{}", h.join().unwrap());
    println!("done");
}
