//! Delivery of results to other systems: Prometheus, OTLP, Redis, webhooks, Kafka, JSON lines over TCP.
//!
//! [`Outlets`] is a [`sinks::Sink`] that passes every row to each of its outlets, each with a bounded queue
//! (`queue.rs`) and a thread (`worker.rs`). A *mapping* converts rows to messages and is pure: one file per outlet,
//! tested without a socket. A *transport* sends messages; temporary failures are retried (`backoff.rs`), and losses are
//! counted by cause (`tally.rs`). No outlet delays the query or another outlet. A [`Carrier`] is an outlet whose rows
//! are stored on disk, as those of a server's jobs. A [`Page`] contains metrics for scrapers.

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
