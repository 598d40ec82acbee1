//! Packets for parsers that look at nothing else: no flow is looked up.

use wire::{Captured, Packet, TakePacket};

use super::{Monitor, Progress};
use crate::gate::Verdict;
use crate::outputs::Outputs;

impl Monitor {
    /// Writes the tuples of packets.
    pub(super) fn on_packets<'a>(&mut self, packets: impl Iterator<Item = Captured<'a>>) -> Progress {
        let (mut progress, mut entered) = (Progress::Continue, 0);
        for captured in packets {
            let mut write = Write { outputs: &mut self.outputs, packets: &mut entered };
            let verdict = self.gate.admit(&captured, &mut self.accounting, &mut write);
            if verdict == Verdict::Over {
                progress = Progress::LimitReached;
                break;
            }
            self.latest = self.latest.max(captured.ts);
        }
        self.accounting.received += entered;
        self.accounting.parsed += entered;
        progress
    }
}

/// Writes tuples of packets alone.
struct Write<'m> {
    outputs: &'m mut Outputs,
    packets: &'m mut u64,
}

impl<'a> TakePacket<'a> for Write<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &Captured<'a>, packet: &Packet<'a>) {
        *self.packets += 1;
        self.outputs.on_bare_packet(packet);
    }
}
