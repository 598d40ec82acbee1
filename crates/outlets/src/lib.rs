//! Delivery of results to other systems: Prometheus, OTLP, Redis, webhooks, Kafka, flow collectors, JSON lines over TCP.
//!
//! [`OutletSink`] is a [`sinks::Sink`] that passes every row to each of its outlets, each with a bounded queue
//! (`queue.rs`) and a thread (`worker.rs`). A *mapping* converts rows to messages and is pure: one file per outlet,
//! tested without a socket. A *transport* sends messages; temporary failures are retried ([`connect::RetryPolicy`]), and losses are
//! counted by cause (`counters.rs`). No outlet delays the query or another outlet. A [`DirectOutlet`] is an outlet whose rows
//! are stored on disk, as those of a server's jobs. A [`MetricsPage`] contains metrics for scrapers. An [`SflowWriter`] sends packets.

#![forbid(unsafe_code)]

pub mod address;
mod alert_sender;
mod counters;
mod datagrams;
mod desired_state;
mod direct_outlet;
mod exponential;
mod exposition;
mod flow_collector;
mod flow_columns;
mod flow_records;
mod flow_row;
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
mod sflow_writer;
mod tcp;
#[cfg(test)]
mod tests;
mod webhook;
mod windows;
mod worker;

pub use address::{OutletAddress, OutletScheme, SecretText};
pub use alert_sender::AlertSender;
pub use desired_state::{DesiredState, DesiredStateSender};
pub use direct_outlet::{DeliveryAttempt, DirectOutlet, PreparedMessage};
pub use exponential::ExponentialBuckets;
pub use exposition::{ExpositionFormat, Labels, MetricsPage};
pub use flow_columns::check_rows;
pub use kafka::TOPIC as KAFKA_TOPIC;
pub use names::attributes;
pub use outlets::{OutletAddressError, OutletLimits, OutletSink};
pub use results::ScrapedResults;
pub use series::SeriesTable;
pub use sflow_writer::SflowWriter;
pub use worker::{DeliveryFault, RowIdentity};
