use selvedge::{Mxn, Runtime};
use std::io::{Read, Write};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

#[test]
fn locks() {
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    rt.run(|| {
        let m = Arc::new(Mutex::new(0));
        let hs: Vec<_> = (0..100)
            .map(|_| {
                let m = m.clone();
                selvedge::thread::spawn(move || {
                    for _ in 0..1000 {
                        *m.lock().unwrap() += 1;
                    }
                })
            })
            .collect();
        hs.into_iter().for_each(|h| h.join().unwrap());
        assert_eq!(*m.lock().unwrap(), 100_000);
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let hs: Vec<_> = (0..10_000)
            .map(|_| {
                let p = pair.clone();
                selvedge::thread::spawn(move || {
                    let mut g = p.0.lock().unwrap();
                    while !*g {
                        g = p.1.wait(g).unwrap();
                    }
                })
            })
            .collect();
        selvedge::thread::sleep(Duration::from_millis(300));
        println!(
            "{} {} {}",
            std::fs::read_dir("/proc/self/task").unwrap().count(),
            rt.info(),
            rt.stats().to_string().lines().take(12).collect::<Vec<_>>().join("\n")
        );
        *pair.0.lock().unwrap() = true;
        pair.1.notify_all();
        hs.into_iter().for_each(|h| h.join().unwrap());
        let (a, b) = mpsc::sync_channel(0);
        let h = selvedge::thread::spawn(move || {
            for i in 0..10_000 {
                a.send(i).unwrap();
            }
        });
        for i in 0..10_000 {
            assert_eq!(b.recv().unwrap(), i);
        }
        h.join().unwrap();
        std::thread::sleep(Duration::from_millis(10));
    });
}

#[test]
fn sockets() {
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    rt.run(|| {
        let l = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = l.local_addr().unwrap();
        let s = selvedge::thread::spawn(move || {
            for _ in 0..500 {
                let (mut c, _) = l.accept().unwrap();
                selvedge::thread::spawn(move || {
                    let mut b = [0; 64];
                    loop {
                        let n = c.read(&mut b).unwrap();
                        if n == 0 {
                            break;
                        }
                        c.write_all(&b[..n]).unwrap();
                    }
                });
            }
        });
        let hs: Vec<_> = (0..500)
            .map(|_| {
                selvedge::thread::spawn(move || {
                    let mut c = std::net::TcpStream::connect(at).unwrap();
                    for _ in 0..20 {
                        c.write_all(&[7; 64]).unwrap();
                        let mut b = [0; 64];
                        c.read_exact(&mut b).unwrap();
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    c
                })
            })
            .collect();
        let cs: Vec<_> = hs.into_iter().map(|h| h.join().unwrap()).collect();
        println!(
            "{} {} {}",
            std::fs::read_dir("/proc/self/task").unwrap().count(),
            rt.info(),
            rt.stats().to_string().lines().take(12).collect::<Vec<_>>().join("\n")
        );
        s.join().unwrap();
        let out = std::process::Command::new("sh").args(["-c", "sleep 0.1; echo hello"]).output().unwrap();
        assert_eq!(out.stdout, b"hello\n");
        drop(cs);
    });
}
