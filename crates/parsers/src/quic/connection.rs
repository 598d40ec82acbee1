//! Handshakes of one flow, one after the other.

use std::ops::Range;

use wire::Timestamp;

use super::emit;
use super::handshake::QuicHandshake;
use super::header::{self, QuicLongPacket, QuicPacket, QuicPacketKind};
use crate::{Direction, ParserOutput};

/// A flow.
#[derive(Default)]
pub struct QuicFlow {
    handshake: Option<Box<QuicHandshake>>,
    /// Connection IDs of the handshake whose tuple is written: the client's first destination, and the server's.
    over: [Vec<u8>; 2],
    /// Buffer for decrypted packets.
    room: Vec<u8>,
}

impl QuicFlow {
    /// Handles a datagram, of which `cut` bytes were not captured.
    pub fn datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        let mut rest = bytes;
        while let Some(packet) = header::next(&mut rest, cut) {
            match (packet, direction) {
                (QuicPacket::Long(packet), _) => self.long(direction, &packet, ts, out),
                (QuicPacket::Short, Direction::ClientToServer) => self.short(ts, out),
                (QuicPacket::Short, Direction::ServerToClient) => {}
                (QuicPacket::VersionNegotiation, Direction::ServerToClient) => {
                    if let Some(handshake) = self.waiting() {
                        handshake.other_version = true;
                        handshake.answer(ts);
                    }
                }
                (QuicPacket::VersionNegotiation, Direction::ClientToServer) => {}
            }
        }
    }

    /// Ends the flow.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        let Some(mut handshake) = self.handshake.take() else {
            return;
        };
        handshake.close();
        emit::tuple(&handshake, out);
        self.over = [handshake.first_id, handshake.server_id];
        self.room = Vec::new();
    }

    /// The handshake, if the server has not sent its hello.
    fn waiting(&mut self) -> Option<&mut QuicHandshake> {
        let handshake = self.handshake.as_deref_mut()?;
        handshake.hellos.server.is_none().then_some(handshake)
    }

    fn long(
        &mut self,
        direction: Direction,
        packet: &QuicLongPacket<'_>,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        match (packet.kind, direction) {
            (QuicPacketKind::Initial, _) => self.initial(direction, packet, ts, out),
            (QuicPacketKind::Retry, Direction::ServerToClient) => {
                if let Some(handshake) = self.waiting() {
                    handshake.retry = true;
                    handshake.answer(ts);
                }
            }
            (QuicPacketKind::ZeroRtt, Direction::ClientToServer) => {
                if let Some(handshake) = &mut self.handshake {
                    handshake.early_data = true;
                }
            }
            (QuicPacketKind::Handshake, Direction::ServerToClient) => {
                if let Some(handshake) = &mut self.handshake {
                    handshake.answer(ts);
                }
            }
            _ => {}
        }
    }

    fn initial(
        &mut self,
        direction: Direction,
        packet: &QuicLongPacket<'_>,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        let mut room = std::mem::take(&mut self.room);
        let handshake = self.handshake.as_deref_mut();
        let payload = handshake
            .and_then(|handshake| handshake.open(direction, packet, &mut room))
            .or_else(|| match direction {
                Direction::ClientToServer => self.begin(packet, &mut room, ts, out),
                Direction::ServerToClient => {
                    self.unread(direction, packet, ts, out);
                    None
                }
            });
        if let (Some(handshake), Some(payload)) = (&mut self.handshake, payload) {
            handshake.payload(direction, &room[payload], ts, out.counters);
            if direction == Direction::ServerToClient {
                handshake.server_id = packet.from.to_vec();
            }
            if handshake.error.is_some() {
                self.close(out);
            }
        }
        self.room = room;
    }

    /// Handles an Initial packet of the client that the known connection has not sent: the first one of another
    /// connection, or the first one after a Retry. Returns the range of its payload in `room`.
    fn begin(
        &mut self,
        packet: &QuicLongPacket<'_>,
        room: &mut Vec<u8>,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) -> Option<Range<usize>> {
        let known = self.handshake.as_deref_mut();
        let is_known = known.as_ref().is_some_and(|known| known.has_id(packet.to));
        // A late copy.
        if self.over.iter().any(|id| id == packet.to) {
            return None;
        }
        let mut new = QuicHandshake::begin(packet, ts);
        let payload = new.open(Direction::ClientToServer, packet, room);
        if payload.is_none() && (packet.whole || is_known) {
            self.unread(Direction::ClientToServer, packet, ts, out);
            return None;
        }
        new.gap = payload.is_none();
        match known {
            Some(known) if known.continues(packet) => known.renew(new),
            _ => {
                self.close(out);
                self.handshake = Some(Box::new(new));
            }
        }
        payload
    }

    /// Handles an Initial packet that no key opens: a late copy after the end of a handshake; truncated, one of the
    /// connection.
    fn unread(
        &mut self,
        direction: Direction,
        packet: &QuicLongPacket<'_>,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        if self.handshake.is_none() && !self.over[0].is_empty() {
            return;
        }
        out.counters.protected_messages += 1;
        if let Some(handshake) = self.handshake.as_deref_mut().filter(|_| !packet.whole) {
            handshake.gap = true;
            handshake.seen = handshake.seen.max(ts);
            handshake.is_heard |= direction == Direction::ServerToClient;
        }
    }

    /// Handles a 1-RTT packet of the client: it has completed the handshake.
    fn short(&mut self, ts: Timestamp, out: &mut ParserOutput<'_>) {
        if let Some(handshake) = self.handshake.as_mut().filter(|known| known.is_heard) {
            handshake.finished = Some(ts);
            handshake.seen = handshake.seen.max(ts);
            self.close(out);
        }
    }
}
