//! Read access to a flow: endpoints, times, counts of each side, state of a TCP connection. Views of the packed
//! records; nothing here changes a flow.

use std::ops::Deref;

use wire::{FlowKey, FlowSide, IpProtocol, TcpSeq, Timestamp, V4Key};
use xxhash_rust::xxh3::xxh3_64;

use crate::flow_layout::{ColdRecord, HotRecord, UNSET, flag, half_bit, letters};
use crate::metrics::{
    ConnState, EndState, HistoryLetter, SideCounters, conn_state, render_history,
};
use crate::reassembly;

/// A flow with its endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    pub(crate) core: FlowCore<'a>,
    /// The key, if the hot record does not hold it.
    pub(crate) wide: Option<&'a FlowKey>,
}

/// A flow without its endpoints; a [`Flow`] dereferences to it.
#[derive(Clone, Copy, Debug)]
pub struct FlowCore<'a> {
    pub(crate) hot: &'a HotRecord,
    pub(crate) cold: &'a ColdRecord,
}

impl<'a> Deref for Flow<'a> {
    type Target = FlowCore<'a>;
    fn deref(&self) -> &FlowCore<'a> {
        &self.core
    }
}

impl Flow<'_> {
    /// Both endpoints and the protocol.
    #[must_use]
    pub fn key(&self) -> FlowKey {
        if let Some(key) = self.wide {
            return *key;
        }
        let protocol = if self.is_tcp() {
            IpProtocol::TCP
        } else {
            IpProtocol::UDP
        };
        V4Key {
            addrs: self.hot.addrs,
            ports: self.hot.ports,
        }
        .flow_key(protocol)
    }

    /// The flow's id, see [`flow_id`]; computed on first use.
    #[must_use]
    pub fn id(&self) -> u64 {
        if self.cold.id.get() == 0 {
            self.cold.id.set(flow_id(&self.key(), self.cold.first_ts));
        }
        self.cold.id.get()
    }
}

impl FlowCore<'_> {
    /// Time of the first packet.
    #[must_use]
    pub fn first_ts(&self) -> Timestamp {
        self.cold.first_ts
    }

    /// Latest packet time.
    #[must_use]
    pub fn last_ts(&self) -> Timestamp {
        self.hot.last_ts
    }

    /// The client and whether it is a guess. The sender of the first SYN; without a SYN, the side given to
    /// [`crate::FlowTable::set_client`]; otherwise a guess by [`crate::FlowTableConfig::server_ports`] or TCP's higher port, or
    /// the sender of the first datagram.
    #[must_use]
    pub fn client(&self) -> (FlowSide, bool) {
        (
            side(self.hot.has(flag::CLIENT_B)),
            self.hot.has(flag::CLIENT_GUESSED),
        )
    }

    /// The sender of the first packet.
    #[must_use]
    pub fn first(&self) -> FlowSide {
        side(self.hot.has(flag::FIRST_B))
    }

    /// Whether this is TCP.
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        self.hot.has(flag::TCP)
    }

    /// Whether TCP was joined midway: the first packet was no SYN, and none followed within the allowed reordering.
    #[must_use]
    pub fn is_midstream(&self) -> bool {
        self.hot.has(flag::MIDSTREAM)
    }

    /// Whether both FINs or a RST were seen.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.hot.has(flag::TERMINATED)
    }

    /// Packets sent by `side`.
    #[must_use]
    pub fn packets(&self, side: FlowSide) -> u64 {
        let spilt = self
            .cold
            .spill
            .as_ref()
            .map_or(0, |spill| spill.packets[side.index()]);
        spilt + u64::from(self.hot.packets[side.index()])
    }

    /// Bytes sent by `side`: original length on the wire, link headers included.
    #[must_use]
    pub fn bytes(&self, side: FlowSide) -> u64 {
        let spilt = self
            .cold
            .spill
            .as_ref()
            .map_or(0, |spill| spill.bytes[side.index()]);
        spilt + u64::from(self.hot.bytes[side.index()])
    }

    /// Transport payload sent by `side`, including retransmissions, without that of keep-alives and RSTs.
    #[must_use]
    pub fn payload_bytes(&self, side: FlowSide) -> u64 {
        self.unique_bytes(side) + self.counters(side).repeated_bytes
    }

    /// Same without retransmissions.
    #[must_use]
    pub fn unique_bytes(&self, side: FlowSide) -> u64 {
        self.place(side).1
    }

    /// Counters of irregularities of `side`.
    #[must_use]
    pub fn counters(&self, side: FlowSide) -> SideCounters {
        self.cold
            .spill
            .as_ref()
            .map_or_else(SideCounters::default, |spill| spill.counters[side.index()])
    }

    /// Time of the first SYN (not SYN-ACK).
    #[must_use]
    pub fn syn_ts(&self) -> Option<Timestamp> {
        set(self.cold.syn)
    }

    /// Time and sender of the RST that ended the flow.
    #[must_use]
    pub fn rst(&self) -> Option<(Timestamp, FlowSide)> {
        let by = [FlowSide::A, FlowSide::B]
            .into_iter()
            .find(|side| self.hot.did(*side, half_bit::RST))?;
        Some((set(self.cold.terminated)?, by))
    }

    /// Zeek's connection state. A datagram flow is `SF` if both sides sent, `S0` if only the client did.
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
        let unread = self.unique_bytes(FlowSide::A) + self.unique_bytes(FlowSide::B) == 0;
        conn_state(
            self.end_state(client),
            self.end_state(client.other()),
            unread,
        )
    }

    /// Zeek's history, without repetitions: letters of each side in the order of first occurrence; upper case for the
    /// client. See <https://docs.zeek.org/en/master/scripts/base/protocols/conn/main.zeek.html>.
    #[must_use]
    pub fn history(&self) -> String {
        let (client, _) = self.client();
        let flipped = client != self.first() && self.is_tcp();
        render_history(letters(self.hot, self.cold), client, flipped)
    }

    /// Clock time at the last packet.
    #[inline]
    pub(crate) fn seen_at(&self) -> i64 {
        if !self.hot.has(flag::LAGS) {
            return self.hot.last_ts.0;
        }
        self.cold
            .spill
            .as_ref()
            .map_or(self.hot.last_ts.0, |spill| spill.seen_at)
    }

    /// Sequence number of the next byte in order, not counting a consumed FIN.
    #[inline]
    pub(crate) fn next_byte(&self, side: FlowSide) -> TcpSeq {
        let fin = u32::from(self.hot.is_ended(side));
        TcpSeq(self.hot.next[side.index()].0.wrapping_sub(fin))
    }

    /// Position of the stream, and the distinct bytes seen.
    #[inline]
    pub(crate) fn place(&self, side: FlowSide) -> (i64, u64) {
        let at = side.index();
        let since = self.next_byte(side).0.wrapping_sub(self.cold.anchor[at].0);
        let spill = self
            .cold
            .spill
            .as_ref()
            .map_or((0, 0), |spill| (spill.pos[at], spill.unique[at]));
        (spill.0 + i64::from(since), spill.1 + u64::from(since))
    }

    /// Whether all `len` bytes at `seq` are known to have been seen.
    pub(crate) fn has_bytes(&self, side: FlowSide, seq: TcpSeq, len: u32) -> bool {
        let (pos, _) = self.place(side);
        let start = pos + i64::from(seq.distance(self.next_byte(side)));
        let end = start + i64::from(len);
        let waiting = self
            .cold
            .spill
            .as_ref()
            .and_then(|spill| spill.waiting[side.index()].as_ref());
        let (held, lost) = waiting.map_or((false, false), |w| {
            (w.holds(start, end), w.has_lost(start, end))
        });
        let seen = waiting
            .and_then(|waiting| waiting.cut_end())
            .map_or(pos, |cut_end| cut_end.max(pos));
        self.hot.is_started(side) && start >= 0 && !lost && (end <= seen || held)
    }

    /// Sequence number after the highest byte or FIN of `side` seen.
    pub(crate) fn highest_seq(&self, side: FlowSide) -> TcpSeq {
        let next = self.hot.next[side.index()];
        if !self.is_busy(side) {
            return next;
        }
        let waiting = self
            .cold
            .spill
            .as_ref()
            .and_then(|spill| spill.waiting[side.index()].as_ref());
        let (pos, _) = self.place(side);
        waiting.map_or(next, |waiting| {
            next.plus((waiting.highest() - pos).clamp(0, 1 << 30) as u32)
        })
    }

    /// Sequence number of the stream's first byte.
    pub(crate) fn start_seq(&self, side: FlowSide) -> TcpSeq {
        let pos = self
            .cold
            .spill
            .as_ref()
            .map_or(0, |spill| spill.pos[side.index()]);
        TcpSeq(self.cold.anchor[side.index()].0.wrapping_sub(pos as u32))
    }

    /// Whether no bytes of a stream were received, so that its start may still be corrected.
    pub(crate) fn is_untouched(&self, side: FlowSide) -> bool {
        let waits = self
            .cold
            .spill
            .as_ref()
            .is_some_and(|spill| spill.waiting[side.index()].is_some());
        self.place(side).0 == 0 && !self.hot.is_ended(side) && !waits
    }

    /// Whether no SYN was seen and nothing is known of the connection before its first packet.
    pub(crate) fn is_unopened(&self) -> bool {
        let opened = half_bit::SYN | half_bit::SYN_IMPLIED;
        self.hot.has(flag::MIDSTREAM)
            && (self.hot.half[0] | self.hot.half[1]) & opened == 0
            && !self.is_resumed()
    }

    /// Whether packets of `side` were captured, in this flow or before the connection was idle.
    pub(crate) fn is_captured(&self, side: FlowSide) -> bool {
        self.packets(side) > 0 || self.is_resumed()
    }

    fn is_resumed(&self) -> bool {
        let spill = self.cold.spill.as_ref();
        spill.is_some_and(|spill| spill.is_resumed)
    }

    /// Bytes of `side`'s SYN that wait.
    pub(crate) fn bytes_of_syn(&self, side: FlowSide) -> u32 {
        let data = self
            .cold
            .spill
            .as_ref()
            .and_then(|spill| spill.syn_data.as_ref());
        data.filter(|data| data.side == side)
            .map_or(0, |data| data.len)
    }

    /// Whether a stream waits for bytes.
    #[inline]
    pub(crate) fn is_busy(&self, side: FlowSide) -> bool {
        let spill = self.cold.spill.as_ref();
        spill.is_some_and(|spill| spill.stream[side.index()] & reassembly::BUSY != 0)
    }

    /// Whether data of one side waits for the other side's bytes.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.cold
            .spill
            .as_ref()
            .is_some_and(|spill| spill.order.is_some())
    }

    /// Whether the next segment in order would change only the hot record: both streams are in order, and the idle
    /// timeout is final.
    pub(crate) fn has_fast_path(&self) -> bool {
        const BEGUN: u64 = flag::TCP | flag::VALUED | flag::STARTED | flag::STARTED << 1;
        const NOT: u64 = flag::TERMINATED | flag::LAGS | flag::ENDED | flag::ENDED << 1;
        let [a, b] = self.hot.half;
        let settled = self.hot.has(flag::HANDSHAKE_DONE)
            || (a | b) & (half_bit::SYN | half_bit::SYN_IMPLIED) == 0
                && [FlowSide::A, FlowSide::B]
                    .iter()
                    .any(|side| self.unique_bytes(*side) > 0);
        let quiet = self
            .cold
            .spill
            .as_ref()
            .is_none_or(|spill| spill.stream == [0; 2])
            && !self.holds_back();
        self.hot.word & (BEGUN | NOT) == BEGUN
            && a & b & half_bit::ACK_SEEN != 0
            && settled
            && quiet
    }

    /// Whether eviction would lose more than an attempt: both sides have sent, or one for long.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        let [a, b] = [FlowSide::A, FlowSide::B].map(|side| self.packets(side));
        let tried = (self.hot.half[0] | self.hot.half[1]) & half_bit::SYN != 0;
        let answered = a > 0 && b > 0 && !tried;
        !self.is_terminated() && (answered || self.hot.has(flag::HANDSHAKE_DONE) || a + b >= 8)
    }

    fn end_state(&self, side: FlowSide) -> EndState {
        let did = |bit| self.hot.did(side, bit);
        if did(half_bit::RST) {
            EndState::Reset
        } else if did(half_bit::FIN) {
            EndState::Closed
        } else if self.hot.has(flag::HANDSHAKE_DONE) || did(HistoryLetter::SYN_ACK.bit()) {
            EndState::Established
        } else if did(half_bit::SYN) {
            self.state_after_syn(side)
        } else if self.packets(side) == 0 {
            EndState::Inactive
        } else {
            EndState::Partial
        }
    }

    /// End state after a SYN: established once the other side has sent its own.
    fn state_after_syn(&self, side: FlowSide) -> EndState {
        if self.hot.did(side.other(), half_bit::SYN) {
            EndState::Established
        } else {
            EndState::SynSent
        }
    }
}

/// Flow id: xxh3-64 (seed 0) of address and port of the smaller endpoint, address and port of the larger, protocol
/// number, and first packet time in ns, all big-endian, addresses in 16 bytes.
#[must_use]
pub fn flow_id(key: &FlowKey, first_ts: Timestamp) -> u64 {
    let mut bytes = [0; 46];
    for (at, end) in [(0, key.a), (18, key.b)] {
        bytes[at..at + 16].copy_from_slice(&end.addr.0);
        bytes[at + 16..at + 18].copy_from_slice(&end.port.to_be_bytes());
    }
    let IpProtocol(protocol) = key.protocol;
    bytes[36] = protocol;
    bytes[37..45].copy_from_slice(&first_ts.0.to_be_bytes());
    bytes[45] = key.network;
    xxh3_64(if key.network == 0 {
        &bytes[..45]
    } else {
        &bytes
    })
}

fn side(is_b: bool) -> FlowSide {
    if is_b { FlowSide::B } else { FlowSide::A }
}

fn set(ts: Timestamp) -> Option<Timestamp> {
    (ts != UNSET).then_some(ts)
}
