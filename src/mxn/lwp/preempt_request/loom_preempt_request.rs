//! A request to leave, between the monitor and the handler on the LWP: which thread loses its slice.

use std::sync::Arc;

use super::{Answer, Manner, PreemptRequest, Preemption};
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{AtomicU32, Ordering};

/// A request to the thread of dispatch 1.
const FIRST: Preemption = Preemption { tick: 1, manner: Manner::Polite };

struct Model {
    request: PreemptRequest,
    /// The LWP's dispatch tick.
    tick: AtomicU32,
}

impl Model {
    fn new() -> Arc<Self> {
        let model = Self { request: PreemptRequest::new(), tick: AtomicU32::new(1) };
        assert_eq!((model.request.answer(1), model.tick.load(Ordering::Relaxed)), (Answer::None, 1));
        Arc::new(model)
    }

    /// Plays the handler. Returns the dispatch that it preempts, if any.
    fn handle(&self) -> Option<u32> {
        let Preemption { tick: asked, .. } = self.request.take()?;
        let now = self.tick.load(Ordering::Relaxed);
        (asked == now).then_some(now)
    }
}

/// Models a monitor that asks for dispatch 1, and sends the signal. Meanwhile the LWP may dispatch, and
/// another signal may arrive before.
fn ask_once(handle: fn(&Model) -> Option<u32>) {
    model(move || {
        let model = Model::new();
        let monitor = spawn_with(Arc::clone(&model), move |model| model.request.ask(FIRST));
        // A signal that comes early, the dispatch, and the signal that was sent.
        let early = handle(&model);
        model.tick.store(2, Ordering::Relaxed);
        let late = handle(&model);
        monitor.join().unwrap();
        let last = handle(&model);
        assert_ne!(late.or(last), Some(2), "a thread that was not meant lost its slice");
        assert!(early != Some(1) || late.or(last).is_none(), "asked once, preempted twice");
        assert_ne!(model.request.answer(2), Answer::Pending);
    });
}

#[test]
fn only_the_dispatch_that_was_meant_is_preempted_and_once() {
    ask_once(Model::handle);
}

/// A request that names no dispatch.
#[test]
#[should_panic(expected = "a thread that was not meant lost its slice")]
fn negative_without_comparing_the_tick() {
    ask_once(|model| model.request.take().map(|_| model.tick.load(Ordering::Relaxed)));
}

/// Models a monitor that asks again when a refusal has been counted. The handler's answer to the first must
/// not hide the second.
#[test]
fn a_second_request_is_answered() {
    model(|| {
        let model = Model::new();
        model.request.ask(FIRST);
        let lwp = spawn_with(Arc::clone(&model), move |model| match model.request.take() {
            Some(asked) => model.request.refuse(asked.tick),
            None => panic!("a signal without a request"),
        });
        let refused = model.request.answer(1) == Answer::Refused;
        if refused {
            model.request.ask(FIRST);
        }
        lwp.join().unwrap();
        if refused {
            assert_eq!(model.request.take(), Some(FIRST), "the second request is lost");
        } else {
            assert_eq!(model.request.answer(1), Answer::Refused);
        }
    });
}

/// A handler that refuses before it has taken the request.
#[test]
#[should_panic(expected = "the second request is lost")]
fn negative_refusing_before_taking() {
    model(|| {
        let model = Model::new();
        model.request.ask(FIRST);
        let lwp = spawn_with(Arc::clone(&model), move |model| {
            model.request.refuse(1);
            let _ = model.request.take();
        });
        let refused = model.request.answer(1) == Answer::Refused;
        if refused {
            model.request.ask(FIRST);
        }
        lwp.join().unwrap();
        assert!(!refused || model.request.take() == Some(FIRST), "the second request is lost");
    });
}
