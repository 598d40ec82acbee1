//! Finding out what a flow speaks, by its first bytes in both directions; then handing everything to that parser.
//!
//! Holds the first bytes of a flow (bounded) until a protocol claims them. Knows no protocol itself: those to look
//! for are an argument. A PROXY protocol header in front of them is removed first (`header`); who is the client of a
//! connection without a SYN is decided by ports and both directions, and reviewed later (`roles`).

mod header;
mod roles;

use flow::{Flow, Place};
use wire::{IpProtocol, Side, Timestamp};

use self::header::Preamble;
use self::roles::Claim;
pub use self::roles::{Doubt, Review};
use crate::application::{Known, Over, Signature};
use crate::{Direction, Gap, Output, Probe, ProbeContext, Protocol, Segment, StreamParser};

/// Limit of the bytes that every flow may hold before it is recognized, and of the bytes of a side that a probe sees.
const HELD_BYTES_MAX: usize = 4096;
/// Most bytes of a flow that are kept while a protocol waits for the other side's answer.
const AWAITED_BYTES_MAX: usize = 1 << 20;
/// Chunks without a result after which a flow seen from its start is given up.
const CHUNKS_MAX: u32 = 16;
/// The same for a flow joined midway, where most chunks do not begin a message.
const MIDSTREAM_CHUNKS_MAX: u32 = 200;

/// What is known of one flow's protocol.
#[derive(Default)]
pub enum Stream {
    /// Nothing yet.
    #[default]
    New,
    /// Bytes seen, protocol not known.
    Probing(Box<Probing>),
    /// Recognised.
    Parsing {
        /// The parser.
        parser: Box<dyn StreamParser>,
        /// Its place in the list of protocols.
        protocol: u8,
        /// The side that asks.
        asker: Side,
        /// Whether that may turn out wrong.
        doubt: Doubt,
    },
    /// None of the protocols asked for.
    Ignored,
}

/// The bytes of a flow whose protocol is not known yet.
#[derive(Default)]
pub struct Probing {
    held: Vec<Held>,
    /// How many gave no result.
    chunks: u32,
    midstream: bool,
    /// Whether a protocol may still claim the held bytes of each side.
    undecided: [bool; 2],
    /// Whose it is of those that are only named: a place in their list.
    named: Option<u8>,
    preamble: Preamble,
    claim: Option<Claim>,
    /// Bytes for which there was no room, although a protocol waited for an answer.
    passed_over: u64,
    /// Who asks, if a protocol's own signature named it.
    asker: Option<Side>,
}

/// What a flow may speak.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    /// The protocols that are to be read.
    pub read: &'a [&'static Protocol],
    /// Others, which are named where none of those claims the bytes.
    pub named: &'a [Signature],
    /// How many bytes more there is room for, of a flow that holds the usual number.
    pub room: usize,
}

/// Bytes that `side` sent, or that are missing.
struct Held {
    side: Side,
    ts: Timestamp,
    place: Place,
    /// So many are missing before these.
    missing: u64,
    bytes: Vec<u8>,
}

/// Which protocol spoke, and who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Place in the list of protocols.
    pub protocol: u8,
    /// The side that asks.
    pub asker: Side,
}

/// The flow as far as probing is concerned.
#[derive(Clone, Copy, Debug)]
pub struct ProbeFlow {
    /// TCP or UDP.
    pub transport: IpProtocol,
    /// The client by the SYN, if one was seen.
    pub client: Option<Side>,
    /// The ports of sides A and B.
    pub ports: [u16; 2],
    /// Joined after its start.
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

    /// Looks at the next bytes of `side`. `Ok(None)`: not known yet; `Err(())`: none of those to be read.
    ///
    /// # Errors
    /// When the flow has shown enough to be given up, or there is nothing to be read and its name is known.
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

    /// Whose the bytes are, with what is held of their side or by themselves; otherwise whether more bytes may tell.
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
            // What came before may be of something else: these bytes alone may begin a message.
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

    /// Keeps bytes that no protocol has claimed: what the other side answers may tell what they are.
    fn hold(&mut self, side: Side, segment: Segment<'_>, flow: ProbeFlow, midstream: bool, room: usize) {
        let Segment { bytes, ts, place } = segment;
        let undecided = self.undecided[side.index()] || self.has_claimed(side);
        let held = self.held_bytes();
        let most =
            if undecided { AWAITED_BYTES_MAX.min(HELD_BYTES_MAX.max(held) + room) } else { HELD_BYTES_MAX };
        match () {
            // Each datagram is looked at by itself.
            () if flow.transport == IpProtocol::UDP => {}
            // These bytes begin no message, or too much is held: the next ones of this side may begin one.
            () if held + bytes.len() > most || midstream && !undecided => {
                self.passed_over += if undecided { (self.len_of(side) + bytes.len()) as u64 } else { 0 };
                self.forget(side, ts);
            }
            () => self.held.push(Held { side, ts, place, missing: 0, bytes: bytes.to_vec() }),
        }
    }

    /// The place in [`Candidates::named`] of what the flow speaks, if that is known.
    #[must_use]
    pub fn named(&self) -> Option<u8> {
        self.named
    }

    /// Who asks, where the flow is that of a protocol which another parser reads.
    #[must_use]
    pub fn asker(&self) -> Option<Side> {
        self.asker
    }

    /// Looks for the flow's name in all that is held of a side and its new bytes, then in these alone. Whether more bytes may tell.
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

    /// Bytes of `side` are missing: what is held of it leads nowhere.
    pub fn on_gap(&mut self, side: Side, gap: Gap) {
        let Some(gap) = self.behind_header_gap(side, gap) else { return };
        let place = Place { seq: gap.seq, ack: None };
        self.held.push(Held { side, ts: gap.ts, place, missing: gap.len, bytes: Vec::new() });
        self.forget(side, gap.ts);
    }

    /// What is held of `side` leads nowhere. If bytes of it are missing, what comes next is behind a gap.
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

    /// Its size in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Probing>()
            + self.held.iter().map(|held| size_of::<Held>() + held.bytes.len()).sum::<usize>()
    }

    /// The first bytes that are held of `side`, as many as protocols are shown.
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

    /// How many bytes are held.
    fn held_bytes(&self) -> usize {
        self.held.iter().map(|h| h.bytes.len()).sum()
    }

    /// How many bytes are held beyond what every flow may hold.
    #[must_use]
    pub fn excess(&self) -> usize {
        self.held_bytes().saturating_sub(HELD_BYTES_MAX)
    }

    /// Bytes for which there was no room, although a protocol waited for an answer.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Whether the start of the connection's bytes was not used.
    #[must_use]
    pub fn joined_midway(&self) -> bool {
        self.midstream
    }

    /// Feeds what was held to the parser that was found.
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

/// Whom to ask about whose bytes.
struct Asked<'a> {
    side: Side,
    flow: ProbeFlow,
    protocols: &'a [&'static Protocol],
    /// What is held of the other side.
    other: &'a [u8],
}

impl Asked<'_> {
    /// The first protocol that claims the bytes; otherwise whether any wants to see more.
    fn probe(&self, bytes: &[u8], midstream: bool) -> Result<Claim, bool> {
        let protocols = self.protocols.iter().map(|protocol| Signature::from(*protocol));
        self.first(bytes, midstream, protocols)
    }

    /// The place of the first signature that fits, and who asks; otherwise whether any that is read wants to see more.
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

    /// Who asks if the bytes are of one protocol, and whether the ports say otherwise; else whether it wants to see more.
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

/// The direction of bytes sent by `side` when `asker` asks.
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

    /// Notes where bytes belong.
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
