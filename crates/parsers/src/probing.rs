//! Protocol recognition: determines a flow's protocol by its first bytes in both directions, then passes them
//! to its parser.
//!
//! Holds the first bytes of a flow (bounded) until a protocol claims them. The candidate protocols are an
//! argument. A PROXY protocol header in front of them is removed first (`header`). The client of a connection
//! without a SYN is determined by ports and both directions, and reviewed later (`roles`).

mod header;
mod roles;

pub use roles::RoleReview;

use std::borrow::Borrow;

use flow::{Flow, StreamPlace};
use wire::{FlowSide, IpProtocol, Timestamp};

use crate::application::{RecognitionLevel, Signature, TransportSet};
use crate::proxy_header::ProxiedEndpoints;
use crate::tls_decrypt::TlsSession;
use crate::{
    Direction, ParserOutput, ProbeContext, ProbeResult, ProtocolDefinition, StreamGap,
    StreamParser, StreamSegment,
};

/// Maximum bytes held per flow before recognition, and bytes of a side shown to a probe.
const HELD_BYTES_MAX: usize = 4096;
/// Maximum bytes held per flow while a protocol waits for the other side's response.
const AWAITED_BYTES_MAX: usize = 1 << 20;
/// Chunks without a result after which recognition of a flow seen from its start ends.
const CHUNKS_MAX: u32 = 16;
/// Same for a flow joined midway, where most chunks do not begin a message.
const MIDSTREAM_CHUNKS_MAX: u32 = 200;

/// Recognition state of a flow.
#[derive(Default)]
pub enum FlowProtocol {
    /// No bytes yet.
    #[default]
    New,
    /// Bytes held, protocol unknown.
    Probing(Box<ProbeBuffer>),
    /// Recognized.
    Parsing {
        /// The parser.
        parser: Box<dyn StreamParser>,
        /// Index in the list of protocols.
        protocol: u8,
        /// The client's side.
        asker: FlowSide,
        /// Whether client and server may be exchanged.
        doubt: RoleDoubt,
    },
    /// The protocol is not one of those to parse.
    Ignored,
    /// TLS whose plaintext has a protocol of its own.
    Decrypting(Box<DecryptedFlow>),
}

/// A TLS connection that is decrypted.
pub struct DecryptedFlow {
    /// Decryption.
    pub session: TlsSession,
    /// The client's side.
    pub asker: FlowSide,
    /// Protocol of the encrypted stream: TLS itself.
    pub outer: FlowProtocol,
    /// Protocol of the plaintext.
    pub inner: FlowProtocol,
}

/// Held bytes of a flow whose protocol is unknown.
#[derive(Default)]
pub struct ProbeBuffer {
    held: Vec<ProbeChunk>,
    /// Number of chunks without a result.
    chunks: u32,
    midstream: bool,
    /// Whether a protocol may still claim the held bytes of each side.
    undecided: [bool; 2],
    /// Protocol recognized by name only: index in the list.
    named: Option<u8>,
    preamble: ProxyPreamble,
    claim: Option<ProtocolClaim>,
    /// Bytes discarded for lack of memory although a protocol waited for a response.
    passed_over: u64,
    /// The client's side, if a protocol's own signature determined it.
    asker: Option<FlowSide>,
}

/// State of a PROXY protocol header.
#[derive(Default)]
struct ProxyPreamble {
    /// Whether the first bytes of each side have been examined.
    judged: [bool; 2],
    sender: Option<FlowSide>,
    /// Bytes of the sender that still belong to the header.
    left: u64,
    proxied: Option<ProxiedEndpoints>,
}

impl ProxyPreamble {
    /// No header: the first bytes of the connection have passed.
    fn absent() -> ProxyPreamble {
        ProxyPreamble {
            judged: [true; 2],
            ..ProxyPreamble::default()
        }
    }

    /// The side that sent a header: the client.
    fn sender(&self) -> Option<FlowSide> {
        self.sender
    }
}

/// Result of recognition for some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProtocolClaim {
    found: RecognizedProtocol,
    /// Sender of the bytes.
    side: FlowSide,
    /// By its port, the other side would be the client.
    against_port: bool,
}

/// Evidence for and against the assumed client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleDoubt {
    /// Segments left to review.
    left: u8,
    confirmed: u8,
    contradicted: u8,
}

/// Protocols a flow may have.
#[derive(Clone, Copy)]
pub struct ProtocolCandidates<'a> {
    /// Protocols to be read.
    pub read: &'a [&'static ProtocolDefinition],
    /// Other signatures, which only name a flow.
    pub named: &'a [Signature],
    /// Bytes that may be held beyond the usual limit of a flow.
    pub room: usize,
}

/// Bytes of `side`, or a gap.
struct ProbeChunk {
    side: FlowSide,
    ts: Timestamp,
    place: StreamPlace,
    /// Length of the gap before the bytes.
    missing: u64,
    bytes: Vec<u8>,
}

/// Recognized protocol and the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecognizedProtocol {
    /// Index in the list of protocols.
    pub protocol: u8,
    /// The client's side.
    pub asker: FlowSide,
}

/// Facts about a flow that recognition uses.
#[derive(Clone, Copy, Debug)]
pub struct ProbeFlow {
    /// TCP or UDP.
    pub transport: IpProtocol,
    /// The client by the SYN, if one was seen.
    pub client: Option<FlowSide>,
    /// Ports of sides A and B.
    pub ports: [u16; 2],
    /// Whether the flow was joined after its start.
    pub midstream: bool,
}

impl From<&Flow<'_>> for ProbeFlow {
    fn from(flow: &Flow<'_>) -> Self {
        let key = flow.key();
        let (client, guessed) = flow.client();
        ProbeFlow {
            transport: key.protocol,
            client: (!guessed).then_some(client),
            ports: [key.a.port, key.b.port],
            midstream: flow.is_midstream(),
        }
    }
}

impl ProbeFlow {
    /// Whether the server's port, or either port if the client is unknown, is one of `ports`.
    #[inline]
    fn has_usual_port(&self, ports: &[u16]) -> bool {
        // The lists are too short for `contains`, which compares many ports at once.
        let usual = |side: FlowSide| ports.iter().any(|port| *port == self.ports[side.index()]);
        match self.client {
            Some(client) => usual(client.other()),
            None => usual(FlowSide::A) || usual(FlowSide::B),
        }
    }
}

impl ProbeBuffer {
    /// State of a flow whose first bytes were not examined.
    #[must_use]
    pub fn midway() -> ProbeBuffer {
        ProbeBuffer {
            midstream: true,
            preamble: ProxyPreamble::absent(),
            ..ProbeBuffer::default()
        }
    }

    /// Examines the next bytes of `side`. Returns `Ok(None)` while the protocol is unknown.
    ///
    /// # Errors
    /// When recognition ends: the limit of chunks is reached, or no protocol is to be read and the name is
    /// known.
    #[allow(clippy::result_unit_err)]
    pub fn on_bytes(
        &mut self,
        side: FlowSide,
        segment: StreamSegment<'_>,
        flow: ProbeFlow,
        candidates: ProtocolCandidates<'_>,
    ) -> Result<Option<RecognizedProtocol>, ()> {
        let midstream = flow.midstream || self.midstream;
        let flow = ProbeFlow {
            client: flow.client.or(self.preamble.sender()),
            ..flow
        };
        let has_read = !candidates.read.is_empty();
        if self.len_of(side) < HELD_BYTES_MAX {
            let other = self.held_of(side.other());
            let asked = ProbeInput {
                side,
                flow,
                protocols: candidates.read,
                other: &other,
            };
            match self.ask(&asked, segment, midstream, candidates.named) {
                Ok(found) => return Ok(Some(found)),
                Err(undecided) => self.undecided[side.index()] = undecided,
            }
            if !has_read && self.named.is_some() {
                return Err(());
            }
        }
        let undecided = self.undecided[side.index()];
        self.chunks += u32::from(!undecided || !has_read);
        if self.chunks
            >= if midstream {
                MIDSTREAM_CHUNKS_MAX
            } else {
                CHUNKS_MAX
            }
        {
            return self.claimed().map(Some).ok_or(());
        }
        self.hold(side, segment, flow, midstream, candidates.room);
        Ok(None)
    }

    /// Probes the bytes together with the held bytes of their side, then alone. The error is whether more
    /// bytes may help.
    fn ask(
        &mut self,
        asked: &ProbeInput<'_>,
        segment: StreamSegment<'_>,
        midstream: bool,
        named: &[Signature],
    ) -> Result<RecognizedProtocol, bool> {
        let side = asked.side;
        let bytes = segment.bytes;
        let before = self.held_of(side);
        let joined;
        let seen = if before.is_empty() {
            bytes
        } else {
            joined = [&before, bytes].concat();
            &joined
        };
        let is_new = before.is_empty();
        let mut undecided = match self.settle(asked.probe(seen, midstream), (is_new, segment.ts)) {
            Ok(found) => return Ok(found),
            Err(undecided) => undecided,
        };
        if !is_new && (!undecided || self.has_claimed(side)) {
            // Earlier bytes may belong to something else: these alone may begin a message.
            let alone = self.settle(asked.probe(bytes, true), (true, segment.ts));
            if let Ok(found) = alone {
                if self.claim.is_none() {
                    self.forget(side, segment.ts);
                }
                return Ok(found);
            }
        }
        let name_undecided = self.name(asked, named, (seen, bytes), midstream);
        if asked.protocols.is_empty() {
            undecided = name_undecided;
        }
        Err(undecided)
    }

    /// Holds bytes that no protocol has claimed: the other side's response may identify them.
    fn hold(
        &mut self,
        side: FlowSide,
        segment: StreamSegment<'_>,
        flow: ProbeFlow,
        midstream: bool,
        room: usize,
    ) {
        let StreamSegment { bytes, ts, place } = segment;
        let undecided = self.undecided[side.index()] || self.has_claimed(side);
        let held = self.held_bytes();
        let most = if undecided {
            AWAITED_BYTES_MAX.min(HELD_BYTES_MAX.max(held) + room)
        } else {
            HELD_BYTES_MAX
        };
        match () {
            // Each datagram is probed separately.
            () if flow.transport == IpProtocol::UDP => {}
            // These bytes begin no message, or the limit is reached: the next ones of this side may begin
            // one.
            () if held + bytes.len() > most || midstream && !undecided => {
                self.passed_over += if undecided {
                    (self.len_of(side) + bytes.len()) as u64
                } else {
                    0
                };
                self.forget(side, ts);
            }
            () => self.held.push(ProbeChunk {
                side,
                ts,
                place,
                missing: 0,
                bytes: bytes.to_vec(),
            }),
        }
    }

    /// Index in [`ProtocolCandidates::named`] of the flow's name, if known.
    #[must_use]
    pub fn named(&self) -> Option<u8> {
        self.named
    }

    /// The client's side, if the flow belongs to a protocol that another parser reads.
    #[must_use]
    pub fn asker(&self) -> Option<FlowSide> {
        self.asker
    }

    /// Looks for the flow's name in all held bytes of a side with its new bytes, then in the new bytes alone.
    /// Returns whether more bytes may help.
    fn name(
        &mut self,
        asked: &ProbeInput<'_>,
        named: &[Signature],
        (seen, new): (&[u8], &[u8]),
        midstream: bool,
    ) -> bool {
        if self.named.is_some() {
            return false;
        }
        let found = asked.first(seen, midstream, named);
        let found = match found {
            Err(false) if seen.len() > new.len() => asked.first(new, true, named),
            found => found,
        };
        if let Ok(claim) = found {
            let RecognizedProtocol { protocol, asker } = claim.found;
            self.named = Some(protocol);
            self.asker = Some(asker)
                .filter(|_| named[usize::from(protocol)].known == RecognitionLevel::Read);
        }
        found == Err(true)
    }

    /// Handles a gap in the bytes of `side`: its held bytes are discarded.
    pub fn on_gap(&mut self, side: FlowSide, gap: StreamGap) {
        let Some(gap) = self.behind_header_gap(side, gap) else {
            return;
        };
        let place = StreamPlace {
            seq: gap.seq,
            ack: None,
        };
        self.held.push(ProbeChunk {
            side,
            ts: gap.ts,
            place,
            missing: gap.len,
            bytes: Vec::new(),
        });
        self.forget(side, gap.ts);
    }

    /// Discards the held bytes of `side` and keeps their length as a gap.
    fn forget(&mut self, side: FlowSide, ts: Timestamp) {
        self.undecided[side.index()] = false;
        let of_side = || self.held.iter().filter(|h| h.side == side);
        let gap = of_side().any(|h| h.missing > 0);
        let missing = of_side().map(|h| h.missing + h.bytes.len() as u64).sum();
        let place = of_side().next().map(|h| h.place).unwrap_or_default();
        self.held.retain(|h| h.side != side);
        if gap {
            self.held.push(ProbeChunk {
                side,
                ts,
                place,
                missing,
                bytes: Vec::new(),
            });
        }
        self.midstream = true;
    }

    /// Size in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<ProbeBuffer>()
            + self
                .held
                .iter()
                .map(|held| size_of::<ProbeChunk>() + held.bytes.len())
                .sum::<usize>()
    }

    /// The first held bytes of `side`, up to the number shown to a probe.
    fn held_of(&self, side: FlowSide) -> Vec<u8> {
        let mut bytes = Vec::new();
        for held in self.held.iter().filter(|held| held.side == side) {
            let room = HELD_BYTES_MAX - bytes.len();
            bytes.extend_from_slice(&held.bytes[..held.bytes.len().min(room)]);
        }
        bytes
    }

    fn len_of(&self, side: FlowSide) -> usize {
        self.held
            .iter()
            .filter(|h| h.side == side)
            .map(|h| h.bytes.len())
            .sum()
    }

    /// Number of bytes held.
    fn held_bytes(&self) -> usize {
        self.held.iter().map(|h| h.bytes.len()).sum()
    }

    /// Bytes held beyond the usual limit of a flow.
    #[must_use]
    pub fn excess(&self) -> usize {
        self.held_bytes().saturating_sub(HELD_BYTES_MAX)
    }

    /// Bytes discarded for lack of memory although a protocol waited for a response.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Whether the start of the connection's bytes was not used.
    #[must_use]
    pub fn joined_midway(&self) -> bool {
        self.midstream
    }

    /// Passes the held bytes to the parser.
    pub fn replay(
        self,
        asker: FlowSide,
        parser: &mut dyn StreamParser,
        out: &mut ParserOutput<'_>,
    ) {
        for ProbeChunk {
            side,
            ts,
            place,
            missing,
            bytes,
        } in self.held
        {
            if missing > 0 {
                parser.on_gap(
                    direction(side, asker),
                    StreamGap {
                        seq: place.seq,
                        len: missing,
                        ts,
                    },
                    out,
                );
            }
            if !bytes.is_empty() {
                parser.on_bytes(
                    direction(side, asker),
                    StreamSegment {
                        bytes: &bytes,
                        ts,
                        place,
                    },
                    out,
                );
            }
        }
    }
}

/// Arguments of a probe.
struct ProbeInput<'a> {
    side: FlowSide,
    flow: ProbeFlow,
    protocols: &'a [&'static ProtocolDefinition],
    /// Held bytes of the other side.
    other: &'a [u8],
}

impl ProbeInput<'_> {
    /// The first protocol that claims the bytes; otherwise whether any needs more.
    fn probe(&self, bytes: &[u8], midstream: bool) -> Result<ProtocolClaim, bool> {
        let protocols = self
            .protocols
            .iter()
            .map(|protocol| Signature::from(*protocol));
        self.first(bytes, midstream, protocols)
    }

    /// The first matching signature and the client; otherwise whether any that is read needs more.
    fn first(
        &self,
        bytes: &[u8],
        midstream: bool,
        signatures: impl IntoIterator<Item: Borrow<Signature>>,
    ) -> Result<ProtocolClaim, bool> {
        let transport = self.flow.transport;
        let speaker = self.flow.client;
        let context = ProbeContext {
            transport,
            usual_port: false,
            midstream,
            speaker: speaker.map(|client| direction(self.side, client)),
            answers: false,
        };
        let mut undecided = false;
        for (i, signature) in signatures.into_iter().enumerate() {
            let signature = signature.borrow();
            let spoken = match signature.over {
                TransportSet::Tcp => transport == IpProtocol::TCP,
                TransportSet::Udp => transport == IpProtocol::UDP,
                TransportSet::Both => transport == IpProtocol::TCP || transport == IpProtocol::UDP,
            };
            if !spoken {
                continue;
            }
            let protocol = i as u8;
            match self.one(bytes, context, signature) {
                Ok((asker, against_port)) => {
                    let found = RecognizedProtocol { protocol, asker };
                    return Ok(ProtocolClaim {
                        found,
                        side: self.side,
                        against_port,
                    });
                }
                Err(needs_more) => {
                    undecided |= needs_more && signature.known == RecognitionLevel::Read
                }
            }
        }
        Err(undecided)
    }

    /// The client if the bytes match a signature, and whether the ports contradict it; otherwise whether it
    /// needs more.
    #[inline]
    fn one(
        &self,
        bytes: &[u8],
        mut context: ProbeContext,
        signature: &Signature,
    ) -> Result<(FlowSide, bool), bool> {
        let by_port = self.flow.client_by_port(signature.ports);
        context.usual_port = self.flow.has_usual_port(signature.ports);
        context.answers = signature.known == RecognitionLevel::Read
            && !self.other.is_empty()
            && (signature.probe)(
                self.other,
                ProbeContext {
                    speaker: context.speaker.map(Direction::other),
                    ..context
                },
            ) == ProbeResult::NeedMore;
        let ask = |context| match (signature.probe)(bytes, context) {
            ProbeResult::Request => Ok(self.side),
            ProbeResult::Response => Ok(self.side.other()),
            ProbeResult::NeedMore => Err(true),
            ProbeResult::NotForUs => Err(false),
        };
        let Some(client) = by_port else {
            return ask(context).map(|asker| (asker, false));
        };
        let presumed = ProbeContext {
            speaker: Some(direction(self.side, client)),
            ..context
        };
        match ask(presumed) {
            Err(false) => ask(context).map(|asker| (asker, asker != client)),
            asker => asker.map(|asker| (asker, asker != client)),
        }
    }
}

/// The direction of bytes sent by `side` when `asker` is the client.
#[must_use]
pub fn direction(side: FlowSide, asker: FlowSide) -> Direction {
    if side == asker {
        Direction::ClientToServer
    } else {
        Direction::ServerToClient
    }
}

#[cfg(test)]
mod tests {
    use wire::TcpSeq;

    use super::*;
    use crate::dialogue::flow;
    use crate::{ParserCounters, template};

    /// Records the positions of segments.
    struct PlaceRecorder(Vec<StreamPlace>);

    impl StreamParser for PlaceRecorder {
        fn on_bytes(&mut self, _: Direction, segment: StreamSegment<'_>, _: &mut ParserOutput<'_>) {
            self.0.push(segment.behind(1).place);
        }

        fn on_gap(&mut self, _: Direction, _: StreamGap, _: &mut ParserOutput<'_>) {}

        fn on_end(&mut self, _: Direction, _: crate::StreamEnd, _: &mut ParserOutput<'_>) {}

        fn on_close(&mut self, _: &mut ParserOutput<'_>) {}
    }

    #[test]
    fn buffered_segments_keep_their_place() {
        let mut probing = ProbeBuffer::default();
        let about = ProbeFlow {
            transport: IpProtocol::TCP,
            client: None,
            ports: [40000, 7070],
            midstream: false,
        };
        let at = |seq| StreamPlace {
            seq: TcpSeq(seq),
            ack: Some(TcpSeq(7)),
        };
        let segment = |bytes, ts, seq| StreamSegment {
            bytes,
            ts: Timestamp(ts),
            place: at(seq),
        };
        let protocols = ProtocolCandidates {
            read: &[&template::PROTOCOL],
            named: &[],
            room: 0,
        };
        let found = probing.on_bytes(FlowSide::A, segment(b"GET", 1, 100), about, protocols);
        assert_eq!(found, Ok(None));
        let found = probing.on_bytes(FlowSide::A, segment(b" a\n", 2, 103), about, protocols);
        assert_eq!(
            found,
            Ok(Some(RecognizedProtocol {
                protocol: 0,
                asker: FlowSide::A
            }))
        );
        let flow = flow();
        let mut counters = ParserCounters::default();
        let mut places = PlaceRecorder(Vec::new());
        let mut out = ParserOutput::new(&flow, Timestamp(2), &mut counters, &mut []);
        probing.replay(FlowSide::A, &mut places, &mut out);
        assert_eq!(places.0, [at(101)]);
    }
}
