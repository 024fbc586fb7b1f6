//! The table of wait queues, compared with lists. One thread links all waiters, and none of them sleeps.

use proptest::prelude::*;

use super::{Grants, Options, Order, Token, Waiter, Woken};
use crate::park::backend::Sleep;
use crate::park::current::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleep_word::{CODE_SHIFT, GRANTED};
use crate::park::table;
use crate::park::tests::random;
use crate::park::wait::{Wait, WaitError};
use crate::shim::bucket_of;
use crate::sys::child_tests as child;

/// The number of queues. The first four belong to one word, the fifth shares their bucket, and the sixth is
/// in another bucket.
const KEYS: usize = 6;

/// How many waiters of higher priority pass a lower one (`park::table`), and how many arrivals at the front
/// it takes until one goes to the back.
const MAX_BYPASS: u32 = 16;
const FIFO_EVERY: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Wish {
    key: usize,
    order: Order,
    priority: u8,
    urgent: bool,
    demand: usize,
    heir: bool,
    /// The waiter is on its way into the kernel when it is granted.
    commits: bool,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Link(Wish),
    GrantOne(usize),
    /// Grants this many times.
    GrantEach(usize, usize),
    GrantAll(usize, bool),
    /// Grants while the sum of the demands is at most this.
    GrantWhile(usize, usize),
    /// Grants one waiter, and up to this many others with it.
    GrantInCompany(usize, usize),
    Requeue(usize, usize, bool),
    /// Any waiter, even one that is out of its queue.
    Expire(usize),
    Interrupt(usize),
    WakeHeirs,
}

/// A waiter in the reference model.
#[derive(Clone, Copy, Debug)]
struct Waits {
    number: usize,
    wish: Wish,
    arrival: u32,
    moved: bool,
}

/// The reference model: for each key, a list of waiters and the number that have passed.
#[derive(Default)]
struct Lists {
    queues: [Vec<Waits>; KEYS],
    passed: [u32; KEYS],
}

impl Lists {
    fn link(&mut self, key: usize, waits: Waits, order: Order) {
        let queue = &mut self.queues[key];
        if queue.is_empty() {
            self.passed[key] = 0;
        }
        let to_front = match order {
            Order::NearLifo => !waits.arrival.is_multiple_of(FIFO_EVERY),
            Order::Fifo => false,
            Order::Again => true,
        };
        let mine = waits.wish.priority;
        let position = if to_front {
            queue.iter().position(|other| other.wish.priority <= mine).unwrap_or(queue.len())
        } else {
            queue.iter().rposition(|other| other.wish.priority >= mine).map_or(0, |last| last + 1)
        };
        queue.insert(position, waits);
    }

    /// Returns the position of the waiter that is next, and how many will have passed then.
    fn next_waiter(&self, key: usize) -> Option<(usize, u32)> {
        let queue = &self.queues[key];
        let (first, last) = (queue.first()?.wish.priority, queue.last()?.wish.priority);
        Some(if first == last {
            (0, 0)
        } else if self.passed[key] < MAX_BYPASS {
            (0, self.passed[key] + 1)
        } else {
            let lowest = queue.iter().enumerate().filter(|(_, waits)| waits.wish.priority == last);
            (lowest.min_by_key(|(_, waits)| waits.arrival)?.0, 0)
        })
    }

    fn pop(&mut self, key: usize) -> Option<Waits> {
        let (position, passed) = self.next_waiter(key)?;
        self.passed[key] = passed;
        Some(self.queues[key].remove(position))
    }

    fn pop_while(&mut self, key: usize, mut takes: impl FnMut(&Waits) -> bool) -> Vec<Waits> {
        let mut taken = Vec::new();
        while let Some((next, _)) = self.next_waiter(key) {
            if !takes(&self.queues[key][next]) {
                break;
            }
            taken.extend(self.pop(key));
        }
        taken
    }

    /// Takes the waiter of this number out. Returns `true` if it was in a list.
    fn remove(&mut self, number: usize) -> bool {
        let before = self.len();
        self.queues.iter_mut().for_each(|queue| queue.retain(|waits| waits.number != number));
        self.len() < before
    }

    fn len(&self) -> usize {
        self.queues.iter().map(Vec::len).sum()
    }
}

/// Owns the words that have the keys as addresses, so that no other queue has these keys. No key is
/// dereferenced.
struct Anchors {
    _words: Vec<u32>,
    keys: [usize; KEYS],
}

impl Anchors {
    fn new() -> Self {
        // More words than buckets, so that two of them share one.
        let words = vec![0_u32; (2 << crate::shim::BUCKET_BITS) + 2];
        let address = |word: usize| std::ptr::from_ref(&words[word]).addr();
        let first = address(0);
        let shares = (1..words.len()).map(address).find(|&key| bucket_of(key) == bucket_of(first));
        let apart = (1..words.len()).map(address).find(|&key| bucket_of(key) != bucket_of(first));
        let keys = [first, first + 1, first + 2, first + 3, shares.expect("one"), apart.expect("one")];
        Self { _words: words, keys }
    }
}

/// A waiter in the table, and how its wait has ended in the reference.
struct Linked {
    waiter: Box<Waiter>,
    ended: Option<Woken>,
    moved: bool,
}

struct Pair {
    keys: [usize; KEYS],
    waiters: Vec<Linked>,
    lists: Lists,
}

impl Pair {
    fn link(&mut self, wish: Wish) {
        let options = Options {
            order: wish.order,
            urgent: wish.urgent,
            demand: wish.demand,
            heir: wish.heir,
            ..Options::new(WaitReason::Mutex, Wait::forever())
        };
        let mut waiter = Box::new(Waiter::new(current(), self.keys[wish.key], &options));
        waiter.priority = wish.priority;
        let arrival = table::with(&NoPreempt::hold(), self.keys[wish.key], |bucket| {
            // SAFETY: the waiter is on the heap, and out of its queue before it is freed: see `compare`.
            unsafe { bucket.link(&waiter, wish.order) };
            waiter.peek(|links| links.arrival)
        });
        if wish.commits {
            assert!(waiter.commit_kernel().is_some());
        }
        let waits = Waits { number: self.waiters.len(), wish, arrival, moved: false };
        self.lists.link(wish.key, waits, wish.order);
        self.waiters.push(Linked { waiter, ended: None, moved: false });
    }

    fn ended(&mut self, number: usize, how: Woken) {
        let ended = self.waiters[number].ended.replace(how);
        assert_eq!(ended, None, "the reference ends a wait twice");
    }

    /// Returns the numbers of the waiters in a list of grants.
    fn numbers(&self, grants: &Grants) -> Vec<usize> {
        let mut found = Vec::new();
        let mut this = grants.first;
        while !this.is_null() {
            let number = self.waiters.iter().position(|linked| std::ptr::eq(&*linked.waiter, this));
            found.push(number.expect("one of ours"));
            // SAFETY: the waiter is on the heap until the end, and not settled.
            this = unsafe { &*this }.peek(|links| links.next);
        }
        found
    }

    fn granted(&mut self, grants: Option<Grants>, expected: &[Waits], token: Token) {
        let Some(grants) = grants else { return assert!(expected.is_empty(), "none was granted") };
        assert_eq!(self.numbers(&grants), expected.iter().map(|waits| waits.number).collect::<Vec<_>>());
        assert_eq!(grants.wake_all(), expected.len());
        expected.iter().for_each(|waits| self.ended(waits.number, Woken::Granted(token)));
    }

    fn grant_one(&mut self, key: usize, token: Token) {
        let expected = self.lists.pop(key);
        let more = !self.lists.queues[key].is_empty();
        let grant = super::grant_one(self.keys[key], |found| {
            let found = found.map(|found| (found.more, found.urgent));
            assert_eq!(found, expected.map(|waits| (more, waits.wish.urgent)));
            token
        });
        assert_eq!(grant.is_some(), expected.is_some());
        if let (Some(grant), Some(waits)) = (grant, expected) {
            assert_eq!(
                grant.settled.wake, waits.wish.commits,
                "a kernel thread is woken if it has committed"
            );
            grant.wake();
            self.ended(waits.number, Woken::Granted(token));
        }
    }

    fn grant_while(&mut self, key: usize, budget: usize, token: Token) {
        let mut left = budget;
        let expected = self.lists.pop_while(key, |waits| {
            let takes = waits.wish.demand <= left;
            left -= if takes { waits.wish.demand } else { 0 };
            takes
        });
        let more = !self.lists.queues[key].is_empty();
        let takes = |left: &mut usize, demand| {
            let takes = demand <= *left;
            *left -= if takes { demand } else { 0 };
            takes
        };
        let grants = super::grant_while(
            self.keys[key],
            token,
            || budget,
            takes,
            |end, others| assert_eq!((end, others), (left, more)),
        );
        self.granted(grants, &expected, token);
    }

    fn grant_batch(&mut self, key: usize, others: usize, token: Token, company: Token) {
        let first = self.lists.pop(key);
        let mut with_it = Vec::new();
        if let Some(first) = first.filter(|first| first.moved && others > 0) {
            let mut left = others;
            with_it = self.lists.pop_while(key, |waits| {
                let takes = left > 0 && waits.moved && waits.wish.priority == first.wish.priority;
                left -= usize::from(takes);
                takes
            });
        }
        let more = !self.lists.queues[key].is_empty();
        let granted = super::grant_batch(
            self.keys[key],
            others,
            || usize::MAX,
            |_| company,
            |found| {
                assert_eq!(found.map(|found| found.more), first.map(|_| more));
                token
            },
        );
        let Some((grant, grants)) = granted else { return assert!(first.is_none()) };
        grant.wake();
        self.ended(first.expect("one is there").number, Woken::Granted(token));
        self.granted(Some(grants), &with_it, company);
    }

    fn requeue(&mut self, from: usize, to: usize, really: bool) {
        let moved = super::requeue(self.keys[from], self.keys[to], |_| really);
        let list = if really { std::mem::take(&mut self.lists.queues[from]) } else { Vec::new() };
        assert_eq!(moved, list.len());
        for waits in list {
            let linked = &mut self.waiters[waits.number];
            linked.moved = true;
            let arrival =
                table::with(&NoPreempt::hold(), self.keys[to], |_| linked.waiter.peek(|links| links.arrival));
            self.lists.link(to, Waits { arrival, moved: true, ..waits }, Order::Fifo);
        }
    }

    fn wake_heirs(&mut self, token: Token) {
        // Waiters of other tests, which run beside this one, are left alone.
        let mine: Vec<*const Waiter> = self.waiters.iter().map(|linked| &raw const *linked.waiter).collect();
        let chosen = |waiter: &Waiter| waiter.heir && mine.contains(&std::ptr::from_ref(waiter));
        let grants = |first| Grants { first, token, _no_preempt: NoPreempt::hold() };
        table::take::from_all(chosen, |first| _ = grants(first).wake_all());
        let heirs = self.lists.queues.iter().flatten().filter(|waits| waits.wish.heir);
        for number in heirs.map(|waits| waits.number).collect::<Vec<_>>() {
            assert!(self.lists.remove(number));
            self.ended(number, Woken::Granted(token));
        }
    }

    fn apply(&mut self, op: Op, token: Token) {
        match op {
            Op::Link(wish) => self.link(wish),
            Op::GrantOne(key) => self.grant_one(key, token),
            Op::GrantEach(key, times) => (0..times).for_each(|_| self.grant_one(key, token)),
            Op::GrantAll(key, really) => {
                let grants = super::grant_all(self.keys[key], token, || really);
                assert_eq!(grants.is_some(), really);
                let expected = if really { std::mem::take(&mut self.lists.queues[key]) } else { Vec::new() };
                self.granted(grants, &expected, token);
            }
            Op::GrantWhile(key, budget) => self.grant_while(key, budget, token),
            Op::GrantInCompany(key, others) => self.grant_batch(key, others, token, Token(token.0 ^ 128)),
            Op::Requeue(from, to, _) if from == to => {}
            Op::Requeue(from, to, really) => self.requeue(from, to, really),
            Op::Expire(_) | Op::Interrupt(_) if self.waiters.is_empty() => {}
            Op::Expire(which) => {
                let number = which % self.waiters.len();
                let linked = &self.waiters[number];
                // A kernel thread expires its own sleep.
                let (expired, moved) = (linked.waiter.expire(), linked.moved);
                self.left(number, expired, Woken::Ended { why: WaitError::TimedOut, moved });
            }
            Op::Interrupt(which) => {
                let number = which % self.waiters.len();
                let linked = &self.waiters[number];
                let (interrupted, moved) = (linked.waiter.interrupt(), linked.moved);
                self.left(number, interrupted, Woken::Ended { why: WaitError::Interrupted, moved });
            }
            Op::WakeHeirs => self.wake_heirs(token),
        }
    }

    fn left(&mut self, number: usize, won: bool, how: Woken) {
        assert_eq!(won, self.lists.remove(number), "{how:?}: table and reference disagree");
        if won {
            self.ended(number, how);
        }
    }

    /// Checks that each waiter is asleep, or has woken as the reference says.
    fn check(&self) {
        for (number, linked) in self.waiters.iter().enumerate() {
            let waiter = &linked.waiter;
            let is_in = |waits: &Waits| waits.number == number;
            let key = self.lists.queues.iter().position(|queue| queue.iter().any(is_in));
            let home = key.map(|key| self.keys[key]);
            assert_eq!(waiter.is_asleep(), linked.ended.is_none(), "waiter {number}");
            assert_eq!(home.is_some(), linked.ended.is_none(), "waiter {number}");
            match linked.ended {
                Some(ended) => assert_eq!(super::outcome(&waiter.word, || linked.moved), ended),
                None => assert_eq!(Some(waiter.key()), home),
            }
        }
        for (key, queue) in self.keys.iter().zip(&self.lists.queues) {
            let mut ran = false;
            super::if_empty(*key, || ran = true);
            assert_eq!(ran, queue.is_empty());
        }
    }
}

fn compare(anchors: &Anchors, ops: &[Op]) {
    let mut pair = Pair { keys: anchors.keys, waiters: Vec::new(), lists: Lists::default() };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for (number, &op) in ops.iter().enumerate() {
            pair.apply(op, Token(number as u8 & 127));
            pair.check();
        }
    }));
    // No waiter is left in the table, whatever went wrong.
    for linked in &pair.waiters {
        _ = linked.waiter.expire();
    }
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

fn wishes() -> impl Strategy<Value = Wish> {
    let order = prop::sample::select(vec![Order::NearLifo, Order::Fifo, Order::Again]);
    let flags = (any::<bool>(), prop::bool::weighted(0.2), any::<bool>());
    (keys(), order, 0..3_u8, 0..4_usize, flags).prop_map(
        |(key, order, priority, demand, (urgent, heir, commits))| Wish {
            key,
            order,
            priority,
            urgent,
            demand,
            heir,
            commits,
        },
    )
}

/// Chooses most often among two keys, so that their queues get long.
fn keys() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0), 2 => Just(4), 2 => 0..KEYS]
}

#[test]
fn any_order_of_waits_and_grants_gives_what_lists_would() {
    let op = prop_oneof![
        30 => wishes().prop_map(Op::Link),
        2 => keys().prop_map(Op::GrantOne),
        2 => (keys(), 0..24_usize).prop_map(|(key, times)| Op::GrantEach(key, times)),
        1 => (keys(), any::<bool>()).prop_map(|(key, really)| Op::GrantAll(key, really)),
        2 => (keys(), 0..6_usize).prop_map(|(key, budget)| Op::GrantWhile(key, budget)),
        2 => (keys(), 0..4_usize).prop_map(|(key, others)| Op::GrantInCompany(key, others)),
        1 => (keys(), keys(), any::<bool>()).prop_map(|(from, to, really)| Op::Requeue(from, to, really)),
        2 => any::<usize>().prop_map(Op::Expire),
        2 => any::<usize>().prop_map(Op::Interrupt),
        1 => Just(Op::WakeHeirs),
    ];
    // In a process of its own: if a thread of another test ends with a robust lock, it wakes all heirs, these
    // too.
    let name = concat!(module_path!(), "::any_order_of_waits_and_grants_gives_what_lists_would");
    child::isolated(name, || {
        let anchors = Anchors::new();
        random::check(150, &prop::collection::vec(op, 0..200), |ops| compare(&anchors, &ops));
    });
}

/// A token is read back as it was granted.
#[test]
fn a_token_survives_its_word() {
    let word = super::SleepWord::new();
    let _ = word.settle_for(false, GRANTED | 200 << CODE_SHIFT);
    assert_eq!(super::outcome(&word, || false), Woken::Granted(Token(200)));
}
