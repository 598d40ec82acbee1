//! Packet-only path: no flow lookup. Tuples are written by column, for a batch of packets.

use parsers::packet_level::HeaderBatch;
use wire::{CapturedPacket, Packet, PacketConsumer};

use super::{BatchProgress, Monitor};
use crate::fragments::ReassembledPacket;
use crate::gate::GateVerdict;
use crate::tuple_outputs::{TupleConsumer, TupleOutputs};

impl Monitor {
    /// Writes the tuples of packets.
    pub(super) fn on_packets<'a>(
        &mut self,
        packets: impl Iterator<Item = CapturedPacket<'a>>,
        out: &mut dyn TupleConsumer,
    ) -> BatchProgress {
        let mut progress = BatchProgress::Continue;
        let mut headers = HeaderBatch::default();
        for captured in packets {
            let mut write = HeaderWriter {
                outputs: &mut self.outputs,
                headers: &mut headers,
            };
            let mut verdict = self.gate.admit(&captured, &mut self.accounting, &mut write);
            if verdict == GateVerdict::Completed {
                verdict = self.complete_headers(&mut headers);
            }
            if verdict == GateVerdict::Over {
                progress = BatchProgress::LimitReached;
                break;
            }
            self.latest = self.latest.max(captured.ts);
            if headers.is_full() {
                self.write_headers(&mut headers);
                self.flush_full(out);
            }
        }
        self.write_headers(&mut headers);
        progress
    }

    /// Processes a reassembled packet.
    pub(super) fn on_whole_packet(&mut self, whole: &ReassembledPacket) -> BatchProgress {
        let mut headers = HeaderBatch::default();
        let verdict = self.on_whole_headers(whole, &mut headers);
        self.write_headers(&mut headers);
        if verdict == GateVerdict::Over {
            BatchProgress::LimitReached
        } else {
            BatchProgress::Continue
        }
    }

    /// Processes the datagram completed by the last packet; returns the gate's verdict.
    #[cold]
    fn complete_headers(&mut self, headers: &mut HeaderBatch) -> GateVerdict {
        self.gate
            .take_whole()
            .map_or(GateVerdict::Refused, |whole| {
                self.on_whole_headers(&whole, headers)
            })
    }

    fn on_whole_headers(
        &mut self,
        whole: &ReassembledPacket,
        headers: &mut HeaderBatch,
    ) -> GateVerdict {
        let mut write = HeaderWriter {
            outputs: &mut self.outputs,
            headers,
        };
        let verdict = self
            .gate
            .admit_whole(whole, &mut self.accounting, &mut write);
        if verdict == GateVerdict::Completed {
            self.complete_headers(headers)
        } else {
            verdict
        }
    }

    fn write_headers(&mut self, headers: &mut HeaderBatch) {
        self.accounting.received += headers.len() as u64;
        self.accounting.parsed += headers.len() as u64;
        self.outputs.on_headers(headers);
        headers.clear();
    }
}

/// Collects the headers of admitted packets.
struct HeaderWriter<'m> {
    outputs: &'m mut TupleOutputs,
    headers: &'m mut HeaderBatch,
}

impl<'a> PacketConsumer<'a> for HeaderWriter<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &CapturedPacket<'a>, packet: &Packet<'a>) {
        self.headers.push(packet);
        if self.outputs.reads_beyond_headers() {
            let packet = *packet;
            self.outputs.on_bare_packet(&packet);
        }
    }
}
