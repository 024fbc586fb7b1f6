//! An LWP's own free stacks: no lock, no atomic.
//!
//! There are two chains for each size class. Stacks are pushed on and popped from the *loaded* one; the other
//! is a *spare*. If the loaded chain is full, the spare, if full, goes to the pool, and the loaded one
//! becomes the spare. If both are empty, a chain is fetched.
//!
//! So at least [`magazine`] operations lie between two visits to the pool, however they alternate (Bonwick's
//! magazines). A visit moves a whole chain, and a cache holds at most two magazines of each class, new stacks
//! aside. Of large stacks, a magazine is small: each may have been used to the end.

use std::io;

use super::pool::{self, magazine};
use super::{Chain, SizeClass, Stack};

/// The free stacks of one LWP. Used by the LWP alone: it is not `Sync`.
#[derive(Debug)]
pub(crate) struct Cache {
    classes: [Magazines; SizeClass::COUNT],
}

#[derive(Debug)]
struct Magazines {
    loaded: Chain,
    /// Empty, or full as given back by this LWP or another.
    spare: Chain,
    /// How many stacks are in a full one.
    full: u32,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Self {
            classes: std::array::from_fn(|index| Magazines {
                loaded: Chain::new(),
                spare: Chain::new(),
                full: magazine(SizeClass(index as u8)),
            }),
        }
    }

    /// Takes a stack of this class. May map memory, so it is not for the dispatcher. It allocates only if it
    /// fails, so the caller stays on this LWP.
    ///
    /// # Errors
    /// Those of [`pool::take`].
    #[inline]
    pub(crate) fn take(&self, class: SizeClass) -> io::Result<Stack> {
        let magazines = &self.classes[class.index()];
        match magazines.loaded.pop() {
            Some(stack) => Ok(stack),
            None => magazines.refill(class),
        }
    }

    /// Takes a stack back that the caller owns and does not stand on (I8). Fit for the dispatcher.
    #[inline]
    pub(crate) fn give_back(&self, stack: Stack) {
        let class = stack.size_class();
        let magazines = &self.classes[class.index()];
        if magazines.loaded.len() < magazines.full {
            magazines.loaded.push(stack);
        } else {
            magazines.unload(class, stack);
        }
    }

    /// Gives everything to the pool, when the LWP ends.
    pub(crate) fn drain(&self) {
        for (class, magazines) in SizeClass::all().zip(&self.classes) {
            for chain in [magazines.loaded.take(), magazines.spare.take()] {
                if !chain.is_empty() {
                    pool::give_back_batch(chain, class);
                }
            }
        }
    }
}

impl Magazines {
    /// Loads the spare, or a chain from the pool, and takes a stack of it.
    #[cold]
    fn refill(&self, class: SizeClass) -> io::Result<Stack> {
        let chain = if self.spare.is_empty() { pool::take_batch(class)? } else { self.spare.take() };
        let stack = chain.pop().expect("a chain that is handed over is not empty");
        self.loaded.put(chain);
        Ok(stack)
    }

    /// Makes the full chain the spare, and gives the spare to the pool. Then takes a stack back.
    #[cold]
    fn unload(&self, class: SizeClass, stack: Stack) {
        let full = self.loaded.take();
        let old = self.spare.take();
        if !old.is_empty() {
            pool::give_back_batch(old, class);
        }
        self.spare.put(full);
        self.loaded.push(stack);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.drain();
    }
}
