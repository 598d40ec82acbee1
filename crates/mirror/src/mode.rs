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
pub enum Which {
    /// All packets at a port, of any flow.
    Port,
    /// All packets of the flows.
    Flow,
    /// Packets of the flows with any of these flags.
    Flags(TcpFlags),
}

/// Part of a packet to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The first bytes.
    First(u16),
    /// The whole packet.
    Whole,
}

/// A mode, without the destination of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Selection of packets.
    pub which: Which,
    /// Part of each.
    pub part: Part,
}

/// A mode that answers a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The mode.
    pub mode: Mode,
    /// Gaps of the answer; empty: none.
    pub lacks: Vec<&'static str>,
    /// Whether requests or responses may be missing. Such a mode is used only on request.
    pub loses_exchanges: bool,
}

const ENDS: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0);
const DATA: TcpFlags = TcpFlags(TcpFlags::ACK.0 | TcpFlags::PSH.0);

impl Mode {
    /// Start and end of connections.
    pub const ENDS: Mode = Mode { which: Which::Flags(ENDS), part: Part::Whole };
    /// The last segment of each message.
    pub const PUSHED: Mode = Mode { which: Which::Flags(TcpFlags::PSH), part: Part::Whole };
    /// All segments that may carry data, truncated after the start of a message.
    pub const HEADS: Mode = Mode { which: Which::Flags(DATA), part: Part::First(HEAD_BYTES) };
    /// All packets, truncated after their headers.
    pub const HEADERS: Mode = Mode { which: Which::Flow, part: Part::First(HEADER_BYTES) };
    /// All packets, truncated after the start of a message.
    pub const CUT: Mode = Mode { which: Which::Flow, part: Part::First(HEAD_BYTES) };
    /// All packets.
    pub const FLOW: Mode = Mode { which: Which::Flow, part: Part::Whole };
    /// All packets at a port.
    pub const PORT: Mode = Mode { which: Which::Port, part: Part::Whole };
}

/// Data that a parser's columns require.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
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
pub fn offers(spec: &MonitorSpec) -> Vec<Offer> {
    let need = spec.parsers.iter().map(need).max().unwrap_or(Need::Headers);
    // With parsers of different needs, no single need is sufficient.
    let alike = spec.parsers.iter().all(|parser| self::need(parser) == need);
    let offer = |mode, lacks: &[&'static str]| Offer { mode, lacks: lacks.to_vec(), loses_exchanges: false };
    let losing = |mode, lacks| Offer { loses_exchanges: true, ..offer(mode, lacks) };
    let mut offers = Vec::new();
    match need {
        Need::Ends => offers.push(offer(Mode::ENDS, &[OPEN_BEFORE, LONGER_THAN_IDLE])),
        Need::Completion if alike => {
            offers.push(losing(Mode::PUSHED, &[LAST_SEGMENTS, PUSHES_INSIDE, NO_ENDS]))
        }
        Need::Headers => offers.push(offer(Mode::HEADERS, &[])),
        Need::Heads if alike => offers.push(losing(Mode::HEADS, &[LONG_HEADS, NO_SYN])),
        Need::Heads | Need::HeadersAndHeads => {
            let has_messages = spec.parsers.iter().any(|parser| self::need(parser) == Need::Heads);
            offers.push(Offer { loses_exchanges: has_messages, ..offer(Mode::CUT, &[LONG_HEADS]) });
        }
        Need::Completion | Need::Everything => {}
    }
    if Transports::of(spec) != Transports::Tcp {
        // Truncated fragments cannot be reassembled.
        offers.iter_mut().for_each(|offer| offer.lacks.push(FRAGMENTS));
    }
    offers.push(offer(Mode::FLOW, &[]));
    offers.push(offer(Mode::PORT, &[]));
    offers
}

const FRAGMENTS: &str = "datagrams that came in fragments: their copies are cut and cannot be put together";
const OPEN_BEFORE: &str =
    "connections that were open before the rules are seen when they end, and their length is not known";
const LONGER_THAN_IDLE: &str = "a connection that is longer than the idle timeout is told as expired, since what it says in between is not copied";
const LAST_SEGMENTS: &str = "of a message of several segments the last one is seen alone: its time is when it was complete, and its head is not known";
const PUSHES_INSIDE: &str = "a sender that sets PSH inside of a message makes it look like several";
const NO_ENDS: &str = "connections are not seen to begin or to end: the client is the end that asks";
const LONG_HEADS: &str = "what stands behind the first 512 bytes of a packet is not seen: long heads, and further messages in one segment";
const NO_SYN: &str = "a connection's first packet is not copied: the client is the end that asks";

fn need(parser: &ParserUse) -> Need {
    let wants =
        |names: &[&str]| parser.columns.iter().any(|id| names.contains(&&*parser.schema.field(*id).name));
    let only = |names: &[&str]| {
        let own = parser.columns.iter().filter(|id| !common::IDS.contains(id));
        own.clone().next().is_some() && own.clone().all(|id| names.contains(&&*parser.schema.field(*id).name))
    };
    // A truncated copy does not have the packet's length.
    const LENGTHS: [&str; 3] = ["packet_bytes", "client_bytes", "server_bytes"];
    const TIMES: [&str; 2] = ["response_time_ns", "transfer_time_ns"];
    const BODIES: [&str; 3] = ["request_bytes", "response_bytes", "transfer_time_ns"];
    match &*parser.schema.name {
        // The ACK that completes a handshake has no distinguishing flag.
        "tcp_conn_time" if wants(&["handshake_ns"]) => Need::Headers,
        "tcp_conn_time" | "tcp_flow_key" => Need::Ends,
        "packet" | "tcp_pkt_size" | "flow" if wants(&LENGTHS) => Need::Everything,
        "packet" | "tcp_pkt_size" => Need::Headers,
        "flow" if wants(&["application"]) => Need::HeadersAndHeads,
        "flow" => Need::Headers,
        _ if only(&TIMES) => Need::Completion,
        "http" | "http_get" if !wants(&BODIES) => Need::Heads,
        _ => Need::Everything,
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.which {
            Which::Port => f.write_str("all packets of the port")?,
            Which::Flow => f.write_str("all packets of the flows")?,
            Which::Flags(flags) => {
                let names = [
                    (TcpFlags::SYN, "SYN"),
                    (TcpFlags::FIN, "FIN"),
                    (TcpFlags::RST, "RST"),
                    (TcpFlags::ACK, "ACK"),
                    (TcpFlags::PSH, "PSH"),
                ];
                let set: Vec<&str> =
                    names.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, n)| *n).collect();
                write!(f, "packets of the flows with {}", set.join(" or "))?;
            }
        }
        match self.part {
            Part::Whole => Ok(()),
            Part::First(bytes) => write!(f, ", the first {bytes} bytes of each"),
        }
    }
}
