//! Recognizes RESP.

use super::{commands, resp};
use crate::request_response::Cut;
use crate::{Direction, Probe, ProbeContext};

/// Maximum length of a reply or line that is evidence.
const PATIENCE: usize = 1024;

/// Recognizes an array that begins with a command name, sent only by Redis clients, and a published message,
/// sent only by Redis servers. Other messages, especially lines, also occur in other protocols and count only
/// on the usual port.
pub fn probe(bytes: &[u8], context: ProbeContext) -> Probe {
    let may_ask = context.speaker != Some(Direction::ServerToClient);
    let may_answer = context.speaker != Some(Direction::ClientToServer);
    if may_answer && resp::is_push(bytes) {
        return Probe::Response;
    }
    if may_ask {
        match (bytes.first(), resp::is_command(bytes)) {
            (None, _) | (_, None) => return Probe::NeedMore,
            // A list of strings may be a reply as well: if the direction is unknown, its name decides.
            (_, Some(true)) if context.speaker.is_some() || begins_known(bytes) => return Probe::Request,
            (_, Some(true)) if resp::cut_command(bytes) != Cut::NoMessage => return Probe::NotForUs,
            (Some(b'A'..=b'Z' | b'a'..=b'z'), _) if !context.midstream => {
                return probe_line(bytes, context.usual_port);
            }
            _ => {}
        }
    }
    if !may_answer {
        return Probe::NotForUs;
    }
    match resp::cut_reply(bytes) {
        Cut::Message { .. } | Cut::Part { .. } if context.usual_port || context.answers => Probe::Response,
        Cut::NeedMore
            if bytes.len() < PATIENCE
                && (context.usual_port || context.answers || resp::may_be_push(bytes)) =>
        {
            Probe::NeedMore
        }
        _ => Probe::NotForUs,
    }
}

/// Recognizes an inline command of Redis; for an unknown command the response decides. Other protocols have
/// similar lines: off the usual port the response always decides.
fn probe_line(bytes: &[u8], usual_port: bool) -> Probe {
    match resp::cut_command(bytes) {
        Cut::Message { head, .. } => {
            let line = bytes[..head].trim_ascii_end();
            match line.windows(7).any(|w| w == b" HTTP/1") {
                true => Probe::NotForUs,
                false if usual_port && begins_known(line) => Probe::Request,
                false if usual_port || begins_known(line) && !is_of_mail(line) => Probe::NeedMore,
                false => Probe::NotForUs,
            }
        }
        Cut::NeedMore if bytes.len() < PATIENCE => Probe::NeedMore,
        _ => Probe::NotForUs,
    }
}

/// Commands shared with POP3, whose responses resemble those of Redis.
fn is_of_mail(line: &[u8]) -> bool {
    [b"AUTH".as_slice(), b"QUIT"]
        .iter()
        .any(|name| line.get(..4).is_some_and(|l| l.eq_ignore_ascii_case(name)))
}

/// Whether the bytes begin with the name of a Redis command.
fn begins_known(bytes: &[u8]) -> bool {
    let mut room = [0; 64];
    resp::upper_name(bytes, &mut room).is_some_and(commands::is_known)
        && resp::cut_command(bytes) != Cut::NoMessage
}
