//! A connection until the end of its handshake.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::byte_stream::{self, TlsByteStream, TlsEvent};
use super::certificate::{self, TlsCertificate};
use super::codes;
use super::emit;
use super::handshake::{TlsAlert, TlsHandshake};
use super::hello;
use super::messages::{TlsHandshakeMessage, kind};
use super::reader::TlsReader;
use crate::{Direction, ParserOutput, StreamGap, StreamSegment};

/// Minimum length of a TLS 1.3 record with an encrypted Finished; an alert is shorter.
const FINISHED_BYTES_MIN: usize = 32;

/// Progress of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TlsHandshakeStage {
    /// More may follow.
    #[default]
    Open,
    /// The tuple is written.
    Over,
}

/// A connection.
#[derive(Debug, Default)]
pub struct TlsConnection {
    stage: TlsHandshakeStage,
    lanes: [TlsByteStream; 2],
    handshake: TlsHandshake,
    /// The server sent ServerHelloDone: a full handshake.
    hello_done: bool,
    /// The client has switched to encryption.
    client_changed: bool,
    /// Acknowledgment that proves receipt of the ServerHello.
    hello_end: Option<TcpSeq>,
}

impl TlsConnection {
    /// The handshake after its end.
    pub fn ended(&self) -> Option<&TlsHandshake> {
        (self.stage == TlsHandshakeStage::Over).then_some(&self.handshake)
    }

    /// Handles the next bytes of one direction.
    pub fn bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        if self.is_before(direction, segment.bytes) {
            return;
        }
        let mut rest = segment;
        while self.stage == TlsHandshakeStage::Open && !rest.bytes.is_empty() {
            let (used, event) = self.lanes[direction as usize].step(rest);
            rest = rest.behind(used);
            if let Some(event) = event {
                self.on_event(direction, event, Some(rest.place), out);
            }
        }
    }

    /// Whether the server's bytes precede TLS, in another protocol (STARTTLS).
    fn is_before(&self, direction: Direction, bytes: &[u8]) -> bool {
        direction == Direction::ServerToClient
            && self.lanes.iter().all(|lane| !lane.spoke)
            && bytes.first().is_some_and(|byte| {
                !matches!(
                    *byte,
                    byte_stream::kind::ALERT | byte_stream::kind::HANDSHAKE
                )
            })
    }

    /// Handles a gap in one direction.
    pub fn gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        // A gap before a hello precedes the TLS handshake.
        if self.stage == TlsHandshakeStage::Over || self.lanes.iter().all(|lane| !lane.spoke) {
            return;
        }
        self.handshake.gap = true;
        let lane = &mut self.lanes[direction as usize];
        if let Some(event) = lane.gap(gap.len) {
            let lost = lane.is_lost();
            self.on_event(direction, event, None, out);
            if lost && self.stage == TlsHandshakeStage::Open {
                self.on_event(direction, TlsEvent::Lost, None, out);
            }
        }
    }

    /// Ends the connection.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            let lane = &mut self.lanes[direction as usize];
            if self.stage == TlsHandshakeStage::Open
                && lane.collector.is_within()
                && let Some(message) = lane.collector.break_off()
            {
                self.handshake.gap = true;
                self.on_message(direction, message, None, out);
            }
        }
        self.finish(out);
    }

    /// Handles an event; `behind` is the position of the bytes after it.
    fn on_event(
        &mut self,
        direction: Direction,
        event: TlsEvent,
        behind: Option<StreamPlace>,
        out: &mut ParserOutput<'_>,
    ) {
        let from_client = direction == Direction::ClientToServer;
        match event {
            TlsEvent::Message(message) => self.on_message(direction, message, behind, out),
            TlsEvent::ChangeCipherSpec => self.on_change(direction),
            TlsEvent::Alert(ts, what) => self.on_alert(direction, ts, what, out),
            TlsEvent::EncryptedMessage(ended) if !from_client => {
                self.handshake.finished = ended;
                self.finish(out);
            }
            TlsEvent::EncryptedMessage(_) => {}
            TlsEvent::Data { ts, place, len } if from_client => {
                self.on_client_data(ts, place, len, out)
            }
            // Before TLS 1.3 the handshake was complete by then; in TLS 1.3 the record contains the rest of
            // the server's part.
            TlsEvent::Data { .. } => {
                if !self.handshake.is_tls13() || self.lanes[0].is_lost() {
                    self.finish(out);
                }
            }
            TlsEvent::Lost => self.on_lost(direction, out),
        }
    }

    fn on_message(
        &mut self,
        direction: Direction,
        message: TlsHandshakeMessage,
        behind: Option<StreamPlace>,
        out: &mut ParserOutput<'_>,
    ) {
        let body = self.lanes[direction as usize].collector.body();
        let whole = !message.cut;
        match (direction, message.kind) {
            (Direction::ClientToServer, kind::CLIENT_HELLO) if self.handshake.client.is_none() => {
                self.handshake.client = hello::client(body, whole);
                self.handshake.asked = Some((message.span, message.ended));
            }
            (Direction::ServerToClient, kind::SERVER_HELLO) if self.handshake.server.is_none() => {
                self.on_server_hello(message, behind, out);
            }
            (Direction::ServerToClient, kind::CERTIFICATE) => {
                self.handshake.certificate = first_certificate(body).unwrap_or_default();
            }
            (Direction::ServerToClient, kind::SERVER_HELLO_DONE) => self.hello_done = true,
            (Direction::ClientToServer, kind::CERTIFICATE) => {
                self.handshake.client_certificate = TlsReader(body).u24().map(|length| length > 0);
            }
            _ => {}
        }
    }

    fn on_server_hello(
        &mut self,
        message: TlsHandshakeMessage,
        behind: Option<StreamPlace>,
        out: &mut ParserOutput<'_>,
    ) {
        let body = self.lanes[Direction::ServerToClient as usize]
            .collector
            .body();
        let Some(hello) = hello::server(body, !message.cut) else {
            return;
        };
        self.handshake.answered.get_or_insert(message.span.first);
        if hello.retry {
            self.handshake.retried = true;
            return;
        }
        if hello.version.is_some_and(codes::is_tls13) {
            self.handshake.resumed =
                (!message.cut || hello.pre_shared_key).then_some(hello.pre_shared_key);
            self.hello_end = behind.map(|place| place.seq);
        }
        self.handshake.server = Some(hello);
        if self.handshake.is_tls13() && self.lanes[Direction::ClientToServer as usize].is_lost() {
            self.finish(out);
        }
    }

    /// Handles the start of encryption; ignored in TLS 1.3.
    fn on_change(&mut self, direction: Direction) {
        if self.handshake.is_tls13() || self.handshake.retried {
            return;
        }
        let lane = &mut self.lanes[direction as usize];
        lane.encrypted = true;
        let handshake = &mut self.handshake;
        let understood = !lane.collector.is_lost();
        match direction {
            Direction::ServerToClient
                if handshake.server.is_some() && (understood || self.hello_done) =>
            {
                handshake.resumed = Some(!self.hello_done);
            }
            Direction::ClientToServer if handshake.client.is_some() && !handshake.gap => {
                self.client_changed = true;
            }
            _ => {}
        }
    }

    fn on_alert(
        &mut self,
        by: Direction,
        ts: Timestamp,
        what: Option<(u8, u8)>,
        out: &mut ParserOutput<'_>,
    ) {
        let handshake = &mut self.handshake;
        let alert = TlsAlert { by, what };
        // After a partly captured handshake, an encrypted alert may be a close_notify.
        if what.is_none() && (handshake.gap || handshake.server.is_none()) {
            return self.finish(out);
        }
        let warned = handshake.alert.is_some_and(|first| first.is_warning());
        if handshake.alert.is_none() || warned && matches!(what, Some((2, _))) {
            handshake.alert = Some(alert);
        }
        if by == Direction::ServerToClient {
            handshake.answered.get_or_insert(ts);
        }
        if !alert.is_warning() {
            self.finish(out);
        }
    }

    fn on_client_data(
        &mut self,
        ts: Timestamp,
        place: StreamPlace,
        len: usize,
        out: &mut ParserOutput<'_>,
    ) {
        let server = &self.lanes[Direction::ServerToClient as usize];
        let early = self
            .handshake
            .client
            .as_ref()
            .is_some_and(|client| client.early_data);
        if self.handshake.is_tls13() {
            // Data may directly follow the ClientHello; a Finished follows the ServerHello.
            let heard = match (place.ack, self.hello_end) {
                (Some(ack), Some(end)) => ack.distance(end) >= 0,
                _ => true,
            };
            if !heard {
                return;
            }
            if len < FINISHED_BYTES_MIN {
                let alert = TlsAlert {
                    by: Direction::ClientToServer,
                    what: None,
                };
                self.handshake.alert.get_or_insert(alert);
            } else {
                self.handshake.finished = Some(ts);
            }
            self.finish(out);
        } else if server.is_lost() || !server.spoke && !early {
            // The server's direction is not captured.
            self.finish(out);
        }
    }

    /// Handles the loss of message boundaries in one direction.
    fn on_lost(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let lane = &self.lanes[direction as usize];
        self.handshake.gap = true;
        match direction {
            _ if !lane.is_lost() => {}
            Direction::ServerToClient => self.finish(out),
            Direction::ClientToServer => {
                let server = &self.lanes[Direction::ServerToClient as usize];
                if self.handshake.is_tls13() || server.is_lost() {
                    self.finish(out);
                }
            }
        }
    }

    /// Completes the handshake.
    fn finish(&mut self, out: &mut ParserOutput<'_>) {
        if self.stage == TlsHandshakeStage::Over {
            return;
        }
        self.stage = TlsHandshakeStage::Over;
        let handshake = &mut self.handshake;
        // In TLS 1.3 it would be encrypted.
        if self.client_changed
            && handshake
                .version()
                .is_some_and(|version| !codes::is_tls13(version))
        {
            handshake.client_certificate.get_or_insert(false);
        }
        self.lanes = Default::default();
        emit::tuple(handshake, out);
        handshake.certificate = TlsCertificate::default();
    }
}

/// The first certificate of a list: the server's own.
fn first_certificate(body: &[u8]) -> Option<TlsCertificate> {
    let mut list = TlsReader(body);
    list.u24()?;
    let length = list.u24()?;
    certificate::read(list.take(length)?)
}
