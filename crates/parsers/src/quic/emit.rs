//! Writes a handshake as a tuple.

use tuple::TupleWriter;

use super::codes;
use super::field;
use super::handshake::QuicHandshake;
use crate::tls::codes::cipher;
use crate::{Direction, ParserOutput, TupleQuality};

/// Writes a finished, failed, or unanswered handshake.
pub fn tuple(handshake: &QuicHandshake, out: &mut ParserOutput<'_>) {
    let handshake_time = handshake
        .finished
        .map(|finished| finished.since(handshake.asked.first));
    let answered = handshake.answered.filter(|_| handshake.is_asked);
    let response_time = answered.map(|answered| answered.since(handshake.asked.last));
    let times = [handshake_time, response_time];
    let is_read = handshake.hellos.server.is_some() || handshake.error.is_some();
    let quality = if !handshake.is_heard {
        TupleQuality::Half
    } else if times.iter().flatten().any(|time| *time < 0) {
        TupleQuality::Untimed
    } else if handshake.gap || !handshake.is_asked || handshake.finished.is_some() && !is_read {
        TupleQuality::GapBody
    } else {
        TupleQuality::Exact
    };
    out.emit(
        (handshake.asked.first, Some(handshake.seen)),
        quality,
        |_| true,
        |w| {
            for (id, time) in [field::HANDSHAKE_TIME, field::RESPONSE_TIME]
                .into_iter()
                .zip(times)
            {
                if let Some(time) = time.filter(|time| *time >= 0) {
                    w.i64(id, time);
                }
            }
            write(w, handshake);
        },
    );
}

fn write(w: &mut TupleWriter, handshake: &QuicHandshake) {
    w.text(field::VERSION, handshake.version.name().as_bytes());
    w.text(field::VERSION_OFFERED, handshake.offered.name().as_bytes());
    w.bool(field::EARLY_DATA, handshake.early_data);
    w.u64(field::RETRANSMISSIONS, handshake.retransmissions);
    let hellos = &handshake.hellos;
    if let Some(client) = &hellos.client {
        for (id, text) in [
            (field::SNI, &client.sni),
            (field::ALPN_OFFERED, &client.alpn),
        ] {
            if let Some(text) = text {
                w.text(id, text);
            }
        }
    }
    if handshake.is_heard {
        w.bool(field::RETRY, handshake.retry);
    }
    if let Some(server) = &hellos.server {
        w.bool(field::RESUMED, server.pre_shared_key);
        w.bool(field::HELLO_RETRY, hellos.retried);
        if let Some(code) = server.cipher.filter(|_| w.wants(field::CIPHER)) {
            match cipher(code) {
                Some(name) => w.text(field::CIPHER, name.as_bytes()),
                None => w.text(field::CIPHER, format!("0x{code:04x}").as_bytes()),
            }
        }
    }
    if let Some((by, code)) = handshake.error {
        w.text(field::ERROR, codes::error(code).as_bytes());
        let by = match by {
            Direction::ClientToServer => "client",
            Direction::ServerToClient => "server",
        };
        w.text(field::ERROR_BY, by.as_bytes());
    }
    if w.wants(field::CONNECTION_ID) {
        let id: String = handshake
            .first_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        w.text(field::CONNECTION_ID, id.as_bytes());
    }
}
