//! Test utilities: packets, dialogues in simulated time, pcap files, and the captures next to the workspace.
//!
//! [`SentPacket`] is a packet, [`TcpDialogue`] two communicating endpoints, [`PacketMangler`] a network that drops, reorders,
//! duplicates, and truncates, [`pcap_bytes`] the resulting file. Performance is not a goal. Only [`programs`],
//! [`require`](mod@require), [`cluster`], and [`namespaces`] use external resources: time is set by the test, and randomness comes from a seed.
//!
//! ```
//! let mut talk = testkit::TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
//! talk.handshake();
//! talk.client().send(b"GET / HTTP/1.1\r\n\r\n");
//! talk.advance(3_000_000);
//! talk.server().send(b"HTTP/1.1 204 No Content\r\n\r\n");
//! talk.close();
//! assert_eq!(talk.sent()[0].packet().payload, b"");
//! ```

#![forbid(unsafe_code)]

pub mod cluster;
pub mod corpus;
pub mod dialogue;
pub mod mysql;
pub mod namespaces;
pub mod network_delay;
pub mod packet;
pub mod packet_mangler;
pub mod pcap;
pub mod programs;
pub mod require;
pub mod rng;
pub mod xdr;

pub use corpus::{captures_in, corpus};
pub use dialogue::{DialogueEnd, TcpDialogue};
pub use network_delay::{NetworkDelay, at_the_clients};
pub use packet::{SentPacket, TransportCarrier, packets};
pub use packet_mangler::PacketMangler;
pub use pcap::{ByteOrder, TimestampPrecision, pcap_bytes};
pub use require::print_uncaptured;
pub use rng::SeededRng;
pub use xdr::XdrWriter;
