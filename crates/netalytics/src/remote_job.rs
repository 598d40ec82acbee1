//! A job at a server as shown on a terminal: its rows page by page ([`rows`], [`printer`]), with retries
//! ([`mod@retrying_client`]), its events ([`event_stream`]), its lease and end ([`lease_renewer`]), and its final notes ([`summary`]).

pub mod event_stream;
pub mod lease_renewer;
pub mod printer;
pub mod retrying_client;
pub mod rows;
pub mod summary;
