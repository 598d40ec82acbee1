//! Encrypted connections without keys: one tuple per *turn* of a TLS connection over TCP, the client's records of
//! application data and then the server's, from the headers of records (RFC 8446 section 5.1).
//!
//! A turn is a request with its response if the client waits for responses. `turns.rs` marks turns for which this is
//! doubtful. The connection's handshake is read by [`crate::tls`], whose protocol it shares. See `docs/encrypted.md`.

mod connection;
mod emit;
pub mod field;
pub(crate) mod records;
mod session;
#[cfg(test)]
mod tests;
mod turns;

use tuple::{Schema, SchemaFacts};
use wire::Timestamp;

use self::connection::TurnReader;
use self::session::TlsSession;
use crate::tls::{self, TlsConnection};
use crate::{
    Direction, ParserOutput, ProbeContext, ProbeResult, ProtocolDefinition, StreamEnd, StreamGap,
    StreamParser, StreamSegment,
};

pub use self::emit::TURNS;

/// The protocol, TLS, with both variants.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "tls",
    ports: &[443, 8443, 993, 995, 465, 636, 853, 5671, 6697, 8883],
    tcp: true,
    udp: false,
    probe,
    start: || Box::<EncryptedConnection>::default(),
};

const FACTS: SchemaFacts = SchemaFacts {
    first: &[
        "ts",
        "client_ip",
        "sni",
        "protocol",
        "certainty",
        "response_time_ns",
        "response_bytes",
    ],
    ..SchemaFacts::NONE
};

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let measure = Some(field::RESPONSE_TIME);
    let key = Some(field::SNI);
    let doc = "turns of TLS connections, estimated without keys";
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("encrypted", 1, doc, field::FIELDS, measure, key)
    }
}

/// Recognizes a handshake, and data of a connection joined midway on a usual port, whose client is known by the port.
fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    match (tls::probe(bytes, context), context.speaker) {
        (ProbeResult::NotForUs, Some(speaker))
            if context.midstream && records::begins_data(bytes) =>
        {
            match speaker {
                Direction::ClientToServer => ProbeResult::Request,
                Direction::ServerToClient => ProbeResult::Response,
            }
        }
        (result, _) => result,
    }
}

/// A TLS connection: its handshake, and its turns if a query reads them.
#[derive(Debug, Default)]
pub struct EncryptedConnection {
    handshake: TlsConnection,
    session: Option<Box<TlsSession>>,
    /// `None`: no query reads turns. Set at the first input.
    turns: Option<Box<TurnReader>>,
    has_begun: bool,
}

impl EncryptedConnection {
    fn begin(&mut self, out: &ParserOutput<'_>) {
        if !self.has_begun {
            self.has_begun = true;
            self.turns = out.has_variant(TURNS).then(Box::default);
        }
    }

    /// Starts the turns with the session of a complete handshake.
    fn end_handshake(&mut self) {
        if let (None, Some(turns), Some(ended)) =
            (&self.session, &mut self.turns, self.handshake.ended())
        {
            let session = TlsSession::of(ended);
            turns.begin(&session);
            self.session = Some(Box::new(session));
        }
    }
}

impl StreamParser for EncryptedConnection {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.begin(out);
        self.handshake.bytes(direction, segment, out);
        self.end_handshake();
        if let Some(turns) = &mut self.turns {
            turns.bytes(direction, segment, self.session.as_deref(), out);
        }
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.begin(out);
        self.handshake.gap(direction, gap, out);
        self.end_handshake();
        if let Some(turns) = &mut self.turns {
            turns.gap(direction, gap, self.session.as_deref(), out);
        }
    }

    fn on_end(&mut self, _: Direction, _: StreamEnd, _: &mut ParserOutput<'_>) {}

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        self.handshake.close(out);
        if let Some(turns) = &mut self.turns {
            turns.close(self.session.as_deref(), out);
        }
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        self.on_close(out);
        self.turns.as_ref().is_some_and(|turns| turns.is_between())
    }

    fn on_silence(&mut self, now: Timestamp, out: &mut ParserOutput<'_>) {
        if let Some(turns) = &mut self.turns {
            turns.wake(now, self.session.as_deref(), out);
        }
    }

    fn is_done(&self) -> bool {
        self.has_begun && self.turns.is_none() && self.handshake.ended().is_some()
    }
}
