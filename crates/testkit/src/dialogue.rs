//! A TCP dialogue of two endpoints in simulated time, recorded as [`SentPacket`] packets as captured between them. [`DialogueEnd`]
//! can also send invalid sequences, for tests of abnormal behavior.

use std::net::SocketAddr;

use wire::packet::TcpFlags;
use wire::{FlowSide, TcpSeq, Timestamp};

use crate::packet::tcp_info;
use crate::{SentPacket, TransportCarrier};

/// A dialogue. Side `A` is the client, `B` the server (by role, not by address).
#[derive(Clone, Debug)]
pub struct TcpDialogue {
    /// The time of the next packet.
    pub now: Timestamp,
    /// Time between packets.
    pub step_ns: i64,
    /// Maximum payload of a segment.
    pub segment_size: usize,
    /// Maximum segment size that both SYNs announce; `None`: no option.
    pub announced_size: Option<u16>,
    /// Whether each segment is acknowledged by a separate segment of the other endpoint.
    pub acks: bool,
    ends: [SocketAddr; 2],
    next: [u32; 2],
    /// Last IP identifications.
    ip_ids: [u16; 2],
    sent: Vec<SentPacket>,
}

/// One endpoint of a [`TcpDialogue`], for sending.
#[derive(Debug)]
pub struct DialogueEnd<'a> {
    talk: &'a mut TcpDialogue,
    side: FlowSide,
}

impl TcpDialogue {
    /// Creates a dialogue between two endpoints such as `"10.0.0.1:40000"` or `"[::1]:40000"`; time begins in 2023.
    #[must_use]
    pub fn new(client: &str, server: &str) -> TcpDialogue {
        let end = |text: &str| text.parse().expect("a test names its ends as address:port");
        TcpDialogue {
            now: Timestamp(1_700_000_000_000_000_000),
            step_ns: 10_000,
            segment_size: 1460,
            announced_size: None,
            acks: true,
            ends: [end(client), end(server)],
            next: [1_000, 5_000],
            ip_ids: [0, u16::MAX - 9],
            sent: Vec::new(),
        }
    }

    /// Sets the initial sequence numbers, those of the SYNs.
    #[must_use]
    pub fn with_isn(mut self, client: u32, server: u32) -> TcpDialogue {
        self.next = [client, server];
        self
    }

    /// The client endpoint.
    pub fn client(&mut self) -> DialogueEnd<'_> {
        DialogueEnd {
            talk: self,
            side: FlowSide::A,
        }
    }

    /// The server endpoint.
    pub fn server(&mut self) -> DialogueEnd<'_> {
        DialogueEnd {
            talk: self,
            side: FlowSide::B,
        }
    }

    /// SYN, SYN-ACK, ACK.
    pub fn handshake(&mut self) {
        self.client().syn();
        self.server().syn_ack();
        self.client().ack();
    }

    /// FIN of the client, ACK, FIN of the server, ACK.
    pub fn close(&mut self) {
        self.client().fin();
        self.server().fin();
        if !self.acks {
            self.client().ack();
        }
    }

    /// Advances the time.
    pub fn advance(&mut self, nanos: i64) {
        self.now = self.now.plus(nanos);
    }

    /// All packets so far.
    #[must_use]
    pub fn sent(&self) -> &[SentPacket] {
        &self.sent
    }

    /// Takes all packets so far; the dialogue continues.
    pub fn take(&mut self) -> Vec<SentPacket> {
        std::mem::take(&mut self.sent)
    }

    /// The address and port of an endpoint.
    #[must_use]
    pub fn address(&self, side: FlowSide) -> SocketAddr {
        self.ends[side.index()]
    }

    /// The next sequence number of an endpoint.
    #[must_use]
    pub fn next_seq(&self, side: FlowSide) -> u32 {
        self.next[side.index()]
    }

    /// Sends a UDP datagram between the same endpoints.
    pub fn datagram(&mut self, from: FlowSide, payload: &[u8]) {
        let ends = (self.address(from), self.address(from.other()));
        self.push(from, SentPacket::udp(self.now, ends, payload));
    }

    /// Appends a packet with the next IP identification of the endpoint, as most systems assign it; 0 is skipped,
    /// because it means unknown.
    fn push(&mut self, from: FlowSide, sent: SentPacket) {
        let ip_id = &mut self.ip_ids[from.index()];
        *ip_id = ip_id.checked_add(1).unwrap_or(1);
        self.sent.push(SentPacket {
            ip_id: *ip_id,
            ..sent
        });
        self.now = self.now.plus(self.step_ns);
    }
}

impl DialogueEnd<'_> {
    /// Sends a SYN.
    pub fn syn(&mut self) -> &mut Self {
        self.say(TcpFlags::SYN, b"")
    }

    /// Sends a SYN with data (TCP Fast Open, RFC 7413).
    pub fn syn_with(&mut self, bytes: &[u8]) -> &mut Self {
        self.say(TcpFlags::SYN, bytes)
    }

    /// Sends a SYN-ACK.
    pub fn syn_ack(&mut self) -> &mut Self {
        self.say(TcpFlags::SYN | TcpFlags::ACK, b"")
    }

    /// Sends an ACK for all data of the other endpoint.
    pub fn ack(&mut self) -> &mut Self {
        self.say(TcpFlags::ACK, b"")
    }

    /// Sends `bytes` in segments of at most the segment size, the last with PSH; the other endpoint acknowledges
    /// them.
    pub fn send(&mut self, bytes: &[u8]) -> &mut Self {
        let size = self.talk.segment_size.max(1);
        let n = bytes.len().div_ceil(size);
        for (i, part) in bytes.chunks(size).enumerate() {
            let push = if i + 1 == n {
                TcpFlags::PSH
            } else {
                TcpFlags(0)
            };
            self.say(TcpFlags::ACK | push, part);
        }
        self.answer()
    }

    /// Sends a FIN; the other endpoint acknowledges it.
    pub fn fin(&mut self) -> &mut Self {
        self.fin_with(b"")
    }

    /// Sends a FIN with data.
    pub fn fin_with(&mut self, bytes: &[u8]) -> &mut Self {
        self.say(TcpFlags::FIN | TcpFlags::ACK, bytes).answer()
    }

    /// Sends a RST at the next sequence number.
    pub fn rst(&mut self) -> &mut Self {
        self.say(TcpFlags::RST, b"")
    }

    /// Advances the sequence number for data not captured.
    pub fn send_unseen(&mut self, bytes: usize) -> &mut Self {
        self.talk.next[self.side.index()] =
            self.talk.next[self.side.index()].wrapping_add(bytes as u32);
        self
    }

    /// Sends a segment at `offset` from the next sequence number, which is unchanged.
    pub fn segment(&mut self, offset: i64, flags: TcpFlags, bytes: &[u8]) -> &mut Self {
        let seq = self.talk.next_seq(self.side).wrapping_add(offset as u32);
        self.push(seq, flags, bytes)
    }

    /// Sends an ACK with `offset` added to the acknowledged position.
    pub fn ack_at(&mut self, offset: i64) -> &mut Self {
        self.ack();
        let last = self.talk.sent.last_mut().expect("just sent");
        if let TransportCarrier::Tcp(tcp) = &mut last.carrier {
            tcp.ack = TcpSeq(tcp.ack.0.wrapping_add(offset as u32));
        }
        self
    }

    /// Modifies the last packet, for example its window, capture length, or time.
    pub fn amend(&mut self, change: impl FnOnce(&mut SentPacket)) -> &mut Self {
        change(
            self.talk
                .sent
                .last_mut()
                .expect("something was said before it is amended"),
        );
        self
    }

    fn say(&mut self, flags: TcpFlags, bytes: &[u8]) -> &mut Self {
        let seq = self.talk.next_seq(self.side);
        let consumed =
            bytes.len() as u32 + u32::from(flags.intersects(TcpFlags::SYN | TcpFlags::FIN));
        self.push(seq, flags, bytes);
        self.talk.next[self.side.index()] = seq.wrapping_add(consumed);
        self
    }

    fn push(&mut self, seq: u32, flags: TcpFlags, bytes: &[u8]) -> &mut Self {
        let ack = if flags.contains(TcpFlags::ACK) {
            self.talk.next_seq(self.side.other())
        } else {
            0
        };
        let ends = (
            self.talk.address(self.side),
            self.talk.address(self.side.other()),
        );
        let mut sent = SentPacket::tcp(self.talk.now, ends, tcp_info(seq, ack, flags), bytes);
        if let Some(size) = self
            .talk
            .announced_size
            .filter(|_| flags.contains(TcpFlags::SYN))
        {
            sent.options = [&[2, 4], &size.to_be_bytes()[..]].concat();
        }
        self.talk.push(self.side, sent);
        self
    }

    fn answer(&mut self) -> &mut Self {
        if self.talk.acks {
            DialogueEnd {
                talk: self.talk,
                side: self.side.other(),
            }
            .ack();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(talk: &TcpDialogue, expected: &str) {
        let mut text = String::new();
        for sent in talk.sent() {
            let tcp = sent.tcp_info().expect("a TCP dialogue");
            let who = if sent.src == talk.address(FlowSide::A) {
                'c'
            } else {
                's'
            };
            text += &format!(
                "{who}{:x}:{}+{}/{} ",
                tcp.flags.0,
                tcp.seq.0,
                sent.payload.len(),
                tcp.ack.0
            );
        }
        assert_eq!(text.trim_end(), expected);
    }

    #[test]
    fn a_whole_conversation() {
        let mut talk = TcpDialogue::new("10.0.0.1:1024", "10.0.0.2:80").with_isn(100, u32::MAX);
        talk.handshake();
        talk.segment_size = 3;
        talk.client().send(b"hello");
        talk.close();
        check(
            &talk,
            "c2:100+0/0 s12:4294967295+0/101 c10:101+0/0 c10:101+3/0 c18:104+2/0 s10:0+0/106 \
             c11:106+0/0 s10:0+0/107 s11:0+0/107 c10:107+0/1",
        );
    }

    #[test]
    fn time_advances_explicitly() {
        let mut talk = TcpDialogue::new("[::1]:1024", "[::2]:80");
        talk.step_ns = 0;
        talk.handshake();
        talk.advance(7);
        talk.client().rst();
        let at: Vec<i64> = talk
            .sent()
            .iter()
            .map(|s| s.ts.since(talk.sent()[0].ts))
            .collect();
        assert_eq!(at, [0, 0, 0, 7]);
    }
}
