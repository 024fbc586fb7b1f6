// A small program: workers take jobs from one channel, count words, and send the counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce(&Shared) + Send>;

#[derive(Default)]
struct Shared {
    words: RwLock<BTreeMap<String, usize>>,
    jobs: AtomicUsize,
}

struct Pool {
    jobs: Option<Sender<Job>>,
    workers: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

impl Pool {
    fn new(workers: usize) -> Self {
        let (jobs, taken) = channel();
        let (shared, taken) = (Arc::new(Shared::default()), Arc::new(Mutex::new(taken)));
        let work = |_| {
            let (shared, taken) = (shared.clone(), taken.clone());
            thread::spawn(move || Self::work(&shared, &taken))
        };
        let workers = (0..workers).map(work).collect();
        Self { jobs: Some(jobs), workers, shared }
    }

    fn work(shared: &Shared, taken: &Mutex<Receiver<Job>>) {
        loop {
            let job = taken.lock().unwrap().recv();
            match job {
                Ok(job) => job(shared),
                Err(_) => return,
            }
            shared.jobs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn run(&self, job: impl FnOnce(&Shared) + Send + 'static) {
        self.jobs.as_ref().unwrap().send(Box::new(job)).unwrap();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        drop(self.jobs.take());
        self.workers.drain(..).for_each(|worker| worker.join().unwrap());
    }
}

fn main() {
    const TEXT: &str = "warp and weft and warp and selvedge";
    let pool = Pool::new(3);
    let (tell, told) = sync_channel(0);
    for word in TEXT.split(' ').cycle().take(70) {
        let tell = tell.clone();
        pool.run(move |shared| {
            *shared.words.write().unwrap().entry(word.to_owned()).or_default() += 1;
            tell.send(word.len()).unwrap();
        });
    }
    drop(tell);
    println!("{}", told.iter().sum::<usize>());
    let shared: Weak<Shared> = Arc::downgrade(&pool.shared);
    let kept = shared.upgrade().unwrap();
    drop(pool);
    println!("{:?} {}", kept.words.read().unwrap(), kept.jobs.load(Ordering::Relaxed));
    drop(kept);
    println!("{}", shared.upgrade().is_none());
}
