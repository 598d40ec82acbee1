//! Results out to what people already run: Prometheus, OTLP, Redis, webhooks, Kafka, JSON lines over TCP.
//!
//! [`Outlets`] is a [`sinks::Sink`] that gives every row to each of its outlets: a bounded queue (`queue.rs`) and a thread
//! (`worker.rs`) of its own. A *mapping* makes messages of rows and is pure: one file an outlet, tested without a socket. A
//! *transport* takes messages to the other side; what fails in passing is tried again (`backoff.rs`), and what is lost is counted by
//! cause (`tally.rs`). No outlet ever makes the query or another outlet wait. A [`Carrier`] is an outlet whose rows wait on disk, as those
//! of a server's jobs do. What scrapers read is a [`Page`].

#![forbid(unsafe_code)]

pub mod address;
mod backoff;
mod carrier;
mod courier;
mod exponential;
mod exposition;
mod http;
mod kafka;
mod lines;
mod names;
mod net;
mod otlp;
mod outlets;
mod points;
mod post;
mod prometheus;
mod proto;
mod queue;
mod redis;
mod results;
mod series;
mod steward;
mod tally;
mod tcp;
#[cfg(test)]
mod tests;
mod webhook;
mod windows;
mod worker;

pub use address::{Address, Hidden, Scheme};
pub use backoff::Backoff;
pub use carrier::{Attempt, Carrier, Parcel};
pub use courier::Courier;
pub use exponential::Exponential;
pub use exposition::{Form, Labels, Page};
pub use kafka::TOPIC as KAFKA_TOPIC;
pub use outlets::{Limits, Outlets, Refused};
pub use results::Results;
pub use series::Series;
pub use steward::{Steward, Wanted};
pub use worker::{Fault, Rows};
