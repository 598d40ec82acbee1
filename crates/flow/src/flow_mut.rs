//! Mutable access to a flow: its counters, history, and positions, in whichever record holds them.

use wire::packet::TcpFlags;
use wire::tcp::{TcpHeader, TcpOption};
use wire::{ChecksumStatus, Extent, FlowSide, Packet, TcpInfo, TcpSeq, TransportHeader};

use crate::duplicates::LatestPacket;
use crate::flow::FlowCore;
use crate::flow_layout::{
    ColdRecord, HOT_LETTERS, HotRecord, LETTER_BITS, SMALL, SpillRecord, flag,
};
use crate::metrics::{HistoryLetter, SideCounters};
use crate::segment_check::FRAME_BYTES;

/// Mutable access to a flow.
pub(crate) struct FlowMut<'a> {
    pub hot: &'a mut HotRecord,
    pub cold: &'a mut ColdRecord,
    /// Recent packets, if the table stores them.
    pub latest: Option<&'a mut [LatestPacket; 2]>,
}

impl FlowMut<'_> {
    #[inline]
    pub fn core(&self) -> FlowCore<'_> {
        FlowCore {
            hot: self.hot,
            cold: self.cold,
        }
    }

    pub fn counters_mut(&mut self, side: FlowSide) -> &mut SideCounters {
        &mut self.spill_mut().counters[side.index()]
    }

    pub fn spill_mut(&mut self) -> &mut SpillRecord {
        self.cold.spill.get_or_insert_default()
    }

    /// Determines by a side's first packets whether its checksums are valid: those of datagrams only `if_udp`.
    pub fn learn_checksum(&mut self, side: FlowSide, packet: &Packet<'_>, if_udp: bool) {
        const TRIES: u64 = 3;
        let checked = flag::CHECKED << side.index();
        if !(self.hot.has(flag::TCP) || if_udp)
            || self.hot.has(checked)
            || self.core().packets(side) >= TRIES
        {
            return;
        }
        self.hot
            .put(checked, packet.verify_checksum() == ChecksumStatus::Right);
    }

    /// Notes the segment size that a SYN announces, if it is longer than an Ethernet frame: such segments of the other side are not
    /// merged.
    pub fn learn_payload_max(&mut self, side: FlowSide, packet: &Packet<'_>) {
        let is_syn = matches!(packet.transport, TransportHeader::Tcp(tcp) if tcp.flags.contains(TcpFlags::SYN));
        if !is_syn {
            return;
        }
        let Ok(header) = TcpHeader::new_checked(Extent::whole(packet.segment)) else {
            return;
        };
        let size = header.options().find_map(|option| match option {
            TcpOption::MaxSegmentSize(size) => Some(size),
            _ => None,
        });
        let is_long = |size: &u16| usize::from(*size) > FRAME_BYTES;
        if let Some(size) = size.filter(is_long)
            && packet.verify_checksum() == ChecksumStatus::Right
        {
            self.spill_mut().payload_max[side.other().index()] = size;
        }
    }

    pub fn put_client(&mut self, client: FlowSide) {
        self.hot.put(flag::CLIENT_B, client == FlowSide::B);
    }

    /// Counts a packet of any kind.
    #[inline]
    pub fn count(&mut self, side: FlowSide, packet: &Packet<'_>) {
        self.hot.last_ts = self.hot.last_ts.max(packet.ts);
        let at = side.index();
        let packets = self.hot.packets[at].checked_add(1);
        let bytes = self.hot.bytes[at].checked_add(packet.original_len);
        let Some((packets, bytes)) = packets.zip(bytes) else {
            self.spill_over();
            let spill = self.spill_mut();
            spill.packets[at] += 1;
            spill.bytes[at] += u64::from(packet.original_len);
            return;
        };
        self.hot.packets[at] = packets;
        self.hot.bytes[at] = bytes;
    }

    /// Empties the small counters into [`SpillRecord`].
    fn spill_over(&mut self) {
        for side in [FlowSide::A, FlowSide::B] {
            let at = side.index();
            let place = self.core().place(side);
            self.drop_anchor(side, place);
            let packets = self.hot.packets[at];
            let bytes = self.hot.bytes[at];
            let spill = self.spill_mut();
            spill.packets[at] += u64::from(packets);
            spill.bytes[at] += u64::from(bytes);
            self.hot.packets[at] = 0;
            self.hot.bytes[at] = 0;
        }
    }

    /// Sets the stream's position to `pos`, with `unique` distinct bytes seen.
    pub fn drop_anchor(&mut self, side: FlowSide, (pos, unique): (i64, u64)) {
        let at = side.index();
        self.cold.anchor[at] = self.core().next_byte(side);
        let spill = self.spill_mut();
        spill.pos[at] = pos;
        spill.unique[at] = unique;
    }

    /// Sets the stream's first byte to `seq`. Only before any byte was received.
    pub fn start(&mut self, side: FlowSide, seq: TcpSeq) {
        debug_assert_eq!(
            self.core().place(side).0,
            0,
            "a stream is not moved once it has bytes"
        );
        self.hot.word |= flag::STARTED << side.index();
        self.hot.next[side.index()] = seq;
        self.cold.anchor[side.index()] = seq;
    }

    /// Counts the payload of a transport without streams.
    pub fn count_payload(&mut self, side: FlowSide, len: u32) {
        match len {
            0..=SMALL => self.hot.next[side.index()] = self.hot.next[side.index()].plus(len),
            _ => self.spill_mut().unique[side.index()] += u64::from(len),
        }
    }

    /// Adds the letter of a segment to the history.
    #[inline]
    pub fn note(&mut self, side: FlowSide, tcp: &TcpInfo, len: u32) {
        if let Some(letter) = HistoryLetter::of(tcp.flags, len) {
            self.note_letter(side, letter);
        }
    }

    #[inline]
    pub fn note_letter(&mut self, side: FlowSide, letter: HistoryLetter) {
        if !self.hot.did(side, letter.bit()) && !self.hot.note_here(side, letter) {
            let at = (self.hot.n_letters() - HOT_LETTERS) * LETTER_BITS;
            self.spill_mut().letters |= u128::from(letter.packed(side)) << at;
            self.hot.half[side.index()] |= letter.bit();
        }
    }

    /// Sets the clock time at this flow's last packet.
    #[inline]
    pub fn set_seen_at(&mut self, now: i64) {
        let lags = now != self.hot.last_ts.0;
        self.hot.put(flag::LAGS, lags);
        if lags {
            self.spill_mut().seen_at = now;
        }
    }

    /// Updates whether the next segment in order can take the fast path; called after any change.
    #[inline]
    pub fn classify(&mut self) {
        let fast = self.core().has_fast_path();
        self.hot.put(flag::FAST, fast);
    }
}
