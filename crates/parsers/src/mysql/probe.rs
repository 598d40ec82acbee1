//! Recognizes MySQL by the server's greeting or, in connections joined midway, by the format of commands and
//! OK packets. One command of unmistakable format is sufficient, or two of a weaker one, or any on a usual
//! port.

use super::command::{self, is_plausible, is_sql};
use super::fields::MysqlFieldReader;
use super::login::{self, capability};
use crate::{Direction, ProbeContext, ProbeResult};

/// Maximum packets examined.
const PACKETS_MAX: usize = 16;
/// Maximum bytes to wait for in a greeting's version.
const VERSION_MAX: usize = 128;

/// Examines the first bytes of one end.
pub fn probe(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    if bytes.is_empty() {
        return ProbeResult::NeedMore;
    }
    let client = if context.speaker == Some(Direction::ServerToClient) {
        ProbeResult::NotForUs
    } else {
        of_client(bytes, context)
    };
    if client == ProbeResult::Request {
        return client;
    }
    let server = if context.speaker == Some(Direction::ClientToServer) {
        ProbeResult::NotForUs
    } else {
        of_server(bytes, context)
    };
    match (client, server) {
        (_, ProbeResult::Response) => ProbeResult::Response,
        (ProbeResult::NeedMore, _) | (_, ProbeResult::NeedMore) => ProbeResult::NeedMore,
        _ => ProbeResult::NotForUs,
    }
}

/// Evidence of a packet for MySQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MysqlEvidence {
    Against,
    /// Too few bytes.
    Open,
    Weak,
    Strong,
}

fn of_client(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    verdict(
        bytes,
        context.usual_port,
        ProbeResult::Request,
        |len, seq, payload| match seq {
            0 => command_evidence(len, payload),
            // 2: inside TLS, after the request for TLS.
            1 | 2 => login_evidence(len, payload),
            _ => MysqlEvidence::Against,
        },
    )
}

fn of_server(bytes: &[u8], context: ProbeContext) -> ProbeResult {
    verdict(
        bytes,
        context.usual_port,
        ProbeResult::Response,
        |len, seq, payload| {
            match (seq, payload.first()) {
                (_, None) => MysqlEvidence::Open,
                (0, Some(9 | 10)) => greeting_evidence(len, payload),
                // Rejected: too many connections, host blocked or not allowed.
                (0, Some(0xff)) if len > 3 && len < 512 => {
                    match MysqlFieldReader(&payload[1..]).int(2) {
                        Some(1040 | 1129 | 1130 | 1203 | 1226)
                            if context.usual_port || is_text(len, &payload[3..]) =>
                        {
                            MysqlEvidence::Strong
                        }
                        None => MysqlEvidence::Open,
                        Some(_) => MysqlEvidence::Against,
                    }
                }
                (1, Some(0)) if len == 7 => match payload {
                    // OK with few or no changed rows, plausible status, no warnings.
                    [0, 0..=0xfa, 0..=0xfa, _, 0..=0x7f, 0, 0, ..] => MysqlEvidence::Weak,
                    _ if payload.len() < 7 => MysqlEvidence::Open,
                    _ => MysqlEvidence::Against,
                },
                _ => MysqlEvidence::Against,
            }
        },
    )
}

/// Whether the rest of a packet of `len` bytes is text, and nothing follows.
fn is_text(len: usize, text: &[u8]) -> bool {
    text.len() + 3 == len && text.iter().all(|b| (b' '..0x7f).contains(b))
}

/// Adds up the evidence of packets by length, sequence number, and payload.
fn verdict(
    bytes: &[u8],
    usual_port: bool,
    yes: ProbeResult,
    evidence: impl Fn(usize, u8, &[u8]) -> MysqlEvidence,
) -> ProbeResult {
    let mut rest = bytes;
    let mut weak = 0;
    for _ in 0..PACKETS_MAX {
        let Some((header, payload)) = rest.split_at_checked(4) else {
            break;
        };
        let len = header[0] as usize | (header[1] as usize) << 8 | (header[2] as usize) << 16;
        match evidence(len, header[3], payload) {
            MysqlEvidence::Against => return ProbeResult::NotForUs,
            MysqlEvidence::Open => return ProbeResult::NeedMore,
            MysqlEvidence::Strong => return yes,
            MysqlEvidence::Weak => weak += 1,
        }
        if weak >= if usual_port { 1 } else { 2 } {
            return yes;
        }
        match payload.split_at_checked(len) {
            Some((_, next)) => rest = next,
            None => break,
        }
    }
    ProbeResult::NeedMore
}

fn command_evidence(len: usize, bytes: &[u8]) -> MysqlEvidence {
    let payload = &bytes[..len.min(bytes.len())];
    let Some(&code) = payload.first() else {
        return if len > 0 {
            MysqlEvidence::Open
        } else {
            MysqlEvidence::Against
        };
    };
    if code == 0 && is_packed(len, bytes) {
        return MysqlEvidence::Strong;
    }
    if !is_plausible(code, len as u32) {
        let undecided = code == 0
            && (8..1 << 20).contains(&len)
            && payload.len() < 9
            && payload.iter().all(|b| *b == 0);
        return if undecided {
            MysqlEvidence::Open
        } else {
            MysqlEvidence::Against
        };
    }
    let body = &payload[1..];
    match code {
        command::QUERY | command::STMT_PREPARE => {
            let sql = body.strip_prefix(b"\0\x01").unwrap_or(body);
            // PostgreSQL's Query of 17 characters begins like COM_STMT_PREPARE, but ends with a NUL.
            let clean = !sql.iter().take(64).any(|b| *b == 0);
            match () {
                () if clean && is_sql(sql) && (sql.len() >= 6 || payload.len() == len) => {
                    MysqlEvidence::Strong
                }
                () if clean && body.len() < 16 && payload.len() < len => MysqlEvidence::Open,
                () if clean
                    && sql.iter().take(16).all(|b| (b' '..0x7f).contains(b))
                    && sql.len() > 1 =>
                {
                    MysqlEvidence::Weak
                }
                () => MysqlEvidence::Against,
            }
        }
        command::STMT_EXECUTE => match body {
            // Statement, flags, iteration count 1.
            [_, _, _, 0, 0..=0x0f, 1, 0, 0, 0, ..] => MysqlEvidence::Strong,
            _ if body.len() < 9 => MysqlEvidence::Open,
            _ => MysqlEvidence::Against,
        },
        command::STMT_CLOSE | 0x1a if body.len() < 4 => MysqlEvidence::Open,
        command::STMT_CLOSE | 0x1a if body[3] != 0 => MysqlEvidence::Against,
        command::INIT_DB if len > 65 || !body.iter().all(|b| (b'!'..0x7f).contains(b)) => {
            MysqlEvidence::Against
        }
        // Too short to be evidence alone.
        _ if len <= 9 || code == command::INIT_DB => MysqlEvidence::Weak,
        _ => MysqlEvidence::Against,
    }
}

/// Whether a compressed packet holds one stored command: parsed with an uncompressed header, the inner length
/// follows three zeros.
pub fn is_packed(len: usize, payload: &[u8]) -> bool {
    let is_text = matches!(
        payload.get(7),
        Some(&(command::QUERY | command::STMT_PREPARE))
    );
    is_packed_head(len, payload) && (!is_text || is_sql(&payload[8..]))
}

/// Same, by the first bytes only.
pub fn is_packed_head(len: usize, payload: &[u8]) -> bool {
    match payload {
        [0, 0, 0, a, b, c, 0, code, ..] => {
            let inside = *a as usize | (*b as usize) << 8 | (*c as usize) << 16;
            inside + 4 == len && is_plausible(*code, inside as u32)
        }
        _ => false,
    }
}

/// Whether this is a login of 4.1: consistent capabilities and the filler's zeros.
pub fn is_login(len: usize, payload: &[u8]) -> bool {
    login_evidence(len, payload) == MysqlEvidence::Strong
}

fn login_evidence(len: usize, payload: &[u8]) -> MysqlEvidence {
    if !(32..8192).contains(&len) {
        return MysqlEvidence::Against;
    }
    let Some((head, _)) = payload.split_at_checked(28) else {
        return MysqlEvidence::Open;
    };
    let speaks_41 = MysqlFieldReader(head)
        .int(4)
        .is_some_and(|c| c & capability::PROTOCOL_41 != 0);
    if speaks_41 && head[9..].iter().all(|b| *b == 0) {
        MysqlEvidence::Strong
    } else {
        MysqlEvidence::Against
    }
}

fn greeting_evidence(len: usize, payload: &[u8]) -> MysqlEvidence {
    let version = &payload[1..];
    let numbered = version.first().is_none_or(u8::is_ascii_digit);
    if !(16..1024).contains(&len) || !numbered {
        return MysqlEvidence::Against;
    }
    match memchr::memchr(0, &version[..version.len().min(VERSION_MAX)]) {
        // After the version: thread id, scramble, and in version 10 a zero.
        Some(n) if login::is_version(&version[..n]) => match version.get(n + 13) {
            Some(0) => MysqlEvidence::Strong,
            Some(_) if payload[0] == 10 => MysqlEvidence::Against,
            _ => MysqlEvidence::Strong,
        },
        // Truncated by the capture.
        None if version.len() >= 16 && login::is_version(version) => MysqlEvidence::Strong,
        None if payload.len() < len && (version.is_empty() || login::is_version(version)) => {
            MysqlEvidence::Open
        }
        _ => MysqlEvidence::Against,
    }
}

#[cfg(test)]
mod tests {
    use wire::IpProtocol;

    use super::*;

    fn check(bytes: &[u8], usual_port: bool, expected: ProbeResult) {
        let context = ProbeContext {
            transport: IpProtocol::TCP,
            usual_port,
            midstream: true,
            speaker: None,
            answers: false,
        };
        assert_eq!(probe(bytes, context), expected, "{bytes:?}");
    }

    #[test]
    fn first_bytes() {
        check(
            b"\x43\0\0\0\x0aBEGIN\0Z\0\0\0\x05T",
            false,
            ProbeResult::NotForUs,
        );
        check(
            b"\x28\0\0\0\x0a8.0.33\0\x01\0\0\0abcdefgh\0",
            false,
            ProbeResult::Response,
        );
        check(b"\x28\0\0\0\x0a8.0", false, ProbeResult::NeedMore);
        check(
            b"\x13\0\0\0\x03SELECT 'hello' AS a",
            false,
            ProbeResult::Request,
        );
        check(b"\x13\0\0\0\x16SELECT ", false, ProbeResult::Request);
        check(b"\x09\0\0\0\x03\0\x01COMMIT", false, ProbeResult::Request);
        check(b"\x01\0\0\0\x0e", false, ProbeResult::NeedMore);
        check(b"\x01\0\0\0\x0e", true, ProbeResult::Request);
        check(b"\x01\0\0\0\x0e\x01\0\0\0\x0e", false, ProbeResult::Request);
        check(b"\x07\0\0\x01\0\0\0\x02\0\0\0", true, ProbeResult::Response);
        check(
            b"\x07\0\0\x01\0\0\0\x02\0\0\0",
            false,
            ProbeResult::NeedMore,
        );
        check(
            b"\x16\0\0\0\x17\x01\0\0\0\0\x01\0\0\0",
            false,
            ProbeResult::Request,
        );
        check(
            b"\x0d\0\0\0\0\0\0\x09\0\0\0\x03SELECT 1",
            false,
            ProbeResult::Request,
        );
        check(
            b"\x17\0\0\0\xff\x10\x04Too many connections",
            true,
            ProbeResult::Response,
        );
        check(
            b"\x51\0\0\0\x16SELECT 1 FROM t_1\0",
            false,
            ProbeResult::NotForUs,
        );
        for other in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"*1\r\n$4\r\nPING\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc",
            b"SSH-2.0-OpenSSH\r\n",
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"\0\0\0\0\0\0\0\0",
        ] {
            check(other, false, ProbeResult::NotForUs);
        }
    }
}
