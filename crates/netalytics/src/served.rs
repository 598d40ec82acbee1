//! A job at a server as shown on a terminal: its rows page by page ([`rows`], [`printer`]), with retries
//! ([`mod@line`]), its events ([`watch`]), its lease and end ([`keeper`]), and its final notes ([`summary`]).

pub mod keeper;
pub mod line;
pub mod printer;
pub mod rows;
pub mod summary;
pub mod watch;
