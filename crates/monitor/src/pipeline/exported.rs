//! Path of export messages (sFlow, NetFlow, IPFIX): the gate decodes the packet, and the reader its payload.

use wire::{CapturedPacket, Packet, PacketConsumer, Timestamp};

use super::{BatchProgress, Monitor};
use crate::exports::ExportReader;
use crate::fragments::ReassembledPacket;
use crate::gate::GateVerdict;
use crate::tuple_outputs::{TupleConsumer, TupleOutputs};

impl Monitor {
    /// Writes the tuples of the messages in packets.
    pub(super) fn on_exports<'a>(
        &mut self,
        packets: impl Iterator<Item = CapturedPacket<'a>>,
        out: &mut dyn TupleConsumer,
    ) -> BatchProgress {
        for captured in packets {
            let Some(exports) = &mut self.exports else {
                break;
            };
            let mut read = MessageConsumer {
                exports,
                outputs: &mut self.outputs,
                now: self.clock.max(captured.ts),
            };
            let mut verdict = self.gate.admit(&captured, &mut self.accounting, &mut read);
            if verdict == GateVerdict::Entered {
                self.count_export();
            }
            while verdict == GateVerdict::Completed {
                verdict = self
                    .gate
                    .take_whole()
                    .map_or(GateVerdict::Refused, |whole| self.read_whole_export(&whole));
            }
            if verdict == GateVerdict::Over {
                return BatchProgress::LimitReached;
            }
            self.latest = self.latest.max(captured.ts);
            self.flush_full(out);
        }
        BatchProgress::Continue
    }

    /// Processes a reassembled datagram.
    pub(super) fn on_whole_export(&mut self, whole: &ReassembledPacket) -> BatchProgress {
        match self.read_whole_export(whole) {
            GateVerdict::Over => BatchProgress::LimitReached,
            _ => BatchProgress::Continue,
        }
    }

    fn read_whole_export(&mut self, whole: &ReassembledPacket) -> GateVerdict {
        let Some(exports) = &mut self.exports else {
            return GateVerdict::Refused;
        };
        let mut read = MessageConsumer {
            exports,
            outputs: &mut self.outputs,
            now: self.clock.max(whole.captured().ts),
        };
        let verdict = self
            .gate
            .admit_whole(whole, &mut self.accounting, &mut read);
        if verdict == GateVerdict::Entered {
            self.count_export();
        }
        verdict
    }

    fn count_export(&mut self) {
        self.accounting.received += 1;
        self.accounting.parsed += 1;
    }
}

/// Reads the messages of admitted packets.
struct MessageConsumer<'m> {
    exports: &'m mut ExportReader,
    outputs: &'m mut TupleOutputs,
    now: Timestamp,
}

impl<'a> PacketConsumer<'a> for MessageConsumer<'_> {
    fn packet(&mut self, _: &CapturedPacket<'a>, packet: &Packet<'a>) {
        self.exports.on_packet(packet, self.now, self.outputs);
    }
}
