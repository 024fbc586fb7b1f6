//! Slots: which LWPs have the right to run green threads, and all that moves that right.
//!
//! There are `concurrency` slots, whatever the number of LWPs ([`slot`]). LWPs without one sleep as spares
//! ([`pool`]); a thread of its own keeps some in reserve ([`reserve`]). A slot moves to a spare if its holder
//! is blocked or does not leave ([`hand_off`]), has announced blocking ([`blocking`]), or has slept for long
//! ([`rest`]).

pub(crate) mod blocking;
mod concurrency;
mod hand_off;
pub(crate) mod pool;
pub(crate) mod reserve;
mod rest;
pub(crate) mod slot;
