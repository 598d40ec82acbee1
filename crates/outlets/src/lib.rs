//! Results out to what people already run: Prometheus, OTLP, Redis, webhooks, JSON lines over TCP.
//!
//! [`Outlets`] is a [`sinks::Sink`] that gives every row to each of its outlets: a bounded queue (`queue.rs`) and a thread
//! (`worker.rs`) of its own. A *mapping* makes messages of rows and is pure: one file an outlet, tested without a socket. A
//! *transport* takes messages to the other side; what fails in passing is tried again (`backoff.rs`), and what is lost is counted by
//! cause (`tally.rs`). No outlet ever makes the query or another outlet wait.

#![forbid(unsafe_code)]

pub mod address;
mod backoff;
mod courier;
mod exponential;
mod exposition;
mod http;
mod lines;
mod names;
mod net;
mod otlp;
mod outlets;
mod points;
mod post;
mod prometheus;
mod queue;
mod redis;
mod series;
mod tally;
mod tcp;
#[cfg(test)]
mod tests;
mod webhook;
mod windows;
mod worker;

pub use address::{Address, Hidden, Scheme};
pub use backoff::Backoff;
pub use courier::Courier;
pub use outlets::{Limits, Outlets, Refused};
pub use worker::Fault;
