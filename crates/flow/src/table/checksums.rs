//! Verification of checksums, if the table is configured for it. A packet with a wrong checksum is discarded, as its receiver discards it
//! (RFC 9293 §3.1), and its retransmission counts. A checksum proves something only where those of the same side were right before: some
//! adapters complete checksums after the capture or merge segments under the checksum of one, and some captures are rewritten.

use wire::{ChecksumStatus, FlowSide, Packet, TransportHeader};

use super::FlowTable;
use crate::flow_layout::flag;
use crate::segment_check::FRAME_BYTES;

/// Consecutive wrong checksums of a side that prove that its checksums are not those on the wire.
const WRONG_BELIEVED: u8 = 3;

impl<S: Default> FlowTable<S> {
    /// Whether the checksum of a packet proves that its receiver discarded it. Counts packets whose checksum proves nothing.
    #[inline(never)]
    pub(super) fn is_discarded(
        &mut self,
        found: Option<u32>,
        side: FlowSide,
        packet: &Packet<'_>,
    ) -> bool {
        if !matches!(
            packet.transport,
            TransportHeader::Tcp(_) | TransportHeader::Udp
        ) {
            return false;
        }
        let status = packet.verify_checksum();
        let is_discarded = found.is_some_and(|place| {
            let is_disproven = self.is_disproven(place, side, packet, status);
            self.count_spill(place);
            is_disproven
        });
        let is_verified = status == ChecksumStatus::Right || is_discarded;
        self.counters.checksums_unverified += u64::from(!is_verified);
        is_discarded
    }

    /// Whether the checksum of a packet is wrong, and those of its side mean something.
    fn is_disproven(
        &mut self,
        place: u32,
        side: FlowSide,
        packet: &Packet<'_>,
        status: ChecksumStatus,
    ) -> bool {
        let mut flow = self.store.flow_mut(place);
        let checked = flag::CHECKED << side.index();
        let is_large = packet.segment.len() > FRAME_BYTES;
        if !flow.hot.has(checked) {
            // Before the packet is judged: it may be rejected because an earlier one was damaged.
            flow.learn_checksum(side, packet, true);
            return false;
        }
        match status {
            ChecksumStatus::Unknown => return false,
            ChecksumStatus::Right => {
                if is_large {
                    flow.spill_mut().payload_max[side.index()] = u16::MAX;
                }
                if let Some(spill) = &mut flow.cold.spill {
                    spill.wrong_checksums[side.index()] = 0;
                }
                return false;
            }
            ChecksumStatus::Wrong => {}
        }
        let spill = flow.spill_mut();
        let wrong = &mut spill.wrong_checksums[side.index()];
        *wrong += 1;
        let is_merged = is_large && packet.payload.len() > spill.payload_max[side.index()].into();
        let is_meaningful = *wrong < WRONG_BELIEVED && !is_merged;
        flow.hot.put(checked, is_meaningful);
        is_meaningful
    }
}
