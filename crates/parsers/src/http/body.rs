//! HTTP/1 message bodies (RFC 9112 sections 6 and 7): how many of the next bytes belong to the body.
//!
//! Content is skipped by length; only chunk-size lines and trailer lines are parsed. Independent of segment
//! boundaries. After an invalid chunk size, or one above 64 bits, the rest of the stream is body.

use memchr::memchr;

/// Remaining part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Remaining bytes; 0: the body is complete.
    Length(u64),
    /// Chunked coding.
    Chunked(Chunk),
    /// Everything until the connection ends.
    UntilEnd,
}

/// Position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
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

/// Result of [`Body::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Bytes that belong to the body.
    pub used: usize,
    /// Whether the body is complete.
    pub done: bool,
    /// Whether the chunked coding is invalid.
    pub malformed: bool,
}

/// Effect of a gap on a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The gap lies inside the body.
    Inside,
    /// The gap and the body end together.
    Ended,
    /// The body ended this many bytes before the end of the gap.
    EndedInside(u64),
    /// The end of the body is unknown.
    Lost,
}

impl Body {
    /// A chunked body, before its first byte.
    pub const CHUNKED: Body = Body::Chunked(Chunk::Size(0, 0));

    /// Consumes the next bytes.
    pub fn advance(&mut self, bytes: &[u8]) -> Advance {
        match self {
            Body::Length(left) => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= used as u64;
                Advance { used, done: *left == 0, malformed: false }
            }
            Body::UntilEnd => Advance { used: bytes.len(), done: false, malformed: false },
            Body::Chunked(chunk) => match chunk.advance(bytes) {
                Some((used, done)) => Advance { used, done, malformed: false },
                None => {
                    *self = Body::UntilEnd;
                    Advance { used: bytes.len(), done: false, malformed: true }
                }
            },
        }
    }

    /// Skips `len` missing bytes.
    pub fn skip(&mut self, len: u64) -> Skip {
        match self {
            Body::Length(left) if *left > len => {
                *left -= len;
                Skip::Inside
            }
            Body::Length(left) if *left == len => Skip::Ended,
            Body::Length(left) => Skip::EndedInside(len - *left),
            Body::UntilEnd => Skip::Inside,
            Body::Chunked(Chunk::Data(left)) if *left > len => {
                *left -= len;
                Skip::Inside
            }
            Body::Chunked(chunk @ Chunk::Data(_)) if *chunk == Chunk::Data(len) => {
                *chunk = Chunk::DataEnd;
                Skip::Inside
            }
            Body::Chunked(_) => Skip::Lost,
        }
    }
}

impl Chunk {
    /// Returns the bytes consumed, and whether the body is complete; `None`: invalid.
    fn advance(&mut self, bytes: &[u8]) -> Option<(usize, bool)> {
        let mut at = 0;
        while let Some(&b) = bytes.get(at) {
            match *self {
                Chunk::Data(left) => {
                    let used = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    at += used;
                    let left = left - used as u64;
                    *self = if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) };
                    continue;
                }
                Chunk::Size(n, digits) => *self = size(n, digits, b)?,
                Chunk::Extension(n) => match memchr(b'\n', &bytes[at..]) {
                    Some(nl) => {
                        at += nl;
                        *self = if n == 0 { Chunk::Trailer(false) } else { Chunk::Data(n) };
                    }
                    None => return Some((bytes.len(), false)),
                },
                Chunk::DataEnd => match b {
                    b'\r' => {}
                    b'\n' => *self = Chunk::Size(0, 0),
                    _ => return None,
                },
                Chunk::Trailer(content) => match (b, content) {
                    (b'\n', false) => return Some((at + 1, true)),
                    (b'\n', true) => *self = Chunk::Trailer(false),
                    (b'\r', _) => {}
                    _ => match memchr(b'\n', &bytes[at..]) {
                        Some(nl) => {
                            at += nl;
                            *self = Chunk::Trailer(false);
                        }
                        None => {
                            *self = Chunk::Trailer(true);
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
fn size(n: u64, digits: u8, b: u8) -> Option<Chunk> {
    if let Some(d) = char::from(b).to_digit(16) {
        let n = n.checked_mul(16)?.checked_add(u64::from(d))?;
        return Some(Chunk::Size(n, digits.saturating_add(1)));
    }
    match b {
        b' ' | b'\t' if digits == 0 => Some(Chunk::Size(0, 0)),
        _ if digits == 0 => None,
        b'\n' if n == 0 => Some(Chunk::Trailer(false)),
        b'\n' => Some(Chunk::Data(n)),
        b';' | b'\r' | b' ' | b'\t' => Some(Chunk::Extension(n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consumes `bytes` in pieces of `n`; returns the bytes used at the end of the body.
    fn feed(bytes: &[u8], n: usize) -> (usize, bool, bool) {
        let (mut body, mut used, mut malformed) = (Body::CHUNKED, 0, false);
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
            assert_eq!(feed(bytes.as_bytes(), n), (bytes.len() - rest, done, malformed), "{bytes:?} by {n}");
        }
    }

    #[test]
    fn chunks() {
        check("0\r\n\r\nGET", 3, true, false);
        check("5\r\nhello\r\n0\r\n\r\n", 0, true, false);
        check("5;a=\"b\"\r\nhello\r\n00\r\nTrailer: 1\r\nT: 2\r\n\r\nx", 1, true, false);
        check("1\nx\n0\n\n", 0, true, false);
        check(" A \r\n0123456789\r\n0 ;x\r\n\r\n", 0, true, false);
        check("10000000000000000\r\nGET / HTTP/1.1\r\n\r\n", 0, false, true);
        check("ffffffffffffffff\r\nabc", 0, false, false);
        check("5\r\nhelloX", 0, false, true);
        check("\r\n", 0, false, true);
        check("0x5\r\nhello", 0, false, true);
        check("-1\r\n", 0, false, true);
    }

    #[test]
    fn gaps() {
        let mut body = Body::Length(10);
        assert_eq!(body.skip(4), Skip::Inside);
        assert_eq!(body, Body::Length(6));
        assert_eq!(body.skip(6), Skip::Ended);
        assert_eq!(body.skip(9), Skip::EndedInside(3));
        let mut body = Body::Chunked(Chunk::Data(5));
        assert_eq!(body.skip(5), Skip::Inside);
        assert_eq!(body, Body::Chunked(Chunk::DataEnd));
        assert_eq!(body.skip(1), Skip::Lost);
        assert_eq!(Body::Chunked(Chunk::Data(5)).skip(6), Skip::Lost);
        assert_eq!(Body::UntilEnd.skip(u64::MAX), Skip::Inside);
    }
}
