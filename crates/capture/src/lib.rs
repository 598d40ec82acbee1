//! Packet sources: capture files and the network. A [`PacketSource`] fills [`PacketBlock`]s with packets and keeps errors and
//! counters; [`open()`] creates one from any number of files, [`from_reader`] from a stream, [`live::open`] one per
//! worker of an interface. Independent of headers, flows, and queries.

mod af_packet;
pub mod af_xdp;
pub mod block;
#[cfg(feature = "dpdk")]
pub mod dpdk;
mod files;
mod filter;
mod format;
mod input;
pub mod interfaces;
mod interruptible_reader;
mod interruptible_writer;
mod ipfix_streams;
mod key_logs;
pub mod live;
mod looped_replay;
pub mod mirror_source;
mod open;
mod packet_file;
pub mod packet_relay;
mod packet_sink;
mod pcap_file;
mod pcapng;
pub mod privileges;
mod records;
pub mod seccomp;
pub mod source;
mod sys;
mod unsupported_formats;
mod window;
pub mod xdp_filter;

pub use block::{BlockView, PacketBlock, PacketRecord};
pub use filter::filtered;
pub use interruptible_writer::InterruptibleWriter;
pub use key_logs::{KeyLogSearch, key_logs};
pub use looped_replay::LoopedReplay;
pub use open::{from_reader, open, open_until};
pub use packet_file::{PacketFile, PacketRotation};
pub use packet_sink::{PacketFileCounts, PacketSink};
pub use source::{PacketSource, SourceCounters, SourceError};
pub use sys::huge_pages::HugePages;
pub use sys::memory_lock::lock_memory;
pub use sys::prefetch;
pub use sys::tap::TapInterface;

/// Name and version of the library that compiles capture filters.
#[must_use]
pub fn filter_library() -> String {
    sys::bpf::library()
}
