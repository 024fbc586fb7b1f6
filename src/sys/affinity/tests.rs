//! Processor counts from the real system and from made-up ones.

use super::*;

use tempfile::TempDir;

/// A made-up root of a file system, removed with the value.
struct Root(TempDir);

impl Root {
    fn new(files: &[(&str, &str)]) -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            let path = root.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }
}

/// Returns the processors that the calling kernel thread may run on.
fn mine() -> Vec<usize> {
    let mask = mask().unwrap();
    (0..mask.len() * 64).filter(|&cpu| has(&mask, cpu)).collect()
}

fn quota(root: &Path) -> Option<f64> {
    Grant::find_in(root).quota()
}

const V2_MOUNT: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

#[test]
fn a_quota_may_be_one_and_a_half() {
    let files = [
        ("proc/self/cgroup", "0::/app/web\n"),
        ("proc/self/mountinfo", V2_MOUNT),
        ("sys/fs/cgroup/app/web/cpu.max", "150000 100000\n"),
    ];
    assert_eq!(quota(Root::new(&files).0.path()), Some(1.5));
}

#[test]
fn an_outer_group_limits_too() {
    let files = [
        ("proc/self/cgroup", "0::/app/web\n"),
        ("proc/self/mountinfo", V2_MOUNT),
        ("sys/fs/cgroup/app/cpu.max", "300000 100000\n"),
        ("sys/fs/cgroup/app/web/cpu.max", "max 100000\n"),
    ];
    assert_eq!(quota(Root::new(&files).0.path()), Some(3.0));
}

#[test]
fn a_quota_may_be_tiny() {
    let files = [
        ("proc/self/cgroup", "0::/\n"),
        ("proc/self/mountinfo", V2_MOUNT),
        ("sys/fs/cgroup/cpu.max", "1000 100000\n"),
    ];
    assert_eq!(quota(Root::new(&files).0.path()), Some(0.01));
}

#[test]
fn no_quota_is_no_limit() {
    let files = [
        ("proc/self/cgroup", "0::/\n4:memory:/\n"),
        ("proc/self/mountinfo", V2_MOUNT),
        ("sys/fs/cgroup/cpu.max", "max 100000\n"),
    ];
    assert_eq!(quota(Root::new(&files).0.path()), None);
    assert_eq!(quota(Path::new("/nonexistent")), None);
}

#[test]
fn a_quota_may_come_change_and_go() {
    let files = [
        ("proc/self/cgroup", "0::/app\n"),
        ("proc/self/mountinfo", V2_MOUNT),
        ("sys/fs/cgroup/app/cpu.weight", "100\n"),
    ];
    let root = Root::new(&files);
    let grant = Grant::find_in(root.0.path());
    assert_eq!(grant.quota(), None);
    let file = root.0.path().join("sys/fs/cgroup/app/cpu.max");
    for (text, expected) in
        [("300000 100000\n", Some(3.0)), ("50000 100000\n", Some(0.5)), ("max 100000\n", None)]
    {
        fs::write(&file, text).unwrap();
        assert_eq!(grant.quota(), expected);
    }
    assert_eq!(at_once(grant.processors(None)), mine().len());
    assert_eq!((grant.processors(Some(&mine()[..1])), grant.paid(3)), (1.0, 3.0));
    fs::write(&file, "10000 100000\n").unwrap();
    assert_eq!((grant.processors(None), at_once(0.1)), (0.1, 1));
    assert_eq!((grant.processors(Some(&mine())), grant.paid(3)), (0.1, 0.1));
    fs::remove_file(&file).unwrap();
    assert_eq!(grant.quota(), None);
}

#[test]
fn version_1_in_a_container() {
    let files = [
        ("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n"),
        (
            "proc/self/mountinfo",
            "31 24 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             32 24 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        ),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
    ];
    assert_eq!(quota(Root::new(&files).0.path()), Some(4.0));
}

#[test]
fn version_1_without_a_quota() {
    let files = [
        ("proc/self/cgroup", "1:cpu:/\n"),
        ("proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
    ];
    assert_eq!(quota(Root::new(&files).0.path()), None);
}

/// On a thread of its own: no other thread sees its affinity.
#[test]
fn pinning_shows() {
    std::thread::spawn(|| {
        let all = mine();
        assert!(available() >= 1 && available() <= all.len());
        for &cpu in &all {
            pin(&[cpu]).unwrap();
            assert_eq!(mine(), [cpu]);
            assert_eq!((available(), is_single()), (1, true));
            assert_eq!(crate::sys::cpu::current() as usize, cpu);
            assert_eq!(allowed().unwrap(), all, "the process's first thread may use all");
        }
        pin(&all).unwrap();
        assert_eq!(mine(), all);
        let error = pin(&[1 << 13]).unwrap_err();
        assert!(error.to_string().contains("8192"), "{error}");
    })
    .join()
    .unwrap();
}

/// On threads of their own, for the same reason.
#[test]
fn a_thread_that_strays_is_taken_back() {
    std::thread::spawn(|| {
        let all = mine();
        let [first, .., last] = all[..] else { return println!("skipped: one CPU") };
        let tid = || crate::sys::kthread::gettid().cast_unsigned();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(tid()).unwrap();
            let _ = ended.recv();
            mine()
        });
        let threads = [tid(), told.recv().unwrap()];
        assert!(strays_from(&[first]) && !strays_from(&all) && !strays_from(&[1 << 13]));
        // What it may not use is no reason, and nothing to go to.
        take_back(threads.into_iter(), &[1 << 13]);
        assert_eq!(mine(), all);
        take_back(threads.into_iter(), &[first, 1 << 13]);
        assert_eq!((mine(), strays_from(&[first])), (vec![first], false));
        // Elsewhere, it has not strayed: it was sent.
        assert!(!strays_from(&[last]));
        take_back(threads.into_iter(), &[last]);
        drop(end);
        assert_eq!((mine(), other.join().unwrap()), (vec![first], vec![first]));
    })
    .join()
    .unwrap();
}

#[test]
fn a_thread_may_be_pinned_like_another() {
    let all = mine();
    let tid = || crate::sys::kthread::gettid().cast_unsigned();
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let cpu = all[0];
    let other = std::thread::spawn(move || {
        pin(&[cpu]).unwrap();
        tell.send(tid()).unwrap();
        let _ = ended.recv();
    });
    let other_tid = told.recv().unwrap();
    let like = std::thread::spawn(move || {
        pin_like(other_tid);
        mine()
    });
    assert_eq!((like.join().unwrap(), mine()), (vec![cpu], all));
    drop(end);
    other.join().unwrap();
}
