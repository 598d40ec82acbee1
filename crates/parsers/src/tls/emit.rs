//! Writes a handshake as a tuple.

use tuple::{FieldId, TupleWriter};

use super::codes;
use super::field;
use super::handshake::{TlsAlert, TlsHandshake};
use crate::{Direction, ParserOutput, TupleQuality};

/// Variant of [`crate::encrypted::PROTOCOL`]: every handshake.
pub const ALL: u8 = 0;

/// Writes a finished or aborted handshake. A handshake without a hello has no tuple.
pub fn tuple(handshake: &TlsHandshake, out: &mut ParserOutput<'_>) {
    let asked = handshake.asked.map(|(span, _)| span.first);
    let Some(ts) = asked.or(handshake.answered) else {
        return;
    };
    let by_server = |alert: &TlsAlert| alert.by == Direction::ServerToClient;
    let answered = handshake.answered.is_some() || handshake.alert.as_ref().is_some_and(by_server);
    let handshake_time = asked
        .zip(handshake.finished)
        .map(|(asked, finished)| finished.since(asked));
    let response_time = handshake
        .asked
        .filter(|(_, ended)| *ended)
        .zip(handshake.answered);
    let response_time = response_time.map(|((asked, _), answered)| answered.since(asked.last));
    let times = [handshake_time, response_time];
    let quality = if asked.is_none() || !answered {
        TupleQuality::Half
    } else if times.iter().flatten().any(|time| *time < 0) {
        TupleQuality::Untimed
    } else if handshake.gap {
        TupleQuality::GapBody
    } else {
        TupleQuality::Exact
    };
    out.emit(
        (ts, None),
        quality,
        |variant| variant == ALL,
        |w| {
            let [handshake_time, response_time] = times.map(|time| time.filter(|time| *time >= 0));
            time(w, field::HANDSHAKE_TIME, handshake_time);
            time(w, field::RESPONSE_TIME, response_time);
            write(w, handshake);
        },
    );
}

fn write(w: &mut TupleWriter, handshake: &TlsHandshake) {
    if let Some(client) = &handshake.client {
        text(w, field::SNI, client.sni.as_deref());
        text(w, field::ALPN_OFFERED, client.alpn.as_deref());
        version(w, field::VERSION_OFFERED, client.version);
    }
    if let Some(server) = &handshake.server {
        version(w, field::VERSION, server.version);
        if let Some(cipher) = server.cipher.filter(|_| w.wants(field::CIPHER)) {
            match codes::cipher(cipher) {
                Some(name) => w.text(field::CIPHER, name.as_bytes()),
                None => w.text(field::CIPHER, format!("0x{cipher:04x}").as_bytes()),
            }
        }
        text(w, field::ALPN, server.alpn.as_deref());
    }
    if handshake.server.is_some() || handshake.retried {
        w.bool(field::HELLO_RETRY, handshake.retried);
    }
    flag(w, field::RESUMED, handshake.resumed);
    flag(w, field::CLIENT_CERTIFICATE, handshake.client_certificate);
    let certificate = &handshake.certificate;
    text(
        w,
        field::CERTIFICATE_SUBJECT,
        certificate.subject.as_deref(),
    );
    text(w, field::CERTIFICATE_NAMES, certificate.names.as_deref());
    text(w, field::CERTIFICATE_ISSUER, certificate.issuer.as_deref());
    time(w, field::CERTIFICATE_NOT_AFTER, certificate.not_after);
    if let Some(alert) = handshake.alert {
        write_alert(w, alert);
    }
}

fn write_alert(w: &mut TupleWriter, alert: TlsAlert) {
    w.text(
        field::ALERT_BY,
        if alert.by == Direction::ClientToServer {
            b"client"
        } else {
            b"server"
        },
    );
    let Some((level, description)) = alert.what else {
        return w.text(field::ALERT, b"encrypted");
    };
    match codes::alert(description) {
        Some(name) => w.text(field::ALERT, name.as_bytes()),
        None => w.text(field::ALERT, description.to_string().as_bytes()),
    }
    match level {
        1 => w.text(field::ALERT_LEVEL, b"warning"),
        2 => w.text(field::ALERT_LEVEL, b"fatal"),
        _ => {}
    }
}

fn version(w: &mut TupleWriter, id: FieldId, version: Option<u16>) {
    let Some(version) = version else { return };
    match codes::version(version) {
        Some(name) => w.text(id, name.as_bytes()),
        None => w.text(id, format!("0x{version:04x}").as_bytes()),
    }
}

fn text(w: &mut TupleWriter, id: FieldId, text: Option<&[u8]>) {
    if let Some(text) = text {
        w.text(id, text);
    }
}

fn flag(w: &mut TupleWriter, id: FieldId, flag: Option<bool>) {
    if let Some(flag) = flag {
        w.bool(id, flag);
    }
}

fn time(w: &mut TupleWriter, id: FieldId, time: Option<i64>) {
    if let Some(time) = time {
        w.i64(id, time);
    }
}
