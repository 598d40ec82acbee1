//! Writes turns as tuples.

use tuple::TupleWriter;

use super::field;
use super::session::{ApplicationProtocol, TlsSession};
use super::turns::{Turn, TurnSide};
use crate::tls::codes;
use crate::{ParserOutput, TupleQuality};

/// Variant of [`super::PROTOCOL`]: every turn. The other one is [`crate::tls::ALL`].
pub const TURNS: u8 = 1;

/// Reliability of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnCertainty {
    Turn,
    Burst,
    Overlap,
    Push,
}

impl TurnCertainty {
    fn of(turn: &Turn) -> TurnCertainty {
        if turn.client.is_none() {
            TurnCertainty::Push
        } else if turn.overlaps {
            TurnCertainty::Overlap
        } else if turn.is_burst() {
            TurnCertainty::Burst
        } else {
            TurnCertainty::Turn
        }
    }

    fn name(self) -> &'static str {
        match self {
            TurnCertainty::Turn => "turn",
            TurnCertainty::Burst => "burst",
            TurnCertainty::Overlap => "overlap",
            TurnCertainty::Push => "push",
        }
    }
}

/// Writes a turn. `is_first`: it is the first one of the connection.
pub fn tuple(
    turn: &Turn,
    session: Option<&TlsSession>,
    protocol: Option<ApplicationProtocol>,
    is_first: bool,
    out: &mut ParserOutput<'_>,
) {
    let sides = [turn.client, turn.server];
    let Some(begun) = turn.client.or(turn.server) else {
        return;
    };
    let certainty = TurnCertainty::of(turn);
    let is_timed = sides.iter().flatten().all(|side| side.is_timed)
        && turn.client.is_none_or(|client| !client.is_cut);
    let is_cut = turn.server.is_some_and(|server| server.is_cut);
    let times = turn
        .client
        .zip(turn.server)
        .filter(|_| is_timed)
        .map(|(client, server)| times(client, server));
    let is_ordered = times.is_none_or(|times| times.iter().all(|time| *time >= 0));
    let times = times.filter(|_| is_ordered);
    let midway = session.is_none_or(|session| !session.is_from_start);
    let quality = if turn.server.is_none() || !is_timed {
        TupleQuality::Half
    } else if !is_ordered {
        TupleQuality::Untimed
    } else if sides
        .iter()
        .flatten()
        .any(|side| side.has_gap || side.is_cut)
    {
        TupleQuality::GapBody
    } else if is_first && midway {
        TupleQuality::Midstream
    } else {
        TupleQuality::Exact
    };
    let end = turn.server.map_or(begun.last, |server| server.last);
    out.request = turn.client.map(|client| client.start);
    out.emit(
        (begun.first, Some(end)),
        quality,
        |variant| variant == TURNS,
        |w| {
            write_session(w, session, protocol);
            w.text(field::CERTAINTY, certainty.name().as_bytes());
            if let Some(client) = turn.client {
                w.u64(field::REQUEST_BYTES, client.bytes);
                w.u64(field::REQUEST_RECORDS, client.records);
            }
            if let Some(server) = turn.server {
                w.u64(field::RESPONSE_BYTES, server.bytes);
                w.u64(field::RESPONSE_RECORDS, server.records);
            }
            if let Some(think) = turn.think_ns {
                w.i64(field::THINK_TIME, think);
            }
            match times {
                Some([response, transfer]) if certainty == TurnCertainty::Turn => {
                    w.i64(field::RESPONSE_TIME, response);
                    if !is_cut {
                        w.i64(field::TRANSFER_TIME, transfer);
                        w.i64(field::TOTAL_TIME, response + transfer);
                    }
                }
                Some([response, _]) => w.i64(field::UNCERTAIN_TIME, response),
                None => {}
            }
        },
    );
    out.request = None;
}

/// Response and transfer time; negative if the packets' times contradict the order.
fn times(client: TurnSide, server: TurnSide) -> [i64; 2] {
    [
        server.first.since(client.last),
        server.last.since(server.first),
    ]
}

fn write_session(
    w: &mut TupleWriter,
    session: Option<&TlsSession>,
    protocol: Option<ApplicationProtocol>,
) {
    if let Some(session) = session {
        if let Some(sni) = &session.sni {
            w.text(field::SNI, sni);
        }
        match session
            .version
            .map(|version| (version, codes::version(version)))
        {
            Some((_, Some(name))) => w.text(field::VERSION, name.as_bytes()),
            Some((version, None)) => w.text(field::VERSION, format!("0x{version:04x}").as_bytes()),
            None => {}
        }
    }
    let alpn = session.and_then(|session| session.alpn.as_deref());
    match (alpn, protocol) {
        (Some(alpn), _) => w.text(field::PROTOCOL, alpn),
        (None, Some(ApplicationProtocol::Http2)) => w.text(field::PROTOCOL, b"h2"),
        (None, Some(ApplicationProtocol::Http1)) => w.text(field::PROTOCOL, b"http/1.1"),
        (None, _) => {}
    }
}
