//! Selvedge's runtimes as contenders.

use selvedge::ThreadRegister;
use selvedge::mxn::Builder;
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::contender::{Contender, Scene};
use super::harness::{Case, Effort, Run, Side};
use super::selvedge::Private;

impl Contender for Private {
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread {
        thread::spawn(body)
    }
}

/// Our runtimes, with this scene: M:N on each rung of the ladder.
pub(crate) fn all(scene: impl Scene) -> Vec<Case> {
    vec![
        mxn("mxn", scene, |builder| builder),
        mxn("mxn, register by syscall", scene, by_syscall),
        mxn("mxn, pinned", scene, pinned),
        mxn("mxn, 1 slot", scene, |builder| builder.concurrency(1)),
        mxn("mxn, 1 slot, by syscall", scene, |builder| by_syscall(builder.concurrency(1))),
        Case::new("onetoone", Side::Ours, move |effort| {
            let rt = OneToOne::new().unwrap();
            rt.run(|| scene.play::<Private>(effort))
        }),
    ]
}

/// Our M:N runtime without time slices, to see what it costs that they may end.
pub(crate) fn cooperative(scene: impl Scene) -> Vec<Case> {
    vec![
        mxn("mxn, cooperative", scene, |builder| builder.time_slice(None)),
        mxn("mxn, 1 slot, cooperative", scene, |builder| builder.concurrency(1).time_slice(None)),
    ]
}

fn by_syscall(builder: Builder) -> Builder {
    builder.thread_register(ThreadRegister::Syscall)
}

fn pinned(builder: Builder) -> Builder {
    // SAFETY: the scenes keep no thread-local borrowed, and no lock of std held, where a thread may wait.
    unsafe { builder.pinned() }
}

fn mxn(name: &'static str, scene: impl Scene, set_up: fn(Builder) -> Builder) -> Case {
    mxn_of::<Private>(name, scene, set_up)
}

/// Our M:N runtime, set up like this, with the locks and sockets of `C`.
pub(crate) fn mxn_of<C: Contender>(
    name: &'static str,
    scene: impl Scene,
    set_up: fn(Builder) -> Builder,
) -> Case {
    Case::new(name, Side::Ours, move |effort| {
        let rt = set_up(Mxn::builder()).build().unwrap();
        rt.run(|| scene.play::<C>(effort))
    })
}

/// M:N, set up like this, with a further figure. `count` makes it of the number of LWPs that have run green
/// threads by the end.
pub(crate) fn counting_lwps(
    name: &'static str,
    set_up: fn(Builder) -> Builder,
    play: impl Fn(Effort) -> Run + Send + Sync + 'static,
    count: impl Fn(usize) -> f64 + 'static,
) -> Case {
    Case::new(name, Side::Ours, move |effort| {
        let rt = set_up(Mxn::builder()).build().unwrap();
        let run = rt.run(|| play(effort));
        let lwps = rt.stats().lwps.iter().filter(|lwp| lwp.dispatches > 0).count();
        Run { more: vec![count(lwps)], ..run }
    })
}

/// What a sample's process does before a question with threads that block in the kernel: M:N may have as many
/// LWPs as there can be.
pub(crate) fn allow_all_lwps() {
    // SAFETY: the process has no other thread yet.
    unsafe { std::env::set_var("SELVEDGE_MAX_LWPS", "2047") };
}
