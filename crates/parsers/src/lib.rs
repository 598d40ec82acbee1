//! Converts byte streams, flows, and packets to tuples. A parser recognizes and reads one protocol; a new one
//! is a file that follows `template.rs`, a line in [`registry`], a directory of captures, and a fuzz target.
//!
//! Parsers are resumable state machines over borrowed slices: they receive bytes in order, buffer only a
//! message head split over segments (bounded), and write tuples to an [`Output`]. They read no clock, hold no
//! packet, and do not depend on capture, reassembly, or queries.

#![forbid(unsafe_code)]

pub mod application;
pub mod community_id;
#[cfg(test)]
mod dialogue;
pub mod flow_level;
mod memo;
pub mod message;
pub mod output;
pub mod packet_level;
pub mod pairing;
pub mod probing;
pub mod protocol;
pub mod proxy_header;
pub mod registry;
pub mod request_response;
pub mod resync;
pub mod template;
mod writes;

pub mod dns;
pub mod http;
pub mod memcached;
pub mod mysql;
pub mod nfs;
pub mod redis;
pub mod tls;

pub use message::{Gap, Segment, Span};
pub use output::{
    Columns, Counters, Direction, FlowContext, FlowFacts, FlowRef, Limits, Output, Quality, Tap,
};
pub use probing::{Probing, Stream};
pub use protocol::{End, Probe, ProbeContext, Protocol, StreamParser};
pub use proxy_header::Proxied;
