//! HTTP/1 message bodies (RFC 9112 sections 6 and 7): how many of the next bytes belong to the body.
//!
//! Content is skipped by length; only chunk-size lines and trailer lines are parsed. Independent of segment
//! boundaries. After an invalid chunk size, or one above 64 bits, the rest of the stream is body.

use memchr::memchr;

/// Remaining part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpBody {
    /// Remaining bytes; 0: the body is complete.
    Length(u64),
    /// Chunked coding.
    Chunked(HttpChunkState),
    /// Everything until the connection ends.
    UntilEnd,
}

/// Position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpChunkState {
    /// In the digits of a chunk size: value so far, number of digits.
    Size(u64, u8),
    /// After the digits, up to the line end; holds the size.
    Extension(u64),
    /// In a chunk: remaining bytes, at least one.
    Data(u64),
    /// In the line end after a chunk.
    DataEnd,
    /// In the trailer section; whether the current line has any content.
    Trailer(bool),
}

/// Result of [`HttpBody::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpBodyProgress {
    /// Bytes that belong to the body.
    pub used: usize,
    /// Whether the body is complete.
    pub done: bool,
    /// Whether the chunked coding is invalid.
    pub malformed: bool,
}

/// Effect of a gap on a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpBodySkip {
    /// The gap lies inside the body.
    Inside,
    /// The gap and the body end together.
    Ended,
    /// The body ended this many bytes before the end of the gap.
    EndedInside(u64),
    /// The end of the body is unknown.
    Lost,
}

impl HttpBody {
    /// A chunked body, before its first byte.
    pub const CHUNKED: HttpBody = HttpBody::Chunked(HttpChunkState::Size(0, 0));

    /// Consumes the next bytes.
    pub fn advance(&mut self, bytes: &[u8]) -> HttpBodyProgress {
        match self {
            HttpBody::Length(left) => {
                let used = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                *left -= used as u64;
                HttpBodyProgress {
                    used,
                    done: *left == 0,
                    malformed: false,
                }
            }
            HttpBody::UntilEnd => HttpBodyProgress {
                used: bytes.len(),
                done: false,
                malformed: false,
            },
            HttpBody::Chunked(chunk) => match chunk.advance(bytes) {
                Some((used, done)) => HttpBodyProgress {
                    used,
                    done,
                    malformed: false,
                },
                None => {
                    *self = HttpBody::UntilEnd;
                    HttpBodyProgress {
                        used: bytes.len(),
                        done: false,
                        malformed: true,
                    }
                }
            },
        }
    }

    /// Skips `len` missing bytes.
    pub fn skip(&mut self, len: u64) -> HttpBodySkip {
        match self {
            HttpBody::Length(left) if *left > len => {
                *left -= len;
                HttpBodySkip::Inside
            }
            HttpBody::Length(left) if *left == len => HttpBodySkip::Ended,
            HttpBody::Length(left) => HttpBodySkip::EndedInside(len - *left),
            HttpBody::UntilEnd => HttpBodySkip::Inside,
            HttpBody::Chunked(HttpChunkState::Data(left)) if *left > len => {
                *left -= len;
                HttpBodySkip::Inside
            }
            HttpBody::Chunked(chunk @ HttpChunkState::Data(_))
                if *chunk == HttpChunkState::Data(len) =>
            {
                *chunk = HttpChunkState::DataEnd;
                HttpBodySkip::Inside
            }
            HttpBody::Chunked(_) => HttpBodySkip::Lost,
        }
    }
}

impl HttpChunkState {
    /// Returns the bytes consumed, and whether the body is complete; `None`: invalid.
    fn advance(&mut self, bytes: &[u8]) -> Option<(usize, bool)> {
        let mut at = 0;
        while let Some(&b) = bytes.get(at) {
            match *self {
                HttpChunkState::Data(left) => {
                    let used = usize::try_from(left)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len() - at);
                    at += used;
                    let left = left - used as u64;
                    *self = if left == 0 {
                        HttpChunkState::DataEnd
                    } else {
                        HttpChunkState::Data(left)
                    };
                    continue;
                }
                HttpChunkState::Size(n, digits) => *self = size(n, digits, b)?,
                HttpChunkState::Extension(n) => match memchr(b'\n', &bytes[at..]) {
                    Some(nl) => {
                        at += nl;
                        *self = if n == 0 {
                            HttpChunkState::Trailer(false)
                        } else {
                            HttpChunkState::Data(n)
                        };
                    }
                    None => return Some((bytes.len(), false)),
                },
                HttpChunkState::DataEnd => match b {
                    b'\r' => {}
                    b'\n' => *self = HttpChunkState::Size(0, 0),
                    _ => return None,
                },
                HttpChunkState::Trailer(content) => match (b, content) {
                    (b'\n', false) => return Some((at + 1, true)),
                    (b'\n', true) => *self = HttpChunkState::Trailer(false),
                    (b'\r', _) => {}
                    _ => match memchr(b'\n', &bytes[at..]) {
                        Some(nl) => {
                            at += nl;
                            *self = HttpChunkState::Trailer(false);
                        }
                        None => {
                            *self = HttpChunkState::Trailer(true);
                            return Some((bytes.len(), false));
                        }
                    },
                },
            }
            at += 1;
        }
        Some((at, false))
    }
}

/// Handles the next byte of a chunk-size line.
fn size(n: u64, digits: u8, b: u8) -> Option<HttpChunkState> {
    if let Some(d) = char::from(b).to_digit(16) {
        let n = n.checked_mul(16)?.checked_add(u64::from(d))?;
        return Some(HttpChunkState::Size(n, digits.saturating_add(1)));
    }
    match b {
        b' ' | b'\t' if digits == 0 => Some(HttpChunkState::Size(0, 0)),
        _ if digits == 0 => None,
        b'\n' if n == 0 => Some(HttpChunkState::Trailer(false)),
        b'\n' => Some(HttpChunkState::Data(n)),
        b';' | b'\r' | b' ' | b'\t' => Some(HttpChunkState::Extension(n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consumes `bytes` in pieces of `n`; returns the bytes used at the end of the body.
    fn feed(bytes: &[u8], n: usize) -> (usize, bool, bool) {
        let mut body = HttpBody::CHUNKED;
        let mut used = 0;
        let mut malformed = false;
        for piece in bytes.chunks(n) {
            let a = body.advance(piece);
            used += a.used;
            malformed |= a.malformed;
            if a.done {
                return (used, true, malformed);
            }
        }
        (used, false, malformed)
    }

    fn check(bytes: &str, rest: usize, done: bool, malformed: bool) {
        for n in 1..=bytes.len() {
            assert_eq!(
                feed(bytes.as_bytes(), n),
                (bytes.len() - rest, done, malformed),
                "{bytes:?} by {n}"
            );
        }
    }

    #[test]
    fn chunks() {
        check("0\r\n\r\nGET", 3, true, false);
        check("5\r\nhello\r\n0\r\n\r\n", 0, true, false);
        check(
            "5;a=\"b\"\r\nhello\r\n00\r\nTrailer: 1\r\nT: 2\r\n\r\nx",
            1,
            true,
            false,
        );
        check("1\nx\n0\n\n", 0, true, false);
        check(" A \r\n0123456789\r\n0 ;x\r\n\r\n", 0, true, false);
        check(
            "10000000000000000\r\nGET / HTTP/1.1\r\n\r\n",
            0,
            false,
            true,
        );
        check("ffffffffffffffff\r\nabc", 0, false, false);
        check("5\r\nhelloX", 0, false, true);
        check("\r\n", 0, false, true);
        check("0x5\r\nhello", 0, false, true);
        check("-1\r\n", 0, false, true);
    }

    #[test]
    fn gaps() {
        let mut body = HttpBody::Length(10);
        assert_eq!(body.skip(4), HttpBodySkip::Inside);
        assert_eq!(body, HttpBody::Length(6));
        assert_eq!(body.skip(6), HttpBodySkip::Ended);
        assert_eq!(body.skip(9), HttpBodySkip::EndedInside(3));
        let mut body = HttpBody::Chunked(HttpChunkState::Data(5));
        assert_eq!(body.skip(5), HttpBodySkip::Inside);
        assert_eq!(body, HttpBody::Chunked(HttpChunkState::DataEnd));
        assert_eq!(body.skip(1), HttpBodySkip::Lost);
        assert_eq!(
            HttpBody::Chunked(HttpChunkState::Data(5)).skip(6),
            HttpBodySkip::Lost
        );
        assert_eq!(HttpBody::UntilEnd.skip(u64::MAX), HttpBodySkip::Inside);
    }
}
