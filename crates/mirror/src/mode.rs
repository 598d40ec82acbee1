//! Modes: which packets of a query's flows are copied, and how many bytes of each, according to the columns of its
//! plan. The cheapest mode is first; the missing data of each mode are described in text.

use std::fmt;

use plan::{MonitorSpec, ParserUse};
use tuple::common;
use wire::packet::TcpFlags;

use crate::transports::Transports;

/// Link, network and TCP headers: Ethernet with two tags, IPv6, TCP with all options, and a reserve.
pub const HEADER_BYTES: u16 = 128;
/// Headers with the start of a message: its first lines, and the most common fields.
pub const HEAD_BYTES: u16 = 512;

/// Selection of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketSelection {
    /// All packets at a port, of any flow.
    Port,
    /// All packets of the flows.
    Flow,
    /// Packets of the flows with any of these flags.
    Flags(TcpFlags),
}

/// Part of a packet to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketPart {
    /// The first bytes.
    First(u16),
    /// The whole packet.
    Whole,
}

/// A mode, without the destination of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorMode {
    /// Selection of packets.
    pub which: PacketSelection,
    /// Part of each.
    pub part: PacketPart,
}

/// A mode that answers a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeOffer {
    /// The mode.
    pub mode: MirrorMode,
    /// Gaps of the answer; empty: none.
    pub lacks: Vec<&'static str>,
    /// Whether requests or responses may be missing. Such a mode is used only on request.
    pub loses_exchanges: bool,
}

const ENDS: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0);
const DATA: TcpFlags = TcpFlags(TcpFlags::ACK.0 | TcpFlags::PSH.0);

impl MirrorMode {
    /// Start and end of connections.
    pub const ENDS: MirrorMode = MirrorMode {
        which: PacketSelection::Flags(ENDS),
        part: PacketPart::Whole,
    };
    /// The last segment of each message.
    pub const PUSHED: MirrorMode = MirrorMode {
        which: PacketSelection::Flags(TcpFlags::PSH),
        part: PacketPart::Whole,
    };
    /// All segments that may carry data, truncated after the start of a message.
    pub const HEADS: MirrorMode = MirrorMode {
        which: PacketSelection::Flags(DATA),
        part: PacketPart::First(HEAD_BYTES),
    };
    /// All packets, truncated after their headers.
    pub const HEADERS: MirrorMode = MirrorMode {
        which: PacketSelection::Flow,
        part: PacketPart::First(HEADER_BYTES),
    };
    /// All packets, truncated after the start of a message.
    pub const CUT: MirrorMode = MirrorMode {
        which: PacketSelection::Flow,
        part: PacketPart::First(HEAD_BYTES),
    };
    /// All packets.
    pub const FLOW: MirrorMode = MirrorMode {
        which: PacketSelection::Flow,
        part: PacketPart::Whole,
    };
    /// All packets at a port.
    pub const PORT: MirrorMode = MirrorMode {
        which: PacketSelection::Port,
        part: PacketPart::Whole,
    };
}

/// Data that a parser's columns require.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ColumnNeed {
    /// Start and end of connections.
    Ends,
    /// Completion of messages.
    Completion,
    /// Headers of all packets.
    Headers,
    /// Starts of messages.
    Heads,
    /// Headers of all packets, and starts of messages.
    HeadersAndHeads,
    /// All bytes.
    Everything,
}

/// Modes that answer a query, cheapest first; the last one has no gaps.
#[must_use]
pub fn offers(spec: &MonitorSpec) -> Vec<ModeOffer> {
    let need = spec
        .parsers
        .iter()
        .map(need)
        .max()
        .unwrap_or(ColumnNeed::Headers);
    // With parsers of different needs, no single need is sufficient.
    let alike = spec.parsers.iter().all(|parser| self::need(parser) == need);
    let offer = |mode, lacks: &[&'static str]| ModeOffer {
        mode,
        lacks: lacks.to_vec(),
        loses_exchanges: false,
    };
    let losing = |mode, lacks| ModeOffer {
        loses_exchanges: true,
        ..offer(mode, lacks)
    };
    let mut offers = Vec::new();
    match need {
        ColumnNeed::Ends => offers.push(offer(MirrorMode::ENDS, &[OPEN_BEFORE, LONGER_THAN_IDLE])),
        ColumnNeed::Completion if alike => offers.push(losing(
            MirrorMode::PUSHED,
            &[LAST_SEGMENTS, PUSHES_INSIDE, NO_ENDS],
        )),
        ColumnNeed::Headers => offers.push(offer(MirrorMode::HEADERS, &[])),
        ColumnNeed::Heads if alike => offers.push(losing(MirrorMode::HEADS, &[LONG_HEADS, NO_SYN])),
        ColumnNeed::Heads | ColumnNeed::HeadersAndHeads => {
            let has_messages = spec
                .parsers
                .iter()
                .any(|parser| self::need(parser) == ColumnNeed::Heads);
            offers.push(ModeOffer {
                loses_exchanges: has_messages,
                ..offer(MirrorMode::CUT, &[LONG_HEADS])
            });
        }
        ColumnNeed::Completion | ColumnNeed::Everything => {}
    }
    if Transports::of(spec) != Transports::Tcp {
        // Truncated fragments cannot be reassembled.
        offers
            .iter_mut()
            .for_each(|offer| offer.lacks.push(FRAGMENTS));
    }
    offers.push(offer(MirrorMode::FLOW, &[]));
    offers.push(offer(MirrorMode::PORT, &[]));
    offers
}

const FRAGMENTS: &str =
    "fragmented datagrams: their copies are truncated and cannot be reassembled";
const OPEN_BEFORE: &str = "connections opened before the rules were installed are seen when they end, without their duration";
const LONGER_THAN_IDLE: &str = "a connection longer than the idle timeout is reported as expired, since packets in between are not copied";
const LAST_SEGMENTS: &str = "of a message with several segments, only the last one is seen: its time is that of completion, and its head is unknown";
const PUSHES_INSIDE: &str = "a message with PSH set inside looks like several messages";
const NO_ENDS: &str =
    "the start and end of connections are not seen: the client is the side that sends requests";
const LONG_HEADS: &str = "data after the first 512 bytes of a packet is not seen: long heads, and further messages in one segment";
const NO_SYN: &str =
    "a connection's first packet is not copied: the client is the side that sends requests";

fn need(parser: &ParserUse) -> ColumnNeed {
    let wants = |names: &[&str]| {
        parser
            .columns
            .iter()
            .any(|id| names.contains(&&*parser.schema.field(*id).name))
    };
    let only = |names: &[&str]| {
        let own = parser.columns.iter().filter(|id| !common::IDS.contains(id));
        own.clone().next().is_some()
            && own
                .clone()
                .all(|id| names.contains(&&*parser.schema.field(*id).name))
    };
    // A truncated copy does not have the packet's length.
    const LENGTHS: [&str; 3] = ["packet_bytes", "client_bytes", "server_bytes"];
    const TIMES: [&str; 3] = ["response_time_ns", "transfer_time_ns", "total_time_ns"];
    const BODIES: [&str; 4] = [
        "request_bytes",
        "response_bytes",
        "transfer_time_ns",
        "total_time_ns",
    ];
    match &*parser.schema.name {
        // The ACK that completes a handshake has no distinguishing flag.
        "tcp_conn_time" if wants(&["handshake_ns"]) => ColumnNeed::Headers,
        "tcp_conn_time" | "tcp_flow_key" => ColumnNeed::Ends,
        "packet" | "tcp_pkt_size" | "flow" if wants(&LENGTHS) => ColumnNeed::Everything,
        "packet" | "tcp_pkt_size" => ColumnNeed::Headers,
        "flow" if wants(&["application"]) => ColumnNeed::HeadersAndHeads,
        "flow" => ColumnNeed::Headers,
        _ if only(&TIMES) => ColumnNeed::Completion,
        "http" | "http_get" if !wants(&BODIES) => ColumnNeed::Heads,
        _ => ColumnNeed::Everything,
    }
}

impl fmt::Display for MirrorMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.which {
            PacketSelection::Port => f.write_str("all packets of the port")?,
            PacketSelection::Flow => f.write_str("all packets of the flows")?,
            PacketSelection::Flags(flags) => {
                let names = [
                    (TcpFlags::SYN, "SYN"),
                    (TcpFlags::FIN, "FIN"),
                    (TcpFlags::RST, "RST"),
                    (TcpFlags::ACK, "ACK"),
                    (TcpFlags::PSH, "PSH"),
                ];
                let set: Vec<&str> = names
                    .iter()
                    .filter(|(flag, _)| flags.contains(*flag))
                    .map(|(_, n)| *n)
                    .collect();
                write!(f, "packets of the flows with {}", set.join(" or "))?;
            }
        }
        match self.part {
            PacketPart::Whole => Ok(()),
            PacketPart::First(bytes) => write!(f, ", the first {bytes} bytes of each"),
        }
    }
}
