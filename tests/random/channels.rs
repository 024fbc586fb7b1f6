//! Channels: bounded, unbounded and rendezvous, and a `Select` that receives from two.

use std::collections::VecDeque;
use std::sync::Mutex as StdMutex;

use proptest::prelude::*;
use selvedge::WaitError;
use selvedge::channel::{
    self, Receiver, RecvWithError, Select, SendWithError, Sender, TryRecvError, TrySendError,
};
use selvedge::thread::Thread;

use crate::CASES;
use crate::crew::{WORKERS, check, manners};
use crate::engine::{Length, Manner, Move, Ret, Spec, View};

const CHANNELS: usize = 2;

/// Two channels of this capacity. Each worker either sends or receives.
#[derive(Clone, Copy, Debug)]
struct Pair {
    capacity: Option<usize>,
    sends: [bool; WORKERS],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Send(usize, u32, Manner),
    Receive(usize, Manner),
    /// Receives from either channel.
    Select(Manner),
    Leave,
}

/// The ends that a worker has.
#[derive(Clone)]
enum Ends {
    Senders([Sender<u32>; CHANNELS]),
    Receivers([Receiver<u32>; CHANNELS]),
}

/// The phase of a rendezvous call between its beginning and its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    None,
    /// The other side can find the sender, with its channel and message.
    Offers(usize, u32),
    /// The other side can find the receiver, on these channels.
    Asks([bool; CHANNELS]),
    /// The other side has found it.
    Sent,
    Got(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    capacity: Option<usize>,
    queues: [VecDeque<u32>; CHANNELS],
    phases: [Phase; WORKERS],
    sends: [bool; WORKERS],
    is_there: [bool; WORKERS],
}

impl State {
    fn other_side_is_gone(&self, sends: bool) -> bool {
        (0..WORKERS).all(|one| self.sends[one] == sends || !self.is_there[one])
    }

    fn with_phase(&self, me: usize, phase: Phase) -> Self {
        let mut state = self.clone();
        state.phases[me] = phase;
        state
    }
}

fn send(sender: &Sender<u32>, message: u32, manner: Manner) -> Ret {
    let ended = match (manner.wait, manner.interruptible, manner.time()) {
        (Length::Try, ..) => sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => Ret::No,
            TrySendError::Disconnected(_) => Ret::Gone,
        }),
        (_, false, None) => sender.send(message).map_err(|_| Ret::Gone),
        (_, false, Some(time)) => sender
            .send_timeout(message, time)
            .map_err(|error| if error.is_timeout() { Ret::No } else { Ret::Gone }),
        (_, true, _) => sender.send_with(message, manner.limits()).map_err(|error| match error {
            SendWithError::Interrupted(_) => Ret::Interrupted,
            SendWithError::Timeout(_) => Ret::No,
            SendWithError::Disconnected(_) => Ret::Gone,
        }),
    };
    ended.map_or_else(|ret| ret, |()| Ret::Done)
}

fn receive(receiver: &Receiver<u32>, manner: Manner) -> Ret {
    let ended = match (manner.wait, manner.interruptible, manner.time()) {
        (Length::Try, ..) => receiver.try_recv().map_err(|error| match error {
            TryRecvError::Empty => Ret::No,
            TryRecvError::Disconnected => Ret::Gone,
        }),
        (_, false, None) => receiver.recv().map_err(|_| Ret::Gone),
        (_, false, Some(time)) => {
            receiver.recv_timeout(time).map_err(|error| if error.is_timeout() { Ret::No } else { Ret::Gone })
        }
        (_, true, _) => receiver.recv_with(manner.limits()).map_err(|error| match error {
            RecvWithError::Interrupted => Ret::Interrupted,
            RecvWithError::Timeout => Ret::No,
            RecvWithError::Disconnected => Ret::Gone,
        }),
    };
    ended.map_or_else(|ret| ret, Ret::Value)
}

fn select(receivers: &[Receiver<u32>; CHANNELS], manner: Manner) -> Ret {
    let mut select = Select::new();
    receivers.iter().for_each(|receiver| _ = select.recv(receiver));
    let selected = match (manner.wait, manner.interruptible, manner.time()) {
        (Length::Try, ..) => select.try_select().map_err(|_| Ret::No),
        (_, false, None) => Ok(select.select()),
        (_, false, Some(time)) => select.select_timeout(time).map_err(|_| Ret::No),
        (_, true, _) => select.select_with(manner.limits()).map_err(|error| match error {
            WaitError::Interrupted => Ret::Interrupted,
            WaitError::TimedOut => Ret::No,
        }),
    };
    match selected {
        Ok(operation) => {
            let receiver = &receivers[operation.index()];
            operation.recv(receiver).map_or(Ret::Gone, Ret::Value)
        }
        Err(ret) => ret,
    }
}

impl Spec for Pair {
    type Op = Op;
    type State = State;
    type World = [StdMutex<Option<Ends>>; WORKERS];

    fn world(&self) -> Self::World {
        let pairs = [(); CHANNELS].map(|()| match self.capacity {
            None => channel::unbounded(),
            Some(capacity) => channel::bounded(capacity),
        });
        std::array::from_fn(|one| {
            let ends = if self.sends[one] {
                Ends::Senders(std::array::from_fn(|channel| pairs[channel].0.clone()))
            } else {
                Ends::Receivers(std::array::from_fn(|channel| pairs[channel].1.clone()))
            };
            StdMutex::new(Some(ends))
        })
    }

    fn state(&self) -> State {
        State {
            capacity: self.capacity,
            queues: Default::default(),
            phases: [const { Phase::None }; WORKERS],
            sends: self.sends,
            is_there: [true; WORKERS],
        }
    }

    fn run(world: &Self::World, _crew: &[Thread], me: usize, op: &Op) -> Ret {
        // The ends are taken out for the call, so that no lock is held during it.
        let ends = world[me].lock().unwrap().take().expect("it is there");
        let ret = match (op, &ends) {
            (Op::Leave, _) => {
                drop(ends);
                return Ret::Done;
            }
            (Op::Send(channel, message, manner), Ends::Senders(senders)) => {
                send(&senders[*channel], *message, *manner)
            }
            (Op::Receive(channel, manner), Ends::Receivers(receivers)) => {
                receive(&receivers[*channel], *manner)
            }
            (Op::Select(manner), Ends::Receivers(receivers)) => select(receivers, *manner),
            _ => unreachable!("not legal"),
        };
        *world[me].lock().unwrap() = Some(ends);
        ret
    }

    fn is_legal(view: &View<'_, Self>, op: &Op) -> bool {
        let sends = view.state.sends[view.me];
        view.state.is_there[view.me]
            && match op {
                Op::Send(..) => sends,
                Op::Receive(..) | Op::Select(_) => !sends,
                Op::Leave => true,
            }
    }

    fn moves(view: &View<'_, Self>, op: &Op) -> Vec<Move<State>> {
        let (state, me) = (view.state, view.me);
        match *op {
            Op::Leave => {
                let mut state = state.clone();
                state.is_there[me] = false;
                view.does(state, Ret::Done)
            }
            Op::Send(channel, message, manner) => Self::send_moves(view, channel, message, manner),
            Op::Receive(channel, manner) => {
                Self::receive_moves(view, std::array::from_fn(|one| one == channel), manner)
            }
            Op::Select(manner) => Self::receive_moves(view, [true; CHANNELS], manner),
        }
    }

    /// Idle workers leave. If calls still block then, the last worker sends or receives.
    fn release(state: &State, idle: &[usize]) -> Option<(usize, Op)> {
        const LAST: usize = WORKERS - 1;
        let brief = Manner { wait: Length::Brief, interruptible: false };
        if let Some(one) = idle.iter().find(|&&one| one != LAST && state.is_there[one]) {
            return Some((*one, Op::Leave));
        }
        if !state.sends[LAST] {
            return Some((LAST, Op::Select(brief)));
        }
        let asks = |channel: &usize| {
            state.phases.iter().any(|phase| matches!(phase, Phase::Asks(channels) if channels[*channel]))
        };
        let shortest = || (0..CHANNELS).min_by_key(|&channel| state.queues[channel].len());
        let channel = (0..CHANNELS).find(asks).or_else(shortest)?;
        Some((LAST, Op::Send(channel, 0, brief)))
    }
}

impl Pair {
    fn send_moves(view: &View<'_, Self>, channel: usize, message: u32, manner: Manner) -> Vec<Move<State>> {
        let (state, me) = (view.state, view.me);
        if state.phases[me] == Phase::Sent {
            return view.does(state.with_phase(me, Phase::None), Ret::Done);
        }
        let mut moves = view.is_interrupted(manner);
        if state.other_side_is_gone(true) {
            moves.extend(view.does(state.clone(), Ret::Gone));
        } else if state.capacity == Some(0) {
            // A receiver that asks gets the message.
            for one in 0..WORKERS {
                if matches!(&state.phases[one], Phase::Asks(channels) if channels[channel]) {
                    moves.extend(view.does(state.with_phase(one, Phase::Got(message)), Ret::Done));
                }
            }
            if moves.iter().all(|step| step.ret != Some(Ret::Done)) {
                moves.extend(view.gives_up(manner));
            }
            if state.phases[me] == Phase::None && manner.wait != Length::Try {
                moves.push(view.goes_on(state.with_phase(me, Phase::Offers(channel, message))));
            }
        } else if state.capacity.is_none_or(|capacity| state.queues[channel].len() < capacity) {
            let mut state = state.clone();
            state.queues[channel].push_back(message);
            moves.extend(view.does(state, Ret::Done));
        } else {
            moves.extend(view.gives_up(manner));
        }
        Self::in_no_phase(me, moves)
    }

    fn receive_moves(view: &View<'_, Self>, channels: [bool; CHANNELS], manner: Manner) -> Vec<Move<State>> {
        let (state, me) = (view.state, view.me);
        if let Phase::Got(message) = state.phases[me] {
            return view.does(state.with_phase(me, Phase::None), Ret::Value(message));
        }
        let mut moves = view.is_interrupted(manner);
        let mut is_ready = false;
        for channel in (0..CHANNELS).filter(|&channel| channels[channel]) {
            let mut rest = state.clone();
            if let Some(message) = rest.queues[channel].pop_front() {
                moves.extend(view.does(rest, Ret::Value(message)));
                is_ready = true;
            }
            for one in 0..WORKERS {
                if let Phase::Offers(of, message) = state.phases[one]
                    && of == channel
                {
                    moves.extend(view.does(state.with_phase(one, Phase::Sent), Ret::Value(message)));
                    is_ready = true;
                }
            }
        }
        let messages_left =
            channels.iter().zip(&state.queues).any(|(asks, queue)| *asks && !queue.is_empty());
        if state.other_side_is_gone(false) && (!messages_left || channels == [true; CHANNELS]) {
            // Of two channels, a select may choose the empty one.
            let is_empty = |(asks, queue): (&bool, &VecDeque<u32>)| *asks && queue.is_empty();
            if channels.iter().zip(&state.queues).any(is_empty) {
                moves.extend(view.does(state.clone(), Ret::Gone));
                is_ready = true;
            }
        }
        if !is_ready {
            moves.extend(view.gives_up(manner));
        }
        if state.capacity == Some(0) && state.phases[me] == Phase::None && manner.wait != Length::Try {
            moves.push(view.goes_on(state.with_phase(me, Phase::Asks(channels))));
        }
        Self::in_no_phase(me, moves)
    }

    /// The other side cannot find a call that returns.
    fn in_no_phase(me: usize, mut moves: Vec<Move<State>>) -> Vec<Move<State>> {
        moves
            .iter_mut()
            .filter(|step| step.ret.is_some())
            .for_each(|step| step.state.phases[me] = Phase::None);
        moves
    }
}

fn check_with(capacity: impl Strategy<Value = Option<usize>>) {
    let channel = || 0..CHANNELS;
    let ops = prop_oneof![
        6 => (channel(), 0..100_u32, manners()).prop_map(|(channel, message, manner)| Op::Send(channel, message, manner)),
        4 => (channel(), manners()).prop_map(|(channel, manner)| Op::Receive(channel, manner)),
        3 => manners().prop_map(Op::Select),
        1 => Just(Op::Leave),
    ];
    let sides = prop::array::uniform(any::<bool>());
    check(2 * CASES, (capacity, sides).prop_map(|(capacity, sends)| Pair { capacity, sends }), ops);
}

#[test]
fn a_bounded_channel_gives_what_it_was_given() {
    check_with((1..3_usize).prop_map(Some));
}

#[test]
fn an_unbounded_channel_gives_what_it_was_given() {
    check_with(Just(None));
}

#[test]
fn a_rendezvous_takes_two() {
    check_with(Just(Some(0)));
}
