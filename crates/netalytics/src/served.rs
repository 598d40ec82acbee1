//! A job at a server as a terminal has it: its rows page by page ([`rows`], [`printer`]), asked for again and again ([`mod@line`]), what happens to it ([`watch`]), its lease and
//! its end ([`keeper`]), and what there is to say of it at the end ([`summary`]).

pub mod keeper;
pub mod line;
pub mod printer;
pub mod rows;
pub mod summary;
pub mod watch;
