//! Lists of free stacks, linked through their headers: a chain, and a list of chains.

use std::cell::Cell;
use std::fmt;

use super::Stack;

/// A list of stacks that one kernel thread owns.
#[derive(Default)]
pub(super) struct Chain {
    first: Cell<Option<Stack>>,
    len: Cell<u32>,
}

impl Chain {
    pub(super) const fn new() -> Self {
        Self { first: Cell::new(None), len: Cell::new(0) }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len.get()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// Adds a stack that the caller owns.
    #[inline]
    pub(super) fn push(&self, stack: Stack) {
        stack.0.link.set(self.first.get());
        self.first.set(Some(stack));
        self.len.set(self.len.get() + 1);
    }

    /// Takes the stack that was pushed last: its lines and pages are the likeliest to be in the caches.
    #[inline]
    pub(super) fn pop(&self) -> Option<Stack> {
        let stack = self.first.get()?;
        self.first.set(stack.0.link.get());
        self.len.set(self.len.get() - 1);
        Some(stack)
    }

    /// Returns the stacks, which stay in the chain.
    pub(super) fn iter(&self) -> impl Iterator<Item = Stack> {
        std::iter::successors(self.first.get(), |stack| stack.0.link.get())
    }

    /// Moves `chain` into this empty one.
    pub(super) fn put(&self, chain: Self) {
        debug_assert!(self.is_empty());
        self.first.set(chain.first.take());
        self.len.set(chain.len.take());
    }

    /// Takes all of it.
    #[inline]
    pub(super) fn take(&self) -> Self {
        Self { first: Cell::new(self.first.take()), len: Cell::new(self.len.take()) }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({})", self.len())
    }
}

/// A list of chains, linked through the headers of their first stacks. To move a chain in or out touches one
/// stack.
#[derive(Debug)]
pub(super) struct ChainList {
    first: Option<Stack>,
    /// All stacks of all chains.
    stacks: usize,
}

// SAFETY: the list owns the stacks in it, and any one kernel thread at a time may use headers.
unsafe impl Send for ChainList {}

impl ChainList {
    pub(super) const EMPTY: Self = Self { first: None, stacks: 0 };

    pub(super) fn stacks(&self) -> usize {
        self.stacks
    }

    pub(super) fn push(&mut self, chain: Chain) {
        let Some(head) = chain.first.get() else { return };
        head.0.next_chain.set(self.first);
        head.0.chain_len.set(chain.len());
        self.first = Some(head);
        self.stacks += chain.len() as usize;
    }

    pub(super) fn pop(&mut self) -> Option<Chain> {
        let head = self.first?;
        self.first = head.0.next_chain.get();
        let len = head.0.chain_len.get();
        self.stacks -= len as usize;
        Some(Chain { first: Cell::new(Some(head)), len: Cell::new(len) })
    }
}
