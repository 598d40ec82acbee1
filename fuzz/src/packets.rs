//! Plays a conversation as captured packets, with loss, reordering, duplicates, and truncation, through [`Path`].

use flow::FlowEvents;
use parsers::{Direction, ProtocolDefinition};
use tuple::Schema;
use wire::packet::TcpFlags;
use wire::{Packet, TcpInfo, TcpSeq, Timestamp, TransportHeader};

use crate::Heard;
use crate::path::{Path, Truth, five_tuple};
use crate::script::{self, Ends, Fate, Script, Step, What};

/// Maximum bytes of a segment.
const MSS: usize = 1460;
/// Maximum bytes sent by one end; they are kept for comparison.
const SAID_MAX: usize = 1 << 20;
/// Nanoseconds between packets.
const PACE: i64 = 100_000;

/// A packet before it is captured.
#[derive(Clone)]
struct Sent {
    by: Direction,
    seq: TcpSeq,
    ack: TcpSeq,
    flags: TcpFlags,
    ts: i64,
    bytes: Vec<u8>,
    cut: usize,
}

struct Conversation {
    script: Script,
    path: Path,
    events: FlowEvents,
    truth: Truth,
    /// Delayed packets, with the number of packets that overtake each.
    late: Vec<(u8, Sent)>,
    now: i64,
    captured: u64,
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
        path: Path::new(protocol, schema, script),
        events: FlowEvents::default(),
        truth: Truth {
            ends: Ends::new(script),
            said: [Vec::new(), Vec::new()],
        },
        late: Vec::new(),
        now: 1_000_000_000,
        captured: 0,
    };
    if !script.midstream && !script.udp {
        conversation.shake_hands();
    }
    while let Some(step) = script::next(&mut steps) {
        conversation.step(step);
    }
    conversation.finish()
}

impl Conversation {
    fn shake_hands(&mut self) {
        let [client, server] = [Direction::ClientToServer, Direction::ServerToClient];
        let before = |of: Direction| TcpSeq(self.truth.ends.start(of).0.wrapping_sub(1));
        let syn = |by, seq, ack, flags, ts| Sent {
            by,
            seq,
            ack,
            flags,
            ts,
            bytes: Vec::new(),
            cut: 0,
        };
        let both = TcpFlags::SYN | TcpFlags::ACK;
        let syns = [
            syn(client, before(client), TcpSeq(0), TcpFlags::SYN, self.now),
            syn(
                server,
                before(server),
                self.truth.ends.start(client),
                both,
                self.now + PACE,
            ),
        ];
        self.now += 2 * PACE;
        syns.iter().for_each(|syn| self.capture(syn));
    }

    fn step(
        &mut self,
        Step {
            by,
            hears,
            fate,
            what,
        }: Step<'_>,
    ) {
        self.truth.ends.hear(by, hears);
        let next = self.truth.ends.next(by);
        let kept = &self.truth.said[by as usize];
        match what {
            What::Say(bytes) if self.script.udp => self.say(by, fate, bytes, usize::MAX),
            What::Say(_) | What::Skip(_)
                if self.truth.ends.has_ended(by) || kept.len() > SAID_MAX => {}
            What::Say(bytes) => self.say(by, fate, bytes, MSS),
            What::Skip(bytes) => {
                let end = kept.len() + bytes.min(SAID_MAX as u64) as usize;
                self.truth.ends.say(by, (end - kept.len()) as u64);
                self.truth.said[by as usize].resize(end, 0);
            }
            What::Again(n) => {
                let begin = kept.len() - n.min(kept.len()).min(MSS);
                let seq = self.truth.ends.start(by).plus(begin as u32);
                self.send(by, seq, TcpFlags::ACK, kept[begin..].to_vec(), fate);
            }
            What::Listen => self.send(by, next, TcpFlags::ACK, Vec::new(), fate),
            What::Fin => {
                self.truth.ends.end(by);
                self.send(by, next, TcpFlags::FIN | TcpFlags::ACK, Vec::new(), fate);
            }
            What::Rst => self.send(by, next, TcpFlags::RST | TcpFlags::ACK, Vec::new(), fate),
            What::Clock(by_ns) => {
                self.now += by_ns;
                self.expire();
            }
        }
    }

    fn say(&mut self, by: Direction, fate: Fate, bytes: &[u8], most: usize) {
        let piece = if let Fate::Pieces(n) = fate { n } else { most };
        for bytes in bytes.chunks(piece) {
            let place = self.truth.ends.say(by, bytes.len() as u64);
            self.truth.said[by as usize].extend_from_slice(bytes);
            self.send(
                by,
                place.seq,
                TcpFlags::PSH | TcpFlags::ACK,
                bytes.to_vec(),
                fate,
            );
        }
    }

    /// Sends one packet and applies its fate in the capture.
    fn send(
        &mut self,
        by: Direction,
        seq: TcpSeq,
        flags: TcpFlags,
        mut bytes: Vec<u8>,
        fate: Fate,
    ) {
        self.now += PACE;
        let cut = if let Fate::Cut(n) = fate {
            n.min(bytes.len())
        } else {
            0
        };
        bytes.truncate(bytes.len() - cut);
        let sent = Sent {
            by,
            seq,
            ack: self.truth.ends.ack(by),
            flags,
            ts: self.now,
            bytes,
            cut,
        };
        match fate {
            Fate::Lost => {}
            Fate::Late(after) => self.late.push((after, sent)),
            Fate::Twice => {
                self.capture(&sent);
                self.capture(&sent);
            }
            Fate::Captured | Fate::Cut(_) | Fate::Pieces(_) => self.capture(&sent),
        }
        self.late
            .iter_mut()
            .for_each(|(after, _)| *after = after.saturating_sub(1));
        while let Some(n) = self.late.iter().position(|(after, _)| *after == 0) {
            let (_, mut sent) = self.late.remove(n);
            // Reordered in the network, or only in the capture file.
            if sent.seq.0 & 1 == 0 {
                sent.ts = self.now;
            }
            self.capture(&sent);
        }
    }

    fn capture(&mut self, sent: &Sent) {
        let len = (sent.bytes.len() + sent.cut) as u32;
        let Sent {
            by,
            seq,
            ack,
            flags,
            ts,
            ..
        } = *sent;
        let tcp = TcpInfo {
            seq,
            ack,
            flags,
            window: 8192,
        };
        let packet = Packet {
            ts: Timestamp(ts),
            original_len: 54 + len,
            five_tuple: five_tuple(self.script, by),
            ttl: 64,
            ip_id: self.captured as u16,
            macs: None,
            vlan: None,
            tunnel: wire::Tunnel::default(),
            transport: if self.script.udp {
                TransportHeader::Udp
            } else {
                TransportHeader::Tcp(tcp)
            },
            checksum: seq.0 as u16,
            ip_header: &[],
            segment: &[],
            payload: &sent.bytes,
            payload_original_len: len,
        };
        self.path.take(&packet, &self.truth, &mut self.events);
        self.captured += 1;
        if self.captured.is_multiple_of(16) {
            self.expire();
        }
    }

    fn expire(&mut self) {
        self.path.expire(self.now, &self.truth, &mut self.events);
    }

    fn finish(mut self) -> Heard {
        for (_, sent) in std::mem::take(&mut self.late) {
            self.capture(&sent);
        }
        self.path.finish(&self.truth, &mut self.events)
    }
}
