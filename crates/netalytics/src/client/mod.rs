//! Client of a server: connection and profile; a job's rows ([`rows`], [`printer`]), with retries
//! ([`mod@retrying_client`]), its events ([`event_stream`]), its lease and end ([`lease_renewer`]), and its final notes
//! ([`summary`]).

pub mod event_stream;
pub mod lease_renewer;
pub mod printer;
pub mod profile;
pub mod retrying_client;
pub mod rows;
pub mod server_client;
pub mod summary;
