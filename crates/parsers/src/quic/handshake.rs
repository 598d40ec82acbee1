//! State of a handshake, from which its tuple is written.

use std::ops::Range;

use wire::Timestamp;

use super::crypto_stream::{QuicCryptoStream, QuicHandshakeMessage};
use super::frames::{self, QuicFrame};
use super::header::{QuicLongPacket, QuicReader, QuicVersion};
use super::keys::QuicInitialKeys;
use crate::tls::hello::{self, ClientHello, ServerHello};
use crate::tls::messages::kind;
use crate::{Direction, MessageSpan, ParserCounters};

/// Handshake of one connection.
pub struct QuicHandshake {
    /// Version of the newest packets.
    pub version: QuicVersion,
    /// Version of the client's first packet.
    pub offered: QuicVersion,
    /// Destination connection ID of the client's first packet.
    pub first_id: Vec<u8>,
    /// Connection ID from which the keys are derived: the first one, or that of a Retry.
    id: Vec<u8>,
    /// Source connection ID of the server, empty if unknown.
    pub server_id: Vec<u8>,
    /// By direction.
    keys: [QuicInitialKeys; 2],
    crypto: [QuicCryptoStream; 2],
    pub hellos: QuicHellos,
    /// Arrival of the client's first packet and of the one that completed the ClientHello.
    pub asked: MessageSpan,
    /// Whether the ClientHello is complete.
    pub is_asked: bool,
    /// The server sent a packet.
    pub is_heard: bool,
    /// Start of the server's response.
    pub answered: Option<Timestamp>,
    /// First 1-RTT packet of the client.
    pub finished: Option<Timestamp>,
    /// Arrival of the last packet of the handshake.
    pub seen: Timestamp,
    /// The client's first packet has a token of an earlier connection.
    has_token: bool,
    pub early_data: bool,
    pub retry: bool,
    /// The server does not support the offered version.
    pub other_version: bool,
    pub retransmissions: u64,
    /// Sender and code of an error.
    pub error: Option<(Direction, u64)>,
    /// Bytes are missing.
    pub gap: bool,
}

impl QuicHandshake {
    /// Begins with the client's first packet.
    pub fn begin(packet: &QuicLongPacket<'_>, ts: Timestamp) -> QuicHandshake {
        QuicHandshake {
            version: packet.version,
            offered: packet.version,
            first_id: packet.to.to_vec(),
            id: packet.to.to_vec(),
            server_id: Vec::new(),
            keys: both(packet.version, packet.to),
            crypto: Default::default(),
            hellos: QuicHellos::default(),
            asked: MessageSpan::at(ts),
            is_asked: false,
            is_heard: false,
            answered: None,
            finished: None,
            seen: ts,
            has_token: packet.has_token,
            early_data: false,
            retry: false,
            other_version: false,
            retransmissions: 0,
            error: None,
            gap: false,
        }
    }

    /// Whether a client's packet with other keys belongs to this connection: it answers a Retry or a Version
    /// Negotiation, also if that was not captured.
    pub fn continues(&self, packet: &QuicLongPacket<'_>) -> bool {
        self.hellos.server.is_none()
            && (self.retry || self.other_version || packet.has_token && !self.has_token)
    }

    /// Continues with the client's first packet after a Retry or a Version Negotiation, with which `new` begins.
    pub fn renew(&mut self, new: QuicHandshake) {
        self.retry |= new.has_token && !self.has_token;
        self.version = new.version;
        self.id = new.id;
        self.keys = new.keys;
        self.crypto = Default::default();
    }

    /// Whether a packet to this connection ID may belong to the connection.
    pub fn has_id(&self, id: &[u8]) -> bool {
        [&self.first_id, &self.id, &self.server_id]
            .iter()
            .any(|own| **own == id)
    }

    /// Handles a sign of life of the server.
    pub fn hear(&mut self, ts: Timestamp) {
        self.is_heard = true;
        self.seen = self.seen.max(ts);
    }

    /// Handles a packet that can only be an answer.
    pub fn answer(&mut self, ts: Timestamp) {
        self.hear(ts);
        self.answered.get_or_insert(ts);
    }

    /// Decrypts an Initial packet. `None`: it does not belong to this connection.
    pub fn open(
        &mut self,
        direction: Direction,
        packet: &QuicLongPacket<'_>,
        room: &mut Vec<u8>,
    ) -> Option<Range<usize>> {
        if packet.version == self.version {
            return self.keys[direction as usize].open(packet, room);
        }
        // The same connection ID, other keys: after a Version Negotiation, or if the server chooses another version
        // (RFC 9368).
        let mut keys = both(packet.version, &self.id);
        let payload = keys[direction as usize].open(packet, room)?;
        if direction == Direction::ClientToServer && !self.crypto[1].has_start() {
            self.crypto = Default::default();
        }
        self.version = packet.version;
        self.keys = keys;
        Some(payload)
    }

    /// Handles the payload of an Initial packet.
    pub fn payload(
        &mut self,
        direction: Direction,
        payload: &[u8],
        ts: Timestamp,
        counters: &mut ParserCounters,
    ) {
        self.seen = self.seen.max(ts);
        self.is_heard |= direction == Direction::ServerToClient;
        let mut rest = QuicReader(payload);
        while let Some(frame) = frames::next(&mut rest) {
            if direction == Direction::ServerToClient {
                self.answer(ts);
            }
            match frame {
                QuicFrame::Crypto { offset, data } => {
                    self.crypto(direction, offset, data, ts, counters);
                }
                QuicFrame::Close(code) => {
                    self.error.get_or_insert((direction, code));
                }
            }
        }
        if !rest.0.is_empty() {
            counters.malformed_messages += 1;
        }
    }

    fn crypto(
        &mut self,
        direction: Direction,
        offset: u64,
        data: &[u8],
        ts: Timestamp,
        counters: &mut ParserCounters,
    ) {
        let is_repeated = offset == 0 && self.crypto[0].has_start() && !self.crypto[1].has_start();
        if direction == Direction::ClientToServer && is_repeated {
            self.retransmissions += 1;
        }
        let stream = &mut self.crypto[direction as usize];
        if stream.add(offset, data).is_err() {
            counters.oversized_heads += 1;
            self.gap = true;
        }
        while let Some(message) = stream.next() {
            self.hellos.read(direction, message);
        }
        if !self.is_asked && self.hellos.client.is_some() {
            self.is_asked = true;
            self.asked.extend(ts);
        }
    }

    /// Reads the messages that are incomplete at the end.
    pub fn close(&mut self) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            if let Some(message) = self.crypto[direction as usize].incomplete() {
                self.gap |= !message.whole;
                self.hellos.read(direction, message);
            }
        }
    }
}

/// Keys of both directions.
fn both(version: QuicVersion, id: &[u8]) -> [QuicInitialKeys; 2] {
    [Direction::ClientToServer, Direction::ServerToClient]
        .map(|direction| QuicInitialKeys::derive(version, id, direction))
}

/// The hellos of both sides.
#[derive(Debug, Default)]
pub struct QuicHellos {
    pub client: Option<ClientHello>,
    pub server: Option<ServerHello>,
    /// The server sent a HelloRetryRequest.
    pub retried: bool,
}

impl QuicHellos {
    fn read(&mut self, direction: Direction, message: QuicHandshakeMessage<'_>) {
        match (direction, message.kind) {
            (Direction::ClientToServer, kind::CLIENT_HELLO) if self.client.is_none() => {
                self.client = hello::client(message.body, message.whole);
            }
            (Direction::ServerToClient, kind::SERVER_HELLO) if self.server.is_none() => {
                let hello = hello::server(message.body, message.whole);
                self.retried |= hello.as_ref().is_some_and(|hello| hello.retry);
                self.server = hello.filter(|hello| !hello.retry);
            }
            _ => {}
        }
    }
}
