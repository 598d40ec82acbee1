//! The service with a real HTTP server on a free loopback port, its data directory on disk, and a fleet that runs
//! monitors in this process over a capture.

mod access;
mod actions;
mod alerts;
mod api;
mod backup;
mod client;
mod connections;
mod documents;
mod fleet;
mod gateway;
mod history;
mod outlets;
mod page_types;
mod past;
mod requests;
mod schema;
mod scopes;
mod scrapes;
mod selected;
mod store;
mod streams;
mod terminals;
