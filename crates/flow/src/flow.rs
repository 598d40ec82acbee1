//! One flow: who talks to whom since when, what each side has sent, how far a TCP connection has come. What every
//! packet touches lies in front, in three cache lines; what only few need follows.

use std::ops::{Deref, DerefMut};

use wire::packet::TcpFlags;
use wire::{FlowKey, IpProtocol, Packet, Side, TcpInfo, TcpSeq, Timestamp, Transport};
use xxhash_rust::xxh3::xxh3_64;

use crate::metrics::{ConnState, EndState, History, Letter, SideCounters, conn_state};
use crate::reassembly::ByteStream;

/// A flow and the caller's `state` for it.
#[derive(Debug)]
#[repr(C)]
pub struct Flow<S> {
    core: FlowCore,
    /// The caller's.
    pub state: S,
}

/// What the table knows of a flow; a [`Flow`] gives access to it as if it were its own.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FlowCore {
    /// Both ends and the protocol.
    pub key: FlowKey,
    pub(crate) bits: u16,
    /// The table's clock at the last packet.
    pub(crate) seen_at: i64,
    /// The packets' latest time.
    pub last_ts: Timestamp,
    /// Kept only of flows in which something was unusual.
    pub(crate) counters: Option<Box<[SideCounters; 2]>>,
    pub(crate) halves: [Half; 2],
    /// The first packet's time.
    pub first_ts: Timestamp,
    /// xxh3-64 of the key's bytes and `first_ts`, see [`flow_id`].
    pub id: u64,
    pub(crate) times: Times,
    /// Since when the active timeout runs.
    pub(crate) active_since: Timestamp,
    pub(crate) history: History,
}

/// What one side has sent.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Half {
    pub stream: ByteStream,
    pub packets: u64,
    /// On the wire, link headers included.
    pub bytes: u64,
    /// Highest acknowledgment sent.
    pub ack: TcpSeq,
    pub window: u16,
    /// [`half_bit`]s and, below them, the letters of the history that this side has.
    pub bits: u16,
}

/// When the milestones of a connection were passed; [`UNSET`] where they were not seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub syn: Timestamp,
    pub syn_ack: Timestamp,
    pub handshake_done: Timestamp,
    pub fins: [Timestamp; 2],
    pub rst: Timestamp,
    pub terminated: Timestamp,
}

const UNSET: Timestamp = Timestamp::MIN;

/// Bits of a flow.
pub(crate) mod flow_bit {
    pub const TCP: u16 = 1;
    /// Both FINs or a RST: nothing more is delivered.
    pub const TERMINATED: u16 = 2;
    pub const HANDSHAKE_DONE: u16 = 4;
    pub const MIDSTREAM: u16 = 8;
    /// The client is side B.
    pub const CLIENT_B: u16 = 16;
    /// Nobody has said who the client is.
    pub const CLIENT_GUESSED: u16 = 32;
    /// A SYN has said it.
    pub const CLIENT_BY_SYN: u16 = 64;
    /// Side B sent the first packet.
    pub const FIRST_B: u16 = 128;
    /// The caller has no interest in the payload.
    pub const IGNORED: u16 = 256;
    /// Not to be evicted while there are cheap flows.
    pub const VALUED: u16 = 512;
    /// In the table.
    pub const LIVE: u16 = 1024;
    /// The accepted RST came from side B.
    pub const RST_BY_B: u16 = 2048;
}

/// Bits of a half, above those of its letters.
pub(crate) mod half_bit {
    use crate::metrics::Letter;

    pub const ACK_SEEN: u16 = 1 << Letter::COUNT;
    pub const SYN: u16 = 2 << Letter::COUNT;
    /// Its SYN was not seen, but the other side's SYN-ACK says that there was one.
    pub const SYN_IMPLIED: u16 = 4 << Letter::COUNT;
    pub const FIN: u16 = 8 << Letter::COUNT;
    pub const RST: u16 = 16 << Letter::COUNT;
}

impl<S> Deref for Flow<S> {
    type Target = FlowCore;
    fn deref(&self) -> &FlowCore {
        &self.core
    }
}

impl<S> DerefMut for Flow<S> {
    fn deref_mut(&mut self) -> &mut FlowCore {
        &mut self.core
    }
}

impl<S: Default> Flow<S> {
    pub(crate) fn new(key: FlowKey, first: Side, packet: &Packet<'_>) -> Flow<S> {
        Flow { core: FlowCore::new(key, first, packet), state: S::default() }
    }
}

impl FlowCore {
    fn new(key: FlowKey, first: Side, packet: &Packet<'_>) -> FlowCore {
        let mut flow = FlowCore {
            key,
            bits: flow_bit::LIVE | if first == Side::B { flow_bit::FIRST_B } else { 0 },
            seen_at: 0,
            last_ts: packet.ts,
            counters: None,
            halves: Default::default(),
            first_ts: packet.ts,
            id: flow_id(&key, packet.ts),
            times: Times {
                syn: UNSET,
                syn_ack: UNSET,
                handshake_done: UNSET,
                fins: [UNSET; 2],
                rst: UNSET,
                terminated: UNSET,
            },
            active_since: packet.ts,
            history: History::default(),
        };
        flow.guess_client(first, packet);
        flow
    }

    fn guess_client(&mut self, first: Side, packet: &Packet<'_>) {
        let Transport::Tcp(tcp) = packet.transport else { return self.put_client(first) };
        self.bits |= flow_bit::TCP;
        if tcp.flags.intersects(TcpFlags::SYN) {
            return; // The SYN itself will say it.
        }
        self.bits |= flow_bit::MIDSTREAM | flow_bit::CLIENT_GUESSED;
        let higher = if self.key.a.port == self.key.b.port {
            first
        } else if self.key.a.port > self.key.b.port {
            Side::A
        } else {
            Side::B
        };
        self.put_client(higher);
    }

    pub(crate) fn put_client(&mut self, client: Side) {
        self.bits &= !flow_bit::CLIENT_B;
        if client == Side::B {
            self.bits |= flow_bit::CLIENT_B;
        }
    }

    /// The client and whether that is only a guess. The sender of the first SYN; without a SYN whom
    /// [`FlowCore::set_client`] named; else the higher port of TCP, a guess, or the sender of the first datagram.
    #[must_use]
    pub fn client(&self) -> (Side, bool) {
        (side(self.has(flow_bit::CLIENT_B)), self.has(flow_bit::CLIENT_GUESSED))
    }

    /// A parser has recognised who asks. A SYN that was seen knows better.
    pub fn set_client(&mut self, client: Side) {
        if !self.has(flow_bit::CLIENT_BY_SYN) {
            self.put_client(client);
            self.bits &= !flow_bit::CLIENT_GUESSED;
        }
    }

    /// The sender of the first packet.
    #[must_use]
    pub fn first(&self) -> Side {
        side(self.has(flow_bit::FIRST_B))
    }

    /// Whether this is TCP.
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        self.has(flow_bit::TCP)
    }

    /// TCP that was under way when the capture began: the first packet was no SYN, nor did one follow within the
    /// reordering that is allowed for.
    #[must_use]
    pub fn is_midstream(&self) -> bool {
        self.has(flow_bit::MIDSTREAM)
    }

    /// Both FINs or a RST were seen.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.has(flow_bit::TERMINATED)
    }

    /// Packets that `side` sent.
    #[must_use]
    pub fn packets(&self, side: Side) -> u64 {
        self.half(side).packets
    }

    /// Bytes that `side` sent: original length on the wire, link headers included.
    #[must_use]
    pub fn bytes(&self, side: Side) -> u64 {
        self.half(side).bytes
    }

    /// Transport payload that `side` sent, each byte as often as it was sent; that of keep-alives and RSTs is none.
    #[must_use]
    pub fn payload_bytes(&self, side: Side) -> u64 {
        self.half(side).stream.unique_bytes + self.counters(side).repeated_bytes
    }

    /// The same, each byte of a TCP stream once.
    #[must_use]
    pub fn unique_bytes(&self, side: Side) -> u64 {
        self.half(side).stream.unique_bytes
    }

    /// What was unusual in what `side` sent.
    #[must_use]
    pub fn counters(&self, side: Side) -> SideCounters {
        self.counters.as_ref().map_or_else(SideCounters::default, |c| c[side.index()])
    }

    /// The first SYN (not SYN-ACK).
    #[must_use]
    pub fn syn_ts(&self) -> Option<Timestamp> {
        set(self.times.syn)
    }

    /// The first SYN-ACK.
    #[must_use]
    pub fn syn_ack_ts(&self) -> Option<Timestamp> {
        set(self.times.syn_ack)
    }

    /// When each side had acknowledged the other's SYN.
    #[must_use]
    pub fn handshake_done_ts(&self) -> Option<Timestamp> {
        set(self.times.handshake_done)
    }

    /// First SYN → handshake complete; `None` when either was not seen.
    #[must_use]
    pub fn handshake_ns(&self) -> Option<i64> {
        Some(self.handshake_done_ts()?.since(self.syn_ts()?))
    }

    /// The first FIN of `side`.
    #[must_use]
    pub fn fin_ts(&self, side: Side) -> Option<Timestamp> {
        set(self.times.fins[side.index()])
    }

    /// The RST that ended the flow, and its sender.
    #[must_use]
    pub fn rst(&self) -> Option<(Timestamp, Side)> {
        Some((set(self.times.rst)?, side(self.has(flow_bit::RST_BY_B))))
    }

    /// When `Terminated` was reported.
    #[must_use]
    pub fn terminated_ts(&self) -> Option<Timestamp> {
        set(self.times.terminated)
    }

    /// How it went, in Zeek's words. A datagram flow is `SF` when both sides sent, `S0` when only the client did.
    #[must_use]
    pub fn conn_state(&self) -> ConnState {
        let (client, _) = self.client();
        let sent = |side| self.packets(side) > 0;
        if !self.is_tcp() {
            return match (sent(client), sent(client.other())) {
                (true, true) => ConnState::Sf,
                (true, false) => ConnState::S0,
                (false, true) => ConnState::Shr,
                (false, false) => ConnState::Oth,
            };
        }
        let unread = self.unique_bytes(Side::A) + self.unique_bytes(Side::B) == 0;
        conn_state(self.end_state(client), self.end_state(client.other()), unread)
    }

    /// Zeek's history: what was seen first, second, … of either side; upper case for the client. See
    /// <https://docs.zeek.org/en/master/scripts/base/protocols/conn/main.zeek.html>, without repetitions.
    #[must_use]
    pub fn history(&self) -> String {
        let (client, _) = self.client();
        let flipped = client != self.first() && self.is_tcp();
        self.history.render(client, flipped)
    }

    #[inline]
    pub(crate) fn has(&self, bit: u16) -> bool {
        self.bits & bit != 0
    }

    #[inline]
    pub(crate) fn half(&self, side: Side) -> &Half {
        &self.halves[side.index()]
    }

    #[inline]
    pub(crate) fn half_mut(&mut self, side: Side) -> &mut Half {
        &mut self.halves[side.index()]
    }

    pub(crate) fn counters_mut(&mut self, side: Side) -> &mut SideCounters {
        &mut self.counters.get_or_insert_default()[side.index()]
    }

    /// Counts a packet, whatever it says.
    #[inline]
    pub(crate) fn count(&mut self, side: Side, packet: &Packet<'_>) {
        self.last_ts = self.last_ts.max(packet.ts);
        let half = self.half_mut(side);
        half.packets += 1;
        half.bytes += u64::from(packet.original_len);
    }

    /// Notes the history's letter of a segment.
    #[inline]
    pub(crate) fn note(&mut self, side: Side, tcp: &TcpInfo, len: u32) {
        if let Some(letter) = Letter::of(tcp.flags, len) {
            self.note_letter(side, letter);
        }
    }

    #[inline]
    pub(crate) fn note_letter(&mut self, side: Side, letter: Letter) {
        let bit = letter.bit();
        let half = self.half_mut(side);
        if half.bits & bit == 0 {
            half.bits |= bit;
            self.history.add(side, letter);
        }
    }

    /// Whether losing this flow would lose more than a try: both sides speak, or one does for long.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        let [a, b] = &self.halves;
        let tried = (a.bits | b.bits) & half_bit::SYN != 0;
        let answered = a.packets > 0 && b.packets > 0 && !tried;
        !self.is_terminated()
            && (answered || self.has(flow_bit::HANDSHAKE_DONE) || a.packets + b.packets >= 8)
    }

    fn end_state(&self, side: Side) -> EndState {
        let half = self.half(side);
        let did = |bit| half.bits & bit != 0;
        if did(half_bit::RST) {
            EndState::Reset
        } else if did(half_bit::FIN) {
            EndState::Closed
        } else if self.has(flow_bit::HANDSHAKE_DONE) || did(Letter::SYN_ACK.bit()) {
            EndState::Established
        } else if did(half_bit::SYN) {
            self.state_after_syn(side)
        } else if half.packets == 0 {
            EndState::Inactive
        } else {
            EndState::Partial
        }
    }

    /// A SYN counts as established once the other side has answered it with its own.
    fn state_after_syn(&self, side: Side) -> EndState {
        if self.half(side.other()).bits & half_bit::SYN != 0 {
            EndState::Established
        } else {
            EndState::SynSent
        }
    }
}

/// A flow's identity: xxh3-64 (seed 0) of address and port of the smaller end, address and port of the larger,
/// the protocol's number and the first packet's time in ns, all big-endian, addresses in 16 bytes.
#[must_use]
pub fn flow_id(key: &FlowKey, first_ts: Timestamp) -> u64 {
    let mut bytes = [0; 45];
    for (at, end) in [(0, key.a), (18, key.b)] {
        bytes[at..at + 16].copy_from_slice(&end.addr.0);
        bytes[at + 16..at + 18].copy_from_slice(&end.port.to_be_bytes());
    }
    let IpProtocol(protocol) = key.protocol;
    bytes[36] = protocol;
    bytes[37..].copy_from_slice(&first_ts.0.to_be_bytes());
    xxh3_64(&bytes)
}

fn side(is_b: bool) -> Side {
    if is_b { Side::B } else { Side::A }
}

fn set(ts: Timestamp) -> Option<Timestamp> {
    (ts != UNSET).then_some(ts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn a_packet_touches_three_cache_lines() {
        assert_eq!(offset_of!(FlowCore, halves), 64);
        assert_eq!(size_of::<Half>(), 64);
        assert_eq!(size_of::<FlowCore>(), 320);
    }
}
