//! Passes bytes, gaps, and ends to a parser as the flow table does, without the table: fast, so that the fuzzer reaches
//! deep into messages.

use parsers::{
    Direction, ParserOutput, ProbeContext, ProtocolDefinition, StreamGap, StreamParser,
    StreamSegment,
};
use tuple::Schema;
use wire::{IpProtocol, Timestamp};

use crate::script::{self, Ends, Fate, Script, Step, What};
use crate::{Heard, Tuples, context};

struct Conversation {
    script: Script,
    protocol: &'static ProtocolDefinition,
    parser: Box<dyn StreamParser>,
    ends: Ends,
    /// Number of bytes delivered to the parser per direction.
    told: [u64; 2],
    now: i64,
    tuples: Tuples,
    bytes: u64,
}

/// Plays `steps` to a parser of `protocol`.
pub fn converse(
    protocol: &'static ProtocolDefinition,
    schema: Schema,
    script: Script,
    mut steps: &[u8],
) -> Heard {
    let mut conversation = Conversation {
        script,
        protocol,
        parser: (protocol.start)(),
        ends: Ends::new(script),
        told: [0; 2],
        now: 0,
        tuples: Tuples::new(schema),
        bytes: 0,
    };
    while let Some(step) = script::next(&mut steps) {
        conversation.step(step);
        if conversation.parser.is_done() {
            break;
        }
    }
    conversation.act(|parser, _, out| parser.on_close(out));
    conversation.tuples.count(true);
    Heard {
        bytes: conversation.bytes,
        tuples: conversation.tuples.written,
    }
}

impl Conversation {
    fn step(
        &mut self,
        Step {
            by,
            hears,
            fate,
            what,
        }: Step<'_>,
    ) {
        self.now += 1000;
        self.ends.hear(by, hears);
        match what {
            What::Say(bytes) if self.script.udp => self.datagram(by, fate, bytes),
            What::Say(_) | What::Skip(_) if self.ends.has_ended(by) => {}
            What::Say(bytes) => self.say(by, fate, bytes),
            What::Skip(bytes) => _ = self.ends.say(by, bytes),
            What::Fin if !self.ends.has_ended(by) => {
                self.tell_missing(by, self.ends.said(by));
                self.ends.end(by);
                self.act(|parser, _, out| parser.on_end(by, parsers::StreamEnd::Fin, out));
            }
            What::Clock(by_ns) => self.now += by_ns,
            What::Again(_) | What::Listen | What::Fin | What::Rst => {}
        }
    }

    fn say(&mut self, by: Direction, fate: Fate, bytes: &[u8]) {
        let piece = if let Fate::Pieces(n) = fate {
            n
        } else {
            bytes.len().max(1)
        };
        for bytes in bytes.chunks(piece) {
            let begin = self.ends.said(by);
            let mut place = self.ends.say(by, bytes.len() as u64);
            let cut = match fate {
                Fate::Lost => bytes.len(),
                Fate::Cut(n) => n.min(bytes.len()),
                _ => 0,
            };
            if let Fate::Late(_) = fate {
                // The acknowledgment of a late segment is not used.
                place.ack = None;
            }
            let bytes = &bytes[..bytes.len() - cut];
            if !bytes.is_empty() {
                // Acknowledged bytes are delivered first.
                self.tell_missing(other(by), self.ends.heard(by));
                self.tell_missing(by, begin);
                self.told[by as usize] += bytes.len() as u64;
                self.bytes += bytes.len() as u64;
                self.probe(bytes);
                self.act(|parser, ts, out| {
                    parser.on_bytes(by, StreamSegment { bytes, ts, place }, out)
                });
            }
        }
    }

    fn datagram(&mut self, by: Direction, fate: Fate, bytes: &[u8]) {
        let cut = if let Fate::Cut(n) = fate {
            n.min(bytes.len())
        } else {
            0
        };
        let bytes = &bytes[..bytes.len() - cut];
        self.bytes += bytes.len() as u64;
        self.probe(bytes);
        self.act(|parser, ts, out| parser.on_datagram(by, bytes, cut as u32, ts, out));
    }

    fn probe(&self, bytes: &[u8]) {
        let Script { udp, midstream, .. } = self.script;
        let transport = if udp {
            IpProtocol::UDP
        } else {
            IpProtocol::TCP
        };
        let context = ProbeContext {
            transport,
            usual_port: true,
            midstream,
            speaker: None,
            answers: false,
        };
        let _ = (self.protocol.probe)(bytes, context);
    }

    /// Reports the missing bytes of `by` before byte `end`.
    fn tell_missing(&mut self, by: Direction, end: u64) {
        let told = &mut self.told[by as usize];
        let seq = self.ends.start(by).plus(*told as u32);
        let len = end.saturating_sub(*told);
        if len > 0 {
            *told = end;
            self.act(|parser, ts, out| parser.on_gap(by, StreamGap { seq, len, ts }, out));
        }
    }

    fn act(&mut self, act: impl FnOnce(&mut dyn StreamParser, Timestamp, &mut ParserOutput<'_>)) {
        let flow = context(self.script, self.script.midstream);
        let ts = Timestamp(self.now);
        let mut out =
            ParserOutput::new(&flow, ts, &mut self.tuples.counters, &mut self.tuples.taps);
        act(self.parser.as_mut(), ts, &mut out);
        self.tuples.count(false);
    }
}

fn other(direction: Direction) -> Direction {
    match direction {
        Direction::ClientToServer => Direction::ServerToClient,
        Direction::ServerToClient => Direction::ClientToServer,
    }
}
