use selvedge::{Mxn, Runtime, thread};
fn main() {
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    let why = std::env::args().nth(1);
    rt.run(|| {
        let h: Vec<_> = (0..4)
            .map(|n| {
                thread::Builder::new()
                    .name(format!("w{n}"))
                    .spawn(|| {
                        for _ in 0..100 {
                            thread::yield_now();
                            thread::sleep(std::time::Duration::from_micros(100));
                        }
                    })
                    .unwrap()
            })
            .collect();
        h.into_iter().for_each(|h| h.join().unwrap());
    });
    match why.as_deref() {
        Some("panic") => {
            let _ = rt.spawn(|| panic!("oh")).join();
        }
        Some("abort") => std::process::abort(),
        Some("overflow") => {
            rt.run(|| {
                #[allow(unconditional_recursion)]
                fn f(n: u64) -> u64 {
                    std::hint::black_box([n; 64]);
                    f(n + 1) + 1
                }
                f(0);
            });
        }
        _ => {}
    }
}
