use selvedge::{Mxn, Runtime, thread, threadmon::Client, trace::Level};
fn main() {
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    selvedge::threadmon::serve().unwrap();
    let h: Vec<_> = (0..10)
        .map(|n| {
            rt.spawn_with(thread::Builder::new().name(format!("w{n}")), move || {
                for _ in 0..100 {
                    thread::yield_now();
                    if n > 7 {
                        let t = std::time::Instant::now();
                        while t.elapsed().as_millis() < 30 {}
                    }
                    thread::sleep(std::time::Duration::from_millis(10));
                }
            })
            .unwrap()
        })
        .collect();
    let mut c = Client::connect(std::process::id()).unwrap();
    c.set_level(Level::Events).unwrap();
    c.count_locks(true).unwrap();
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        println!("{:#?}", c.overview().unwrap());
        let p = c.threads(1, 100, true).unwrap();
        for t in &p.threads {
            println!("{t:?}");
        }
        println!("{} {:?}", p.last, c.events(false).unwrap().events().len());
    }
    println!("{}", c.dump().unwrap());
    println!("{:?}", c.deadlocks());
    println!("{:?}", c.threads(7, 1, true));
    h.into_iter().for_each(|h| h.join().unwrap());
}
