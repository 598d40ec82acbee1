//! Recognizes HTTP/1 by the first bytes of one end.

use memchr::memchr;

use super::head;
use crate::{Direction, ProbeContext, ProbeResult};

/// Length at which an incomplete request line is sufficient if all else matches.
const LONG_LINE_BYTES: usize = 512;

/// Recognizes a request line or a status line. The HTTP/2 preface and protocols with the same format have
/// another version.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    let blank = bytes.iter().take_while(|b| b"\r\n".contains(b)).count();
    let bytes = &bytes[blank..];
    if bytes.is_empty() {
        return ProbeResult::NeedMore;
    }
    let line = memchr(b'\n', bytes).map(|nl| (head::without_cr(&bytes[..nl]), &bytes[nl + 1..]));
    if b"HTTP/1.".starts_with(&bytes[..bytes.len().min(7)]) {
        return match line {
            Some((line, _)) if head::status_line(line).is_some() => ProbeResult::Response,
            None if head::begins_response(bytes) => ProbeResult::NeedMore,
            _ => ProbeResult::NotForUs,
        };
    }
    match line {
        Some((line, rest)) => match head::request_line(line) {
            Some(l) => match l.version {
                // Midway, this may be the end of something else.
                Some(_) if context.midstream && !head::is_plausible_request(line, false) => {
                    ProbeResult::NotForUs
                }
                Some(version) if version[0] == b'1' => ProbeResult::Request,
                Some(_) => ProbeResult::NotForUs,
                None => without_version(&l, rest, context),
            },
            None => ProbeResult::NotForUs,
        },
        None => without_end(bytes),
    }
}

/// A request line without a version: HTTP/0.9, or an invalid client that continues with fields.
fn without_version(
    line: &head::RequestLine<'_>,
    rest: &[u8],
    context: ProbeContext,
) -> ProbeResult {
    match memchr(b'\n', rest) {
        Some(nl) if head::is_field(&rest[..nl]) => ProbeResult::Request,
        Some(0 | 1) | None if is_simple(line) && context.usual_port && !context.midstream => {
            match context.speaker {
                Some(Direction::ServerToClient) => ProbeResult::NotForUs,
                _ => ProbeResult::Request,
            }
        }
        _ => ProbeResult::NotForUs,
    }
}

/// An HTTP/0.9 request: `GET /path` and nothing else.
pub fn is_simple(line: &head::RequestLine<'_>) -> bool {
    line.version.is_none() && line.method == b"GET" && line.target.starts_with(b"/")
}

fn without_end(bytes: &[u8]) -> ProbeResult {
    if !head::begins_request(bytes) {
        return ProbeResult::NotForUs;
    }
    let sure = bytes.len() >= LONG_LINE_BYTES && head::is_plausible_request(bytes, true);
    if sure {
        ProbeResult::Request
    } else {
        ProbeResult::NeedMore
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: ProbeResult) {
        let context = ProbeContext {
            transport: wire::IpProtocol::TCP,
            usual_port: true,
            midstream: false,
            speaker: None,
            answers: false,
        };
        assert_eq!(probe(bytes, context), expected, "{}", bytes.escape_ascii());
        if matches!(expected, ProbeResult::Request | ProbeResult::Response) {
            for n in 0..bytes.len() {
                assert_ne!(
                    probe(&bytes[..n], context),
                    ProbeResult::NotForUs,
                    "{}",
                    bytes[..n].escape_ascii()
                );
            }
        }
    }

    #[test]
    fn first_bytes() {
        check(b"GET / HTTP/1.1\r\n", ProbeResult::Request);
        check(b"\r\n\r\nPOST /a HTTP/1.0\r\n", ProbeResult::Request);
        check(b"BREW /pot HTTP/1.1\n", ProbeResult::Request);
        check(b"CONNECT h:443 HTTP/1.1\r\n", ProbeResult::Request);
        check(b"GET /HTTP/1.1\nHost: h\n", ProbeResult::Request);
        check(b"GET /page\r\n", ProbeResult::Request);
        check(b"HTTP/1.1 200 OK\r\n", ProbeResult::Response);
        check(b"HTTP/1.0 404\r\n", ProbeResult::Response);
        check(b"GET /", ProbeResult::NeedMore);
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ProbeResult::NotForUs);
        check(b"OPTIONS rtsp://h/ RTSP/1.0\r\n", ProbeResult::NotForUs);
        check(b"get key\r\n", ProbeResult::NotForUs);
        check(b"GET key\r\n", ProbeResult::NotForUs);
        check(b"HTTP/2 200\r\n", ProbeResult::NotForUs);
        check(b"\x16\x03\x01\x02\x00", ProbeResult::NotForUs);
        check(b"SSH-2.0-OpenSSH_9\r\n", ProbeResult::NotForUs);
        check(b"*1\r\n$4\r\nPING\r\n", ProbeResult::NotForUs);
        let long = [b"GET /".as_slice(), &[b'a'; 600]].concat();
        check(&long, ProbeResult::Request);
    }
}
