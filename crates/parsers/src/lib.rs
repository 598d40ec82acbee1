//! Converts byte streams, flows, and packets to tuples. A parser recognizes and reads one protocol; a new one
//! is a file that follows `template.rs`, a line in [`registry`], a directory of captures, and a fuzz target.
//!
//! Parsers are resumable state machines over borrowed slices: they receive bytes in order, buffer only a
//! message head split over segments (bounded), and write tuples to an [`ParserOutput`]. They read no clock, hold no
//! packet, and do not depend on capture, reassembly, or queries.

#![forbid(unsafe_code)]

pub mod application;
mod block_compression;
pub mod community_id;
#[cfg(test)]
mod dialogue;
mod flow_context;
pub mod flow_level;
pub mod interface_counters;
pub mod message;
pub mod output;
pub mod packet_level;
pub mod pairing;
mod prepared_texts;
pub mod probing;
pub mod protocol;
pub mod proxy_header;
pub mod registry;
pub mod request_response;
mod result_cache;
pub mod resync;
mod shared_names;
mod sql;
pub mod template;
pub mod template_with_ids;
mod topic_names;
mod write_boundaries;

pub mod cassandra;
pub mod dns;
pub mod encrypted;
pub mod http;
pub mod http2;
pub mod kafka;
pub mod memcached;
pub mod mongodb;
pub mod mysql;
pub mod nfs;
pub mod postgresql;
pub mod quic;
pub mod redis;
pub mod tls;
pub mod tls_decrypt;

pub use flow_context::{FlowContext, FlowFacts, FlowRef, TlsNames};
pub use message::{MessageSpan, StreamGap, StreamSegment};
pub use output::{
    ColumnSet, Direction, ParserCounters, ParserLimits, ParserOutput, ParserSubscription,
    TupleQuality,
};
pub use probing::{DecryptedFlow, FlowProtocol, ProbeBuffer};
pub use protocol::{
    ProbeContext, ProbeResult, ProtocolDefinition, SILENCE_NS, StreamEnd, StreamParser,
};
pub use proxy_header::ProxiedEndpoints;
pub use shared_names::SharedNames;
