//! Selvedge's runtimes as contenders.

use selvedge::mxn::ThreadRegister;
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::contender::{Contender, Workload};
use super::harness::{Case, Side};
use super::selvedge::Private;

impl Contender for Private {
    fn start(body: impl FnOnce() + Send + 'static) -> Self::Thread {
        thread::spawn(body)
    }
}

/// Our runtimes, with this workload.
pub(crate) fn all<W: Workload>(workload: W) -> Vec<Case> {
    vec![
        Case::new("mxn", Side::Ours, move |effort| {
            let rt = Mxn::new().unwrap();
            rt.run(|| effort.spend(|n| workload.threads::<Private>(n)))
        }),
        Case::new("mxn, register by syscall", Side::Ours, move |effort| {
            let rt = Mxn::builder().thread_register(ThreadRegister::Syscall).build().unwrap();
            rt.run(|| effort.spend(|n| workload.threads::<Private>(n)))
        }),
        Case::new("mxn, 1 slot", Side::Ours, move |effort| {
            let rt = Mxn::builder().concurrency(1).build().unwrap();
            rt.run(|| effort.spend(|n| workload.threads::<Private>(n)))
        }),
        Case::new("mxn, 1 slot, by syscall", Side::Ours, move |effort| {
            let rt = Mxn::builder().concurrency(1).thread_register(ThreadRegister::Syscall).build().unwrap();
            rt.run(|| effort.spend(|n| workload.threads::<Private>(n)))
        }),
        Case::new("onetoone", Side::Ours, move |effort| {
            let rt = OneToOne::new().unwrap();
            rt.run(|| effort.spend(|n| workload.threads::<Private>(n)))
        }),
    ]
}

/// Our M:N runtime without time slices, to see what it costs that they may end.
pub(crate) fn cooperative<W: Workload>(workload: W) -> Vec<Case> {
    vec![
        Case::new("mxn, cooperative", Side::Ours, move |effort| {
            let rt = Mxn::builder().time_slice(None).build().unwrap();
            rt.run(|| effort.spend(|n| workload.threads::<Private>(n)))
        }),
        Case::new("mxn, 1 slot, cooperative", Side::Ours, move |effort| {
            let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
            rt.run(|| effort.spend(|n| workload.threads::<Private>(n)))
        }),
    ]
}
