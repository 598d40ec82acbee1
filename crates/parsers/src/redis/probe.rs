//! Recognizes RESP.

use super::{commands, resp};
use crate::request_response::MessageBoundary;
use crate::{Direction, ProbeContext, ProbeResult};

/// Maximum length of a reply or line that is evidence.
const PATIENCE: usize = 1024;

/// Recognizes an array that begins with a command name, sent only by Redis clients, and a published message,
/// sent only by Redis servers. Other messages, especially lines, also occur in other protocols and count only
/// on the usual port.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let may_ask = context.speaker != Some(Direction::ServerToClient);
    let may_answer = context.speaker != Some(Direction::ClientToServer);
    if may_answer && resp::is_push(bytes) {
        return ProbeResult::Response;
    }
    if may_ask {
        match (bytes.first(), resp::is_command(bytes)) {
            (None, _) | (_, None) => return ProbeResult::NeedMore,
            // A list of strings may be a reply as well: if the direction is unknown, its name decides.
            (_, Some(true)) if context.speaker.is_some() || begins_known(bytes) => {
                return ProbeResult::Request;
            }
            (_, Some(true)) if resp::cut_command(bytes) != MessageBoundary::NoMessage => {
                return ProbeResult::NotForUs;
            }
            (Some(b'A'..=b'Z' | b'a'..=b'z'), _) if !context.midstream => {
                return probe_line(bytes, context.usual_port);
            }
            _ => {}
        }
    }
    if !may_answer {
        return ProbeResult::NotForUs;
    }
    match resp::cut_reply(bytes) {
        MessageBoundary::Message { .. } | MessageBoundary::Part { .. }
            if context.usual_port || context.answers =>
        {
            ProbeResult::Response
        }
        MessageBoundary::NeedMore
            if bytes.len() < PATIENCE
                && (context.usual_port || context.answers || resp::may_be_push(bytes)) =>
        {
            ProbeResult::NeedMore
        }
        _ => ProbeResult::NotForUs,
    }
}

/// Recognizes an inline command of Redis; for an unknown command the response decides. Other protocols have
/// similar lines: off the usual port the response always decides.
fn probe_line(bytes: &[u8], usual_port: bool) -> ProbeResult {
    match resp::cut_command(bytes) {
        MessageBoundary::Message { head, .. } => {
            let line = bytes[..head].trim_ascii_end();
            let is_known = begins_known(line);
            if line.windows(7).any(|w| w == b" HTTP/1") {
                ProbeResult::NotForUs
            } else if usual_port && is_known {
                ProbeResult::Request
            } else if usual_port || is_known && !is_of_mail(line) {
                ProbeResult::NeedMore
            } else {
                ProbeResult::NotForUs
            }
        }
        MessageBoundary::NeedMore if bytes.len() < PATIENCE => ProbeResult::NeedMore,
        _ => ProbeResult::NotForUs,
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
        && resp::cut_command(bytes) != MessageBoundary::NoMessage
}
