//! One flow: extracts messages from its datagrams or its two byte streams.

use flow::StreamPlace;
use wire::Timestamp;

use super::byte_stream::{DnsByteStream, DnsFramingStep, DnsStreamState, PREFIX};
use super::message::{DnsHeader, DnsMessage, DnsQuestion};
use super::probe::{DnsMessageLocator, is_consistent, is_plausible};
use super::transactions::DnsTransactions;
use crate::{Direction, MessageSpan, ParserOutput, StreamGap, StreamSegment, TupleQuality};

/// Multicast DNS (RFC 6762), LLMNR (RFC 4795), and NetBIOS name service, which share the message format.
const MDNS: u16 = 5353;
const LLMNR: u16 = 5355;
const NETBIOS: u16 = 137;

/// Participants of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DnsPeers {
    /// Not examined yet.
    #[default]
    Unknown,
    /// A client and a server.
    Pair,
    /// A multicast or broadcast group.
    Group,
}

/// A message whose header has not been read.
struct CapturedMessage<'a> {
    bytes: &'a [u8],
    /// Length on the wire.
    len: u32,
    span: MessageSpan,
    /// Position in the byte stream; TCP only.
    place: Option<StreamPlace>,
    /// Search method by which the message was found, unless it directly followed another message.
    found: Option<TupleQuality>,
}

/// A flow.
#[derive(Default)]
pub struct DnsFlow {
    who: DnsPeers,
    /// The two directions; TCP only.
    lanes: Option<Box<[DnsByteStream; 2]>>,
    exchanges: DnsTransactions,
}

impl DnsFlow {
    /// Whether queries are not addressed to a single server.
    pub fn is_of_others(&self) -> bool {
        self.who == DnsPeers::Group
    }

    /// Handles the next bytes of one direction.
    pub fn bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.exchanges.expire(direction, segment.ts, out);
        let mut rest = segment;
        while !rest.bytes.is_empty() {
            let used = match self.lane(direction, out).state {
                DnsStreamState::Lost(_) => self.search(direction, rest, out),
                _ => self.step(direction, rest, out),
            };
            rest = rest.behind(used);
        }
    }

    /// Handles a gap in one direction.
    pub fn gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        let lane = self.lane(direction, out);
        if let DnsStreamState::Lost(_) = lane.state {
            lane.resync.start_anew(out);
            return;
        }
        let behind = lane.behind(gap);
        if lane.state == DnsStreamState::Framed {
            self.break_off(direction, out);
        }
        match behind {
            Some(left) => self.lane(direction, out).skip(left),
            None => self.lose(direction, out),
        }
    }

    /// Handles a datagram, the last `cut` bytes of which were not captured.
    pub fn datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        if self.who == DnsPeers::Unknown {
            self.who = who(out);
        }
        if self.who == DnsPeers::Group {
            return;
        }
        self.exchanges.expire(direction, ts, out);
        let len = bytes.len() as u32 + cut;
        let captured = CapturedMessage {
            bytes,
            len,
            span: MessageSpan::at(ts),
            place: None,
            found: None,
        };
        self.message(direction, captured, out);
    }

    /// Ends the flow.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        if self.lanes.is_some() {
            for direction in [Direction::ClientToServer, Direction::ServerToClient] {
                self.break_off(direction, out);
            }
        }
        self.exchanges.close(out);
    }

    /// Whether no message is in progress in the byte streams.
    pub fn is_between(&self) -> bool {
        let is_between =
            |lane: &DnsByteStream| lane.state == DnsStreamState::Framed && lane.held.is_empty();
        self.lanes
            .as_ref()
            .is_none_or(|lanes| lanes.iter().all(is_between))
    }

    fn lane(&mut self, direction: Direction, out: &ParserOutput<'_>) -> &mut DnsByteStream {
        let lanes = self.lanes.get_or_insert_with(|| {
            let mut lanes = Box::<[DnsByteStream; 2]>::default();
            if out.flow.midstream {
                lanes
                    .iter_mut()
                    .for_each(|lane| lane.state = DnsStreamState::Lost(TupleQuality::Midstream));
            }
            lanes
        });
        &mut lanes[direction as usize]
    }

    /// Consumes bytes of `segment`; returns their number.
    fn step(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let lane = self.lane(direction, out);
        match lane.step(segment.bytes) {
            DnsFramingStep::Here(n) => {
                let found = lane.found.take();
                let message = &segment.bytes[PREFIX..n];
                let span = MessageSpan::at(segment.ts);
                let len = message.len() as u32;
                let place = Some(segment.place);
                let captured = CapturedMessage {
                    bytes: message,
                    len,
                    span,
                    place,
                    found,
                };
                if !self.message(direction, captured, out) {
                    self.lose(direction, out);
                }
                n
            }
            DnsFramingStep::More(n) => {
                lane.hold(segment.first(n));
                if lane.is_whole() {
                    self.complete(direction, out);
                }
                n
            }
            DnsFramingStep::Held(n) => {
                lane.hold(segment.first(n));
                self.complete(direction, out);
                n
            }
            DnsFramingStep::Skipped(n) => {
                if let DnsStreamState::Skipping(left) = lane.state {
                    lane.skip(left - n);
                }
                n
            }
        }
    }

    /// Processes the held message, which is complete.
    fn complete(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        if !self.hand_over(direction, out) {
            self.lose(direction, out);
        }
    }

    /// Processes the held message although it is incomplete.
    fn break_off(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        if self.lane(direction, out).held.len() > PREFIX {
            self.hand_over(direction, out);
        }
        let lane = self.lane(direction, out);
        lane.held.clear();
        lane.begun = None;
    }

    /// Parses the held message; returns whether it is valid.
    fn hand_over(&mut self, direction: Direction, out: &mut ParserOutput<'_>) -> bool {
        let lane = self.lane(direction, out);
        let mut held = std::mem::take(&mut lane.held);
        let len = lane.held_len() as u32;
        let found = lane.found.take();
        let Some((span, place)) = lane.begun.take() else {
            return true;
        };
        let len = if held.len() >= PREFIX {
            u32::from(u16::from_be_bytes([held[0], held[1]]))
        } else {
            len
        };
        let captured = CapturedMessage {
            bytes: &held[PREFIX..],
            len,
            span,
            place: Some(place),
            found,
        };
        let is_message = self.message(direction, captured, out);
        held.clear();
        self.lane(direction, out).held = held;
        is_message
    }

    /// Enters the state in which the start of the next message is unknown.
    fn lose(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        out.counters.resyncs += 1;
        let lane = self.lane(direction, out);
        lane.state = DnsStreamState::Lost(TupleQuality::Resync);
        lane.held.clear();
        lane.begun = None;
        lane.found = None;
        lane.resync.start_anew(out);
    }

    /// Searches for the next message.
    fn search(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let lane = self.lane(direction, out);
        let DnsStreamState::Lost(quality) = lane.state else {
            return 0;
        };
        let Some(found) = lane.resync.find(&DnsMessageLocator, segment, out) else {
            return segment.bytes.len();
        };
        lane.state = DnsStreamState::Framed;
        lane.found = Some(quality);
        found.replay(|held| {
            let mut rest = held;
            while !rest.bytes.is_empty() {
                let used = self.step(direction, rest, out);
                rest = rest.behind(used);
            }
        })
    }

    /// Handles a message; returns whether it is valid.
    fn message(
        &mut self,
        direction: Direction,
        captured: CapturedMessage<'_>,
        out: &mut ParserOutput<'_>,
    ) -> bool {
        let CapturedMessage {
            bytes,
            len,
            span,
            place,
            found,
        } = captured;
        let Some(header) = DnsHeader::read(bytes) else {
            out.counters.malformed_messages += u64::from(bytes.len() == len as usize);
            return bytes.len() < len as usize;
        };
        let question = DnsQuestion::read(bytes, header);
        // An unusual message that was cut cannot be checked for completeness.
        let is_message =
            is_plausible(header) || bytes.len() < len as usize || is_consistent(bytes, header);
        if !is_message || question == DnsQuestion::Malformed {
            out.counters.malformed_messages += 1;
            return false;
        }
        let message = DnsMessage {
            direction,
            header,
            bytes,
            len,
            span,
            place,
            found,
        };
        self.exchanges.message(&message, question, out);
        true
    }
}

/// Determines the participants by ports and addresses.
fn who(out: &ParserOutput<'_>) -> DnsPeers {
    let flow = out.flow.context();
    let ends = [flow.client, flow.server];
    let mdns = ends.map(|end| end.port) == [MDNS; 2]
        || ends
            .iter()
            .any(|end| end.port == MDNS && end.addr.to_ip().is_multicast());
    let others = mdns || ends.iter().any(|end| matches!(end.port, LLMNR | NETBIOS));
    if others {
        DnsPeers::Group
    } else {
        DnsPeers::Pair
    }
}
