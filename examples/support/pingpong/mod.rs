//! Ping-Pong: the game, the command line, and the program that joins the two.

pub(crate) mod game;
pub(crate) mod options;
pub(crate) mod program;
