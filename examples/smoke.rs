use selvedge::{Mxn, Runtime, thread, sync::{Mutex, Condvar}};
use std::sync::Arc;
use std::time::Instant;
struct P { b: [Mutex<()>; 2] }
struct T { p: [P; 2] }
fn player(t: &T, me: usize, n: usize, sb: &Bar, bb: &Bar, eb: &Bar) {
    let us = &t.p[me]; let them = &t.p[1-me];
    sb.wait();
    let mut held;
    let g0 = them.b[0].lock();
    if me == 0 { let g1 = them.b[1].lock(); bb.wait(); drop(g0); held = Some(g1); let _ = &held; std::mem::forget(held.take()); }
    else { bb.wait(); std::mem::forget(g0); }
    for c in 0..n {
        unsafe {
        let m = |p: &P, i: usize| { std::mem::forget(p.b[i].lock()); };
        m(us, c % 2);
        m(them, (c + me) % 2);
        us.b[c % 2].force_unlock();
        them.b[(c + me + 1) % 2].force_unlock();
        }
    }
    eb.wait();
}
struct Bar { m: Mutex<usize>, c: Condvar, n: usize }
impl Bar { fn new(n: usize) -> Self { Bar { m: Mutex::new(0), c: Condvar::new(), n } }
 fn wait(&self) { let mut g = self.m.lock(); *g += 1; if *g >= self.n { drop(g); self.c.notify_all(); return; } while *g < self.n { self.c.wait(&mut g); } } }
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|s| s.parse().unwrap()).collect();
    let (games, iters, conc) = (a[0], a[1], a[2]);
    let rt = Mxn::builder().concurrency(conc).build().unwrap();
    let k = 2 * games + 1;
    rt.run(move || {
    let s = Arc::new((Bar::new(k), Bar::new(k), Bar::new(k)));
    let t = Instant::now();
    let mut hs = vec![];
    for _ in 0..games { let tb = Arc::new(T { p: std::array::from_fn(|_| P { b: [Mutex::new(()), Mutex::new(())] }) });
        for j in 0..2 { let (tb, s) = (tb.clone(), s.clone()); hs.push(thread::spawn(move || player(&tb, j, iters, &s.0, &s.1, &s.2))); } }
    s.0.wait();
    println!("init {:?}", t.elapsed());
    let t = Instant::now();
    s.1.wait(); s.2.wait();
    let e = t.elapsed();
    println!("games {games} conc {conc}: {:?} {:.1} ns/handoff", e, e.as_nanos() as f64 / (2 * games * iters) as f64);
    for h in hs { h.join().unwrap(); }
    });
    println!("{:?}", rt);
}
