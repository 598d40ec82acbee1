//! Protocol recognition: determines a flow's protocol by its first bytes in both directions, then passes them
//! to its parser.
//!
//! Holds the first bytes of a flow (bounded) until a protocol claims them. The candidate protocols are an
//! argument. A PROXY protocol header in front of them is removed first (`header`). The client of a connection
//! without a SYN is determined by ports and both directions, and reviewed later (`roles`).

mod header;
mod roles;

use flow::{Flow, Place};
use wire::{IpProtocol, Side, Timestamp};

use self::header::Preamble;
use self::roles::Claim;
pub use self::roles::{Doubt, Review};
use crate::application::{Known, Over, Signature};
use crate::{Direction, Gap, Output, Probe, ProbeContext, Protocol, Segment, StreamParser};

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
pub enum Stream {
    /// No bytes yet.
    #[default]
    New,
    /// Bytes held, protocol unknown.
    Probing(Box<Probing>),
    /// Recognized.
    Parsing {
        /// The parser.
        parser: Box<dyn StreamParser>,
        /// Index in the list of protocols.
        protocol: u8,
        /// The client's side.
        asker: Side,
        /// Whether client and server may be exchanged.
        doubt: Doubt,
    },
    /// None of the protocols to read.
    Ignored,
}

/// Held bytes of a flow whose protocol is unknown.
#[derive(Default)]
pub struct Probing {
    held: Vec<Held>,
    /// Number of chunks without a result.
    chunks: u32,
    midstream: bool,
    /// Whether a protocol may still claim the held bytes of each side.
    undecided: [bool; 2],
    /// Protocol recognized by name only: index in the list.
    named: Option<u8>,
    preamble: Preamble,
    claim: Option<Claim>,
    /// Bytes discarded for lack of memory although a protocol waited for a response.
    passed_over: u64,
    /// The client's side, if a protocol's own signature determined it.
    asker: Option<Side>,
}

/// Protocols a flow may have.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    /// Protocols to be read.
    pub read: &'a [&'static Protocol],
    /// Other signatures, which only name a flow.
    pub named: &'a [Signature],
    /// Bytes that may be held beyond the usual limit of a flow.
    pub room: usize,
}

/// Bytes of `side`, or a gap.
struct Held {
    side: Side,
    ts: Timestamp,
    place: Place,
    /// Length of the gap before the bytes.
    missing: u64,
    bytes: Vec<u8>,
}

/// Recognized protocol and the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Index in the list of protocols.
    pub protocol: u8,
    /// The client's side.
    pub asker: Side,
}

/// Facts about a flow that recognition uses.
#[derive(Clone, Copy, Debug)]
pub struct ProbeFlow {
    /// TCP or UDP.
    pub transport: IpProtocol,
    /// The client by the SYN, if one was seen.
    pub client: Option<Side>,
    /// Ports of sides A and B.
    pub ports: [u16; 2],
    /// Whether the flow was joined after its start.
    pub midstream: bool,
}

impl From<&Flow<'_>> for ProbeFlow {
    fn from(flow: &Flow<'_>) -> Self {
        let (key, (client, guessed)) = (flow.key(), flow.client());
        ProbeFlow {
            transport: key.protocol,
            client: (!guessed).then_some(client),
            ports: [key.a.port, key.b.port],
            midstream: flow.is_midstream(),
        }
    }
}

impl Probing {
    /// State of a flow whose first bytes were not examined.
    #[must_use]
    pub fn midway() -> Probing {
        Probing { midstream: true, preamble: Preamble::absent(), ..Probing::default() }
    }

    /// Examines the next bytes of `side`. Returns `Ok(None)` while the protocol is unknown.
    ///
    /// # Errors
    /// When recognition ends: the limit of chunks is reached, or no protocol is to be read and the name is
    /// known.
    #[allow(clippy::result_unit_err)]
    pub fn on_bytes(
        &mut self,
        side: Side,
        segment: Segment<'_>,
        flow: ProbeFlow,
        candidates: Candidates<'_>,
    ) -> Result<Option<Recognised>, ()> {
        let midstream = flow.midstream || self.midstream;
        let flow = ProbeFlow { client: flow.client.or(self.preamble.sender()), ..flow };
        let has_read = !candidates.read.is_empty();
        if self.len_of(side) < HELD_BYTES_MAX {
            let other = self.held_of(side.other());
            let asked = Asked { side, flow, protocols: candidates.read, other: &other };
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
        if self.chunks >= if midstream { MIDSTREAM_CHUNKS_MAX } else { CHUNKS_MAX } {
            return self.claimed().map(Some).ok_or(());
        }
        self.hold(side, segment, flow, midstream, candidates.room);
        Ok(None)
    }

    /// Probes the bytes together with the held bytes of their side, then alone. The error is whether more
    /// bytes may help.
    fn ask(
        &mut self,
        asked: &Asked<'_>,
        segment: Segment<'_>,
        midstream: bool,
        named: &[Signature],
    ) -> Result<Recognised, bool> {
        let (side, bytes) = (asked.side, segment.bytes);
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
    fn hold(&mut self, side: Side, segment: Segment<'_>, flow: ProbeFlow, midstream: bool, room: usize) {
        let Segment { bytes, ts, place } = segment;
        let undecided = self.undecided[side.index()] || self.has_claimed(side);
        let held = self.held_bytes();
        let most =
            if undecided { AWAITED_BYTES_MAX.min(HELD_BYTES_MAX.max(held) + room) } else { HELD_BYTES_MAX };
        match () {
            // Each datagram is probed separately.
            () if flow.transport == IpProtocol::UDP => {}
            // These bytes begin no message, or the limit is reached: the next ones of this side may begin
            // one.
            () if held + bytes.len() > most || midstream && !undecided => {
                self.passed_over += if undecided { (self.len_of(side) + bytes.len()) as u64 } else { 0 };
                self.forget(side, ts);
            }
            () => self.held.push(Held { side, ts, place, missing: 0, bytes: bytes.to_vec() }),
        }
    }

    /// Index in [`Candidates::named`] of the flow's name, if known.
    #[must_use]
    pub fn named(&self) -> Option<u8> {
        self.named
    }

    /// The client's side, if the flow belongs to a protocol that another parser reads.
    #[must_use]
    pub fn asker(&self) -> Option<Side> {
        self.asker
    }

    /// Looks for the flow's name in all held bytes of a side with its new bytes, then in the new bytes alone.
    /// Returns whether more bytes may help.
    fn name(
        &mut self,
        asked: &Asked<'_>,
        named: &[Signature],
        (seen, new): (&[u8], &[u8]),
        midstream: bool,
    ) -> bool {
        if self.named.is_some() {
            return false;
        }
        let found = asked.first(seen, midstream, named.iter().copied());
        let found = match found {
            Err(false) if seen.len() > new.len() => asked.first(new, true, named.iter().copied()),
            found => found,
        };
        if let Ok(claim) = found {
            let Recognised { protocol, asker } = claim.found;
            self.named = Some(protocol);
            self.asker = Some(asker).filter(|_| named[usize::from(protocol)].known == Known::Read);
        }
        found == Err(true)
    }

    /// Handles a gap in the bytes of `side`: its held bytes are discarded.
    pub fn on_gap(&mut self, side: Side, gap: Gap) {
        let Some(gap) = self.behind_header_gap(side, gap) else { return };
        let place = Place { seq: gap.seq, ack: None };
        self.held.push(Held { side, ts: gap.ts, place, missing: gap.len, bytes: Vec::new() });
        self.forget(side, gap.ts);
    }

    /// Discards the held bytes of `side` and keeps their length as a gap.
    fn forget(&mut self, side: Side, ts: Timestamp) {
        self.undecided[side.index()] = false;
        let of_side = || self.held.iter().filter(|h| h.side == side);
        let gap = of_side().any(|h| h.missing > 0);
        let missing = of_side().map(|h| h.missing + h.bytes.len() as u64).sum();
        let place = of_side().next().map(|h| h.place).unwrap_or_default();
        self.held.retain(|h| h.side != side);
        if gap {
            self.held.push(Held { side, ts, place, missing, bytes: Vec::new() });
        }
        self.midstream = true;
    }

    /// Size in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Probing>()
            + self.held.iter().map(|held| size_of::<Held>() + held.bytes.len()).sum::<usize>()
    }

    /// The first held bytes of `side`, up to the number shown to a probe.
    fn held_of(&self, side: Side) -> Vec<u8> {
        let mut bytes = Vec::new();
        for held in self.held.iter().filter(|held| held.side == side) {
            let room = HELD_BYTES_MAX - bytes.len();
            bytes.extend_from_slice(&held.bytes[..held.bytes.len().min(room)]);
        }
        bytes
    }

    fn len_of(&self, side: Side) -> usize {
        self.held.iter().filter(|h| h.side == side).map(|h| h.bytes.len()).sum()
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
    pub fn replay(self, asker: Side, parser: &mut dyn StreamParser, out: &mut Output<'_>) {
        for Held { side, ts, place, missing, bytes } in self.held {
            if missing > 0 {
                parser.on_gap(direction(side, asker), Gap { seq: place.seq, len: missing, ts }, out);
            }
            if !bytes.is_empty() {
                parser.on_bytes(direction(side, asker), Segment { bytes: &bytes, ts, place }, out);
            }
        }
    }
}

/// Arguments of a probe.
struct Asked<'a> {
    side: Side,
    flow: ProbeFlow,
    protocols: &'a [&'static Protocol],
    /// Held bytes of the other side.
    other: &'a [u8],
}

impl Asked<'_> {
    /// The first protocol that claims the bytes; otherwise whether any needs more.
    fn probe(&self, bytes: &[u8], midstream: bool) -> Result<Claim, bool> {
        let protocols = self.protocols.iter().map(|protocol| Signature::from(*protocol));
        self.first(bytes, midstream, protocols)
    }

    /// The first matching signature and the client; otherwise whether any that is read needs more.
    fn first(
        &self,
        bytes: &[u8],
        midstream: bool,
        signatures: impl Iterator<Item = Signature>,
    ) -> Result<Claim, bool> {
        let transport = self.flow.transport;
        let mut undecided = false;
        for (i, signature) in signatures.enumerate() {
            let spoken = match signature.over {
                Over::Tcp => transport == IpProtocol::TCP,
                Over::Udp => transport == IpProtocol::UDP,
                Over::Both => transport == IpProtocol::TCP || transport == IpProtocol::UDP,
            };
            if !spoken {
                continue;
            }
            let protocol = i as u8;
            match self.one(bytes, midstream, &signature) {
                Ok((asker, against_port)) => {
                    let found = Recognised { protocol, asker };
                    return Ok(Claim { found, side: self.side, against_port });
                }
                Err(needs_more) => undecided |= needs_more && signature.known == Known::Read,
            }
        }
        Err(undecided)
    }

    /// The client if the bytes match a signature, and whether the ports contradict it; otherwise whether it
    /// needs more.
    fn one(&self, bytes: &[u8], midstream: bool, signature: &Signature) -> Result<(Side, bool), bool> {
        let by_port = self.flow.client_by_port(signature.ports);
        let mut context = context(self.side, self.flow, midstream, signature.ports);
        context.answers = signature.known == Known::Read
            && !self.other.is_empty()
            && (signature.probe)(
                self.other,
                ProbeContext { speaker: context.speaker.map(Direction::other), ..context },
            ) == Probe::NeedMore;
        let ask = |context| match (signature.probe)(bytes, context) {
            Probe::Request => Ok(self.side),
            Probe::Response => Ok(self.side.other()),
            Probe::NeedMore => Err(true),
            Probe::NotForUs => Err(false),
        };
        let Some(client) = by_port else { return ask(context).map(|asker| (asker, false)) };
        let presumed = ProbeContext { speaker: Some(direction(self.side, client)), ..context };
        match ask(presumed) {
            Err(false) => ask(context).map(|asker| (asker, asker != client)),
            asker => asker.map(|asker| (asker, asker != client)),
        }
    }
}

/// The direction of bytes sent by `side` when `asker` is the client.
#[must_use]
pub fn direction(side: Side, asker: Side) -> Direction {
    if side == asker { Direction::ClientToServer } else { Direction::ServerToClient }
}

fn context(side: Side, flow: ProbeFlow, midstream: bool, ports: &[u16]) -> ProbeContext {
    let usual = |s: Side| ports.contains(&flow.ports[s.index()]);
    let usual_port = match flow.client {
        Some(client) => usual(client.other()),
        None => usual(Side::A) || usual(Side::B),
    };
    let speaker = flow.client.map(|client| direction(side, client));
    ProbeContext { transport: flow.transport, usual_port, midstream, speaker, answers: false }
}

#[cfg(test)]
mod tests {
    use wire::TcpSeq;

    use super::*;
    use crate::dialogue::flow;
    use crate::{Counters, template};

    /// Records the positions of segments.
    struct Places(Vec<Place>);

    impl StreamParser for Places {
        fn on_bytes(&mut self, _: Direction, segment: Segment<'_>, _: &mut Output<'_>) {
            self.0.push(segment.behind(1).place);
        }

        fn on_gap(&mut self, _: Direction, _: Gap, _: &mut Output<'_>) {}

        fn on_end(&mut self, _: Direction, _: crate::End, _: &mut Output<'_>) {}

        fn on_close(&mut self, _: &mut Output<'_>) {}
    }

    #[test]
    fn what_was_held_keeps_its_place() {
        let mut probing = Probing::default();
        let about =
            ProbeFlow { transport: IpProtocol::TCP, client: None, ports: [40000, 7070], midstream: false };
        let at = |seq| Place { seq: TcpSeq(seq), ack: Some(TcpSeq(7)) };
        let segment = |bytes, ts, seq| Segment { bytes, ts: Timestamp(ts), place: at(seq) };
        let protocols = Candidates { read: &[&template::PROTOCOL], named: &[], room: 0 };
        let found = probing.on_bytes(Side::A, segment(b"GET", 1, 100), about, protocols);
        assert_eq!(found, Ok(None));
        let found = probing.on_bytes(Side::A, segment(b" a\n", 2, 103), about, protocols);
        assert_eq!(found, Ok(Some(Recognised { protocol: 0, asker: Side::A })));
        let (flow, mut counters, mut places) = (flow(), Counters::default(), Places(Vec::new()));
        let mut out = Output::new(&flow, Timestamp(2), &mut counters, &mut []);
        probing.replay(Side::A, &mut places, &mut out);
        assert_eq!(places.0, [at(101)]);
    }
}
