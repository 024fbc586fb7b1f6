//! What the contenders are asked to do, where more than one program asks.

pub(crate) mod barriers;
pub(crate) mod contention;
pub(crate) mod crowd;
pub(crate) mod pingpong;
pub(crate) mod spawn;
pub(crate) mod switch;
