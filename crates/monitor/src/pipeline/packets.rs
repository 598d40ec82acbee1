//! Packet-only path: no flow lookup. Tuples are written by column, for a batch of packets.

use parsers::packet_level::Headers;
use wire::{Captured, Packet, TakePacket};

use super::{Monitor, Progress};
use crate::fragments::Whole;
use crate::gate::Verdict;
use crate::outputs::{Outputs, TakeTuples};

impl Monitor {
    /// Writes the tuples of packets.
    pub(super) fn on_packets<'a>(
        &mut self,
        packets: impl Iterator<Item = Captured<'a>>,
        out: &mut dyn TakeTuples,
    ) -> Progress {
        let mut progress = Progress::Continue;
        let mut headers = Headers::default();
        for captured in packets {
            let mut write = Write { outputs: &mut self.outputs, headers: &mut headers };
            let mut verdict = self.gate.admit(&captured, &mut self.accounting, &mut write);
            if verdict == Verdict::Completed {
                verdict = self.complete_headers(&mut headers);
            }
            if verdict == Verdict::Over {
                progress = Progress::LimitReached;
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
    pub(super) fn on_whole_packet(&mut self, whole: &Whole) -> Progress {
        let mut headers = Headers::default();
        let verdict = self.on_whole_headers(whole, &mut headers);
        self.write_headers(&mut headers);
        if verdict == Verdict::Over { Progress::LimitReached } else { Progress::Continue }
    }

    /// Processes the datagram completed by the last packet; returns the gate's verdict.
    #[cold]
    fn complete_headers(&mut self, headers: &mut Headers) -> Verdict {
        self.gate.take_whole().map_or(Verdict::Refused, |whole| self.on_whole_headers(&whole, headers))
    }

    fn on_whole_headers(&mut self, whole: &Whole, headers: &mut Headers) -> Verdict {
        let mut write = Write { outputs: &mut self.outputs, headers };
        let verdict = self.gate.admit_whole(whole, &mut self.accounting, &mut write);
        if verdict == Verdict::Completed { self.complete_headers(headers) } else { verdict }
    }

    fn write_headers(&mut self, headers: &mut Headers) {
        self.accounting.received += headers.len() as u64;
        self.accounting.parsed += headers.len() as u64;
        self.outputs.on_headers(headers);
        headers.clear();
    }
}

/// Collects the headers of admitted packets.
struct Write<'m> {
    outputs: &'m mut Outputs,
    headers: &'m mut Headers,
}

impl<'a> TakePacket<'a> for Write<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &Captured<'a>, packet: &Packet<'a>) {
        self.headers.push(packet);
        if self.outputs.reads_beyond_headers() {
            let packet = *packet;
            self.outputs.on_bare_packet(&packet);
        }
    }
}
