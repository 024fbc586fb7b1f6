//! Messages through the channels of each library.

use std::hint::black_box;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use selvedge::channel;

use crate::support::contender::{Contender, Scene, called, tokio};
use crate::support::harness::{Case, Effort, Run};
use crate::support::library::Library;
use crate::support::ours;

/// An operation is one message through the channel.
#[derive(Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) capacity: Option<usize>,
    pub(crate) senders: u64,
    pub(crate) receivers: u64,
}

/// A library's channels.
trait Channels: Copy + Send + Sync + 'static {
    type Sender: Clone + Send + 'static;
    type Receiver: Send + 'static;

    /// One channel with so many receivers; `None`: there is no such.
    fn make(capacity: Option<usize>, receivers: u64) -> Option<(Self::Sender, Vec<Self::Receiver>)>;
    fn send(sender: &Self::Sender, message: u64);
    fn receive(receiver: &Self::Receiver) -> u64;
}

/// Traffic through the channels of `C`.
#[derive(Clone, Copy)]
struct Through<C> {
    traffic: Traffic,
    channels: PhantomData<C>,
}

impl<C: Channels> Scene for Through<C> {
    fn play<L: Contender>(self, effort: Effort) -> Run {
        effort.spend(|messages| self.traffic.pass::<L, C>(messages))
    }
}

impl Traffic {
    /// All libraries that have such channels, on the threads that they are made for.
    pub(crate) fn cases(self) -> Vec<Case> {
        let mut cases = ours::all(self.through::<Ours>());
        self.add::<Crossbeam>(&mut cases, "crossbeam-channel", "std");
        self.add::<Flume>(&mut cases, "flume", "std");
        self.add::<StdMpsc>(&mut cases, "std mpsc", "std");
        self.add::<MayChannels>(&mut cases, "may", "may");
        self.add::<MayChannels>(&mut cases, "may, 1 worker", "may, 1 worker");
        if self.receivers == 1 && self.capacity != Some(0) {
            cases.extend(tokio(move |n| self.tasks(n), |_| ()));
        }
        cases
    }

    fn through<C: Channels>(self) -> Through<C> {
        Through { traffic: self, channels: PhantomData }
    }

    /// Adds channels between the threads of this contender, if there are such.
    fn add<C: Channels>(self, cases: &mut Vec<Case>, name: &'static str, threads: &str) {
        if C::make(self.capacity, self.receivers).is_some() {
            cases.push(called(name, threads, self.through::<C>()));
        }
    }

    fn pass<L: Contender, C: Channels>(self, messages: u64) -> Duration {
        let (sender, receivers) = C::make(self.capacity, self.receivers).expect("asked before");
        let all = messages.next_multiple_of(self.senders * self.receivers);
        let (each_sends, each_receives) = (all / self.senders, all / self.receivers);
        let start = Instant::now();
        let mut threads: Vec<<L as Library>::Thread> = Vec::new();
        for receiver in receivers {
            threads.push(L::start(move || {
                for _ in 0..each_receives {
                    black_box(C::receive(&receiver));
                }
            }));
        }
        for _ in 0..self.senders {
            let sender = sender.clone();
            threads.push(L::start(move || (0..each_sends).for_each(|message| C::send(&sender, message))));
        }
        threads.into_iter().for_each(L::join);
        start.elapsed().mul_f64(messages as f64 / all as f64)
    }

    /// The same on tokio's tasks.
    async fn tasks(self, messages: u64) -> Duration {
        let all = messages.next_multiple_of(self.senders);
        let each = all / self.senders;
        let start = Instant::now();
        let mut tasks = Vec::new();
        if let Some(capacity) = self.capacity {
            let (sender, mut receiver) = tokio::sync::mpsc::channel(capacity);
            for _ in 0..self.senders {
                let sender = sender.clone();
                tasks.push(tokio::spawn(async move {
                    for message in 0..each {
                        sender.send(message).await.unwrap();
                    }
                }));
            }
            drop(sender);
            while let Some(message) = receiver.recv().await {
                black_box::<u64>(message);
            }
        } else {
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            for _ in 0..self.senders {
                let sender = sender.clone();
                tasks.push(tokio::spawn(async move { (0..each).for_each(|n| sender.send(n).unwrap()) }));
            }
            drop(sender);
            while let Some(message) = receiver.recv().await {
                black_box::<u64>(message);
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        start.elapsed().mul_f64(messages as f64 / all as f64)
    }
}

#[derive(Clone, Copy)]
enum Ours {}

impl Channels for Ours {
    type Sender = channel::Sender<u64>;
    type Receiver = channel::Receiver<u64>;

    fn make(capacity: Option<usize>, receivers: u64) -> Option<(Self::Sender, Vec<Self::Receiver>)> {
        let (s, r) = capacity.map_or_else(channel::unbounded, channel::bounded);
        Some((s, (0..receivers).map(|_| r.clone()).collect()))
    }

    fn send(sender: &Self::Sender, message: u64) {
        sender.send(message).unwrap();
    }

    fn receive(receiver: &Self::Receiver) -> u64 {
        receiver.recv().unwrap()
    }
}

#[derive(Clone, Copy)]
enum Crossbeam {}

impl Channels for Crossbeam {
    type Sender = crossbeam_channel::Sender<u64>;
    type Receiver = crossbeam_channel::Receiver<u64>;

    fn make(capacity: Option<usize>, receivers: u64) -> Option<(Self::Sender, Vec<Self::Receiver>)> {
        let (s, r) = capacity.map_or_else(crossbeam_channel::unbounded, crossbeam_channel::bounded);
        Some((s, (0..receivers).map(|_| r.clone()).collect()))
    }

    fn send(sender: &Self::Sender, message: u64) {
        sender.send(message).unwrap();
    }

    fn receive(receiver: &Self::Receiver) -> u64 {
        receiver.recv().unwrap()
    }
}

#[derive(Clone, Copy)]
enum Flume {}

impl Channels for Flume {
    type Sender = flume::Sender<u64>;
    type Receiver = flume::Receiver<u64>;

    fn make(capacity: Option<usize>, receivers: u64) -> Option<(Self::Sender, Vec<Self::Receiver>)> {
        let (s, r) = capacity.map_or_else(flume::unbounded, flume::bounded);
        Some((s, (0..receivers).map(|_| r.clone()).collect()))
    }

    fn send(sender: &Self::Sender, message: u64) {
        sender.send(message).unwrap();
    }

    fn receive(receiver: &Self::Receiver) -> u64 {
        receiver.recv().unwrap()
    }
}

#[derive(Clone, Copy)]
enum StdMpsc {}

/// The senders of std's two kinds.
#[derive(Clone)]
enum StdSender {
    Sync(std::sync::mpsc::SyncSender<u64>),
    Unbounded(std::sync::mpsc::Sender<u64>),
}

impl Channels for StdMpsc {
    type Sender = StdSender;
    type Receiver = std::sync::mpsc::Receiver<u64>;

    fn make(capacity: Option<usize>, receivers: u64) -> Option<(Self::Sender, Vec<Self::Receiver>)> {
        if receivers != 1 {
            return None;
        }
        Some(match capacity {
            Some(capacity) => {
                let (s, r) = std::sync::mpsc::sync_channel(capacity);
                (StdSender::Sync(s), vec![r])
            }
            None => {
                let (s, r) = std::sync::mpsc::channel();
                (StdSender::Unbounded(s), vec![r])
            }
        })
    }

    fn send(sender: &Self::Sender, message: u64) {
        match sender {
            StdSender::Sync(s) => s.send(message).unwrap(),
            StdSender::Unbounded(s) => s.send(message).unwrap(),
        }
    }

    fn receive(receiver: &Self::Receiver) -> u64 {
        receiver.recv().unwrap()
    }
}

#[derive(Clone, Copy)]
enum MayChannels {}

/// Its two kinds, both without bounds.
enum MayReceiver {
    One(may::sync::mpsc::Receiver<u64>),
    Any(may::sync::mpmc::Receiver<u64>),
}

#[derive(Clone)]
enum MaySender {
    One(may::sync::mpsc::Sender<u64>),
    Any(may::sync::mpmc::Sender<u64>),
}

impl Channels for MayChannels {
    type Sender = MaySender;
    type Receiver = MayReceiver;

    fn make(capacity: Option<usize>, receivers: u64) -> Option<(Self::Sender, Vec<Self::Receiver>)> {
        match (capacity, receivers) {
            (Some(_), _) => None,
            (None, 1) => {
                let (s, r) = may::sync::mpsc::channel();
                Some((MaySender::One(s), vec![MayReceiver::One(r)]))
            }
            (None, _) => {
                let (s, r) = may::sync::mpmc::channel();
                Some((MaySender::Any(s), (0..receivers).map(|_| MayReceiver::Any(r.clone())).collect()))
            }
        }
    }

    fn send(sender: &Self::Sender, message: u64) {
        match sender {
            MaySender::One(s) => s.send(message).unwrap(),
            MaySender::Any(s) => s.send(message).unwrap(),
        }
    }

    fn receive(receiver: &Self::Receiver) -> u64 {
        match receiver {
            MayReceiver::One(r) => r.recv().unwrap(),
            MayReceiver::Any(r) => r.recv().unwrap(),
        }
    }
}
