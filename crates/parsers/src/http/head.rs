//! HTTP/1 message heads (RFC 9112): start lines, the few relevant header fields, and the end of the head.
//!
//! Reads borrowed bytes once and copies nothing; of an irrelevant field it reads only the first letter. It
//! accepts common deviations: bare LF, spaces before the colon, repeated fields (the first counts), unknown
//! lines. Folded fields (obs-fold) are reported; the caller calls [`unfold`] and parses again. Bodies are
//! described only as far as header fields do.

use memchr::memchr;

use super::lines::LineFeeds;

/// Maximum length of a method.
const METHOD_BYTES_MAX: usize = 32;
/// Methods by which a request is recognized in the middle of a byte stream.
const KNOWN_METHODS: [&[u8]; 16] = [
    b"GET",
    b"POST",
    b"PUT",
    b"HEAD",
    b"DELETE",
    b"OPTIONS",
    b"PATCH",
    b"CONNECT",
    b"TRACE",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"REPORT",
];

/// HTTP version, for example `1.1`.
pub type HttpVersion = [u8; 3];

/// Request line, for example `GET /path HTTP/1.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    /// `None`: no version in the line, as in HTTP/0.9.
    pub version: Option<HttpVersion>,
}

/// Body length as stated by the header fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpFraming {
    pub content_length: Option<u64>,
    /// An invalid Content-Length, or several that differ.
    pub bad_length: bool,
    pub coding: TransferCoding,
}

/// Value of Transfer-Encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferCoding {
    #[default]
    None,
    /// `chunked` is the final coding.
    Chunked,
    /// Any other final coding.
    Other,
}

/// Relevant parts of a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead<'a> {
    pub line: RequestLine<'a>,
    pub host: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    pub framing: HttpFraming,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
}

/// Relevant parts of a response's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    pub version: HttpVersion,
    pub status: u16,
    pub content_type: Option<&'a [u8]>,
    pub framing: HttpFraming,
}

/// Result of parsing the bytes of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadParseResult<H> {
    /// The complete head of `len` bytes.
    Complete { head: H, len: usize, folded: bool },
    /// Incomplete; `None` if the bytes end in the start line.
    Partial(Option<H>),
    /// Not a head.
    Invalid,
}

/// Kinds of header fields, as bits. Fields that determine the end of the message are always read, the others
/// on demand.
pub mod kind {
    /// Host.
    pub const HOST: u8 = 1;
    /// User-Agent.
    pub const USER_AGENT: u8 = 2;
    /// Content-Type.
    pub const CONTENT_TYPE: u8 = 4;
    /// Expect.
    pub(super) const EXPECT: u8 = 8;
    /// Content-Length and Transfer-Encoding.
    pub(super) const FRAMING: u8 = 16;
    /// The line continues the previous field.
    pub(super) const FOLDED: u8 = 32;
    /// Possibly the empty line.
    pub(super) const END: u8 = 64;
}

/// Possible kinds of a line by its first byte.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut b = 0;
    while b < 256 {
        kinds[b] = match b as u8 {
            b'h' | b'H' => kind::HOST,
            b'u' | b'U' => kind::USER_AGENT,
            b'c' | b'C' => kind::CONTENT_TYPE | kind::FRAMING,
            b'e' | b'E' => kind::EXPECT,
            b't' | b'T' => kind::FRAMING,
            b' ' | b'\t' => kind::FOLDED,
            b'\r' | b'\n' => kind::END,
            _ => 0,
        };
        b += 1;
    }
    kinds
};

/// Parses a request's head, with the `wanted` kinds of fields.
#[inline(always)]
pub fn request(bytes: &[u8], wanted: u8) -> HeadParseResult<RequestHead<'_>> {
    let mut feeds = LineFeeds::new(bytes);
    let Some(nl) = feeds.next() else {
        return without_line(begins_request(bytes));
    };
    let Some(line) = request_line(without_cr(&bytes[..nl])) else {
        return HeadParseResult::Invalid;
    };
    let mut head = RequestHead {
        line,
        host: None,
        user_agent: None,
        framing: HttpFraming::default(),
        expects_continue: false,
    };
    let wanted = wanted & (kind::HOST | kind::USER_AGENT) | kind::EXPECT | kind::FRAMING;
    let end = fields(bytes, nl, feeds, wanted, |kinds, line| match kinds {
        kind::HOST => keep_first(&mut head.host, value(line, b"Host")),
        kind::USER_AGENT => keep_first(&mut head.user_agent, value(line, b"User-Agent")),
        kind::EXPECT => {
            head.expects_continue |=
                value(line, b"Expect").is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue"));
        }
        _ => head.framing.field(line),
    });
    ended(head, end)
}

/// Parses a response's head, with the `wanted` kinds of fields.
#[inline(always)]
pub fn response(bytes: &[u8], wanted: u8) -> HeadParseResult<ResponseHead<'_>> {
    let mut feeds = LineFeeds::new(bytes);
    let Some(nl) = feeds.next() else {
        return without_line(begins_response(bytes));
    };
    let Some((version, status)) = status_line(without_cr(&bytes[..nl])) else {
        return HeadParseResult::Invalid;
    };
    let mut head = ResponseHead {
        version,
        status,
        content_type: None,
        framing: HttpFraming::default(),
    };
    let wanted = wanted & kind::CONTENT_TYPE | kind::FRAMING;
    let end = fields(bytes, nl, feeds, wanted, |kinds, line| {
        if kinds & kind::CONTENT_TYPE != 0
            && begins_with(line, b"content-")
            && let Some(v) = value(line, b"Content-Type")
        {
            keep_first(&mut head.content_type, Some(v));
        } else {
            head.framing.field(line);
        }
    });
    ended(head, end)
}

/// Parses a request line without its line end. The version may be missing (HTTP/0.9, or an invalid client); a
/// target with blanks is accepted if a version ends the line.
pub fn request_line(line: &[u8]) -> Option<RequestLine<'_>> {
    let blank = match line {
        [b'G', b'E', b'T', b' ', ..] => 3,
        [b'P', b'O', b'S', b'T', b' ', ..] => 4,
        _ => method_end(line)?,
    };
    let method = &line[..blank];
    let rest = &line[blank + 1..];
    if let Some((target, version)) = rest
        .len()
        .checked_sub(9)
        .and_then(|at| Some((&rest[..at], version(&rest[at..])?)))
    {
        return (!target.is_empty()).then_some(RequestLine {
            method,
            target,
            version: Some(version),
        });
    }
    let plain = !rest.is_empty()
        && memchr(b' ', rest).is_none()
        && method
            .iter()
            .all(|b| b.is_ascii_uppercase() || b"-_".contains(b));
    plain.then_some(RequestLine {
        method,
        target: rest,
        version: None,
    })
}

fn method_end(line: &[u8]) -> Option<usize> {
    let end = memchr(b' ', &line[..line.len().min(METHOD_BYTES_MAX + 1)])?;
    (end > 0 && line[..end].iter().all(|b| is_token(*b))).then_some(end)
}

/// Parses a status line.
pub fn status_line(line: &[u8]) -> Option<(HttpVersion, u16)> {
    let (start, after) = line.split_first_chunk::<12>()?;
    let [b'H', b'T', b'T', b'P', b'/', version @ .., b' ', a, b, c] = start else {
        return None;
    };
    let version = digits(version)?;
    if !(matches!(a, b'1'..=b'9')
        && b.is_ascii_digit()
        && c.is_ascii_digit()
        && matches!(after, [] | [b' ', ..]))
    {
        return None;
    }
    Some((
        version,
        u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'),
    ))
}

/// Whether these bytes, which contain no line end, may be the start of a request line.
pub fn begins_request(bytes: &[u8]) -> bool {
    match memchr(b' ', &bytes[..bytes.len().min(METHOD_BYTES_MAX + 1)]) {
        Some(0) => false,
        Some(at) => {
            bytes[..at].iter().all(|b| is_token(*b))
                && bytes[at..]
                    .iter()
                    .take(256)
                    .all(|b| *b >= b' ' && *b != 0x7f || *b == b'\r')
        }
        None => bytes.len() <= METHOD_BYTES_MAX && bytes.iter().all(|b| is_token(*b)),
    }
}

/// Whether these bytes, which contain no line end, may be the start of a status line.
pub fn begins_response(bytes: &[u8]) -> bool {
    const SHAPE: &[u8] = b"HTTP/1.1 200";
    bytes.iter().zip(SHAPE).all(|(b, s)| {
        if s.is_ascii_digit() {
            b.is_ascii_digit()
        } else {
            b == s
        }
    }) && bytes.get(SHAPE.len()).is_none_or(|b| b" \r".contains(b))
}

/// Whether a line looks like a header field: a token and a colon.
pub fn is_field(line: &[u8]) -> bool {
    let name = line.iter().take_while(|b| is_token(**b)).count();
    name > 0 && line.get(name) == Some(&b':')
}

/// Whether a line is a request with a known method, a target, and HTTP/1: the condition for requests in the
/// middle of other bytes. `cut`: the line may continue.
pub fn is_plausible_request(line: &[u8], cut: bool) -> bool {
    let Some(method) = KNOWN_METHODS.iter().find(|m| line.starts_with(m)) else {
        return cut && KNOWN_METHODS.iter().any(|m| m.starts_with(line));
    };
    match &line[method.len()..] {
        [] | [b' '] => cut,
        [b' ', b'/' | b'h' | b'*', ..] if cut => begins_request(line),
        [b' ', b'/' | b'h' | b'*', ..] => {
            request_line(line).is_some_and(|l| l.version.is_some_and(|v| v[0] == b'1'))
        }
        // CONNECT has no path.
        [b' ', ..] if *method == b"CONNECT" => {
            if cut {
                begins_request(line)
            } else {
                request_line(line).is_some_and(|l| l.version.is_some())
            }
        }
        _ => false,
    }
}

/// A copy of `head` with folded fields on one line (RFC 9112 section 5.2).
pub fn unfold(head: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(head.len());
    for line in head.split_inclusive(|b| *b == b'\n') {
        if matches!(line[0], b' ' | b'\t') && !out.is_empty() {
            let end = out.trim_ascii_end().len();
            out.truncate(end);
            out.push(b' ');
        }
        out.extend_from_slice(line);
    }
    out
}

/// The first line of `bytes`, without its line end.
pub fn first_line(bytes: &[u8]) -> &[u8] {
    without_cr(&bytes[..memchr(b'\n', bytes).unwrap_or(bytes.len())])
}

/// `line` without the CR that belongs to its line end.
pub fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl HttpFraming {
    #[inline(always)]
    fn field(&mut self, line: &[u8]) {
        if begins_with(line, b"content-") {
            if let Some(v) = value(line, b"Content-Length") {
                self.length(v);
            }
        } else if begins_with(line, b"transfer")
            && let Some(v) = value(line, b"Transfer-Encoding")
        {
            self.transfer_encoding(v);
        }
    }

    /// RFC 9112 section 6.3: differing values are an error; most implementations use the first.
    fn length(&mut self, value: &[u8]) {
        if let (Some(n), None) = (number(value), self.content_length) {
            self.content_length = Some(n);
            return;
        }
        for part in value.split(|b| *b == b',') {
            match number(part.trim_ascii()) {
                Some(n) if self.content_length.is_none() => self.content_length = Some(n),
                Some(n) => self.bad_length |= self.content_length != Some(n),
                None => self.bad_length = true,
            }
        }
    }

    fn transfer_encoding(&mut self, value: &[u8]) {
        let last = value
            .rsplit(|b| *b == b',')
            .map(<[u8]>::trim_ascii)
            .find(|c| !c.is_empty());
        self.coding = match last {
            Some(c) if c.eq_ignore_ascii_case(b"chunked") => TransferCoding::Chunked,
            Some(c) if c.eq_ignore_ascii_case(b"identity") => self.coding,
            Some(_) => TransferCoding::Other,
            None => self.coding,
        };
    }
}

/// End of the fields.
enum HeaderSectionEnd {
    At { len: usize, folded: bool },
    Beyond,
}

/// Passes every field line of the `wanted` kinds to `each`, up to the empty line; `nl` ends the previous
/// line.
#[inline]
fn fields<'a>(
    bytes: &'a [u8],
    nl: usize,
    feeds: LineFeeds<'a>,
    wanted: u8,
    mut each: impl FnMut(u8, &'a [u8]),
) -> HeaderSectionEnd {
    let mut at = nl + 1;
    let mut folded = false;
    for nl in feeds {
        let kinds = KINDS[usize::from(bytes[at])] & (wanted | kind::FOLDED | kind::END);
        if kinds != 0 {
            let line = without_cr(&bytes[at..nl]);
            match kinds {
                kind::END if line.is_empty() => {
                    return HeaderSectionEnd::At {
                        len: nl + 1,
                        folded,
                    };
                }
                kind::END => {}
                kind::FOLDED => folded = true,
                _ => each(kinds, line),
            }
        }
        at = nl + 1;
    }
    HeaderSectionEnd::Beyond
}

fn ended<H>(head: H, end: HeaderSectionEnd) -> HeadParseResult<H> {
    match end {
        HeaderSectionEnd::At { len, folded } => HeadParseResult::Complete { head, len, folded },
        HeaderSectionEnd::Beyond => HeadParseResult::Partial(Some(head)),
    }
}

fn without_line<H>(plausible: bool) -> HeadParseResult<H> {
    if plausible {
        HeadParseResult::Partial(None)
    } else {
        HeadParseResult::Invalid
    }
}

/// The value of the field `name` if `line` is that field.
#[inline]
fn value<'a, const N: usize>(line: &'a [u8], name: &[u8; N]) -> Option<&'a [u8]> {
    // Most lines differ in the position where their name ends, and most names are spelled as in the RFCs.
    let (first, rest) = line.split_first_chunk::<N>()?;
    if !matches!(rest, [b':' | b' ' | b'\t', ..])
        || first != name && !first.eq_ignore_ascii_case(name)
    {
        return None;
    }
    let value = match rest {
        [b':', b' ', value @ ..] => value,
        _ => rest.trim_ascii_start().strip_prefix(b":")?,
    };
    Some(value.trim_ascii())
}

/// Whether `line` may begin with these letters, in either case: distinguishes most fields in one comparison.
#[inline]
fn begins_with(line: &[u8], lower: &[u8; 8]) -> bool {
    let lower_case = |word: &[u8; 8]| u64::from_le_bytes(*word) | 0x2020_2020_2020_2020;
    line.first_chunk()
        .is_some_and(|word| lower_case(word) == u64::from_le_bytes(*lower))
}

fn keep_first<'a>(slot: &mut Option<&'a [u8]>, value: Option<&'a [u8]>) {
    if slot.is_none() {
        *slot = value;
    }
}

/// Length of ` HTTP/1.1`.
pub const VERSION_BYTES: usize = 9;

/// The version in ` HTTP/1.1`.
pub fn version(bytes: &[u8]) -> Option<HttpVersion> {
    digits(bytes.strip_prefix(b" HTTP/")?)
}

fn digits(bytes: &[u8]) -> Option<HttpVersion> {
    match *bytes {
        [a @ b'0'..=b'9', b'.', b @ b'0'..=b'9'] => Some([a, b'.', b]),
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, d| match d {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(d - b'0')),
        _ => None,
    })
}

/// RFC 9110 section 5.6.2.
fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// Whether a head upgrades the connection to HTTP/2.
#[cold]
pub fn is_upgrade_to_h2c(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(|line| {
        let Some(colon) = memchr::memchr(b':', line) else {
            return false;
        };
        line[..colon].eq_ignore_ascii_case(b"upgrade")
            && line[colon + 1..].trim_ascii().eq_ignore_ascii_case(b"h2c")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines() {
        let check = |line: &str, expected: Option<(&str, &str, Option<&[u8; 3]>)>| {
            let expected = expected.map(|(m, t, v)| RequestLine {
                method: m.as_bytes(),
                target: t.as_bytes(),
                version: v.copied(),
            });
            assert_eq!(request_line(line.as_bytes()), expected, "{line}");
        };
        check("GET / HTTP/1.1", Some(("GET", "/", Some(b"1.1"))));
        check("M-SEARCH * HTTP/1.0", Some(("M-SEARCH", "*", Some(b"1.0"))));
        check("get /a b HTTP/1.1", Some(("get", "/a b", Some(b"1.1"))));
        check("GET /x", Some(("GET", "/x", None)));
        check("GET /HTTP/1.1", Some(("GET", "/HTTP/1.1", None)));
        check("OPTIONS HTTP/1.1", Some(("OPTIONS", "HTTP/1.1", None)));
        check("GET / HTTP/1.", None);
        check("GET/ HTTP/1.1", None);
        check("get /x", None);
        check(" / HTTP/1.1", None);
        check("GET", None);
        check("\u{c3} / HTTP/1.1", None);
    }

    #[test]
    fn status_lines() {
        let check = |line: &str, expected: Option<u16>| {
            assert_eq!(
                status_line(line.as_bytes()).map(|s| s.1),
                expected,
                "{line}"
            );
        };
        check("HTTP/1.1 200 OK", Some(200));
        check("HTTP/1.0 404", Some(404));
        check("HTTP/1.1 2000", None);
        check("HTTP/1.1 099 x", None);
        check("HTTP/1.1  200", None);
        check("HTTP/x.1 200", None);
        check("HTTP/1.1 20", None);
    }

    #[test]
    fn fields_that_matter() {
        let text = b"POST /a HTTP/1.1\r\nHOST : h\r\nHost: i\nuser-agent:\t ua x \r\nContent-Length: 5\r\n\
            Expect: 100-Continue\r\nno field\r\nTransfer-Encoding: gzip, chunked\r\n\r\nbody";
        let HeadParseResult::Complete {
            head,
            len,
            folded: false,
        } = request(text, u8::MAX)
        else {
            panic!()
        };
        assert_eq!(
            (head.host, head.user_agent),
            (Some(&b"h"[..]), Some(&b"ua x"[..]))
        );
        assert_eq!(&text[len..], b"body");
        assert!(head.expects_continue && head.framing.content_length == Some(5));
        assert_eq!(head.framing.coding, TransferCoding::Chunked);
    }

    #[test]
    fn lengths() {
        let check = |fields: &str, length: Option<u64>, bad: bool| {
            let text = format!("HTTP/1.1 200 OK\n{fields}\n\n");
            let HeadParseResult::Complete { head, .. } = response(text.as_bytes(), u8::MAX) else {
                panic!("{fields}")
            };
            assert_eq!(
                (head.framing.content_length, head.framing.bad_length),
                (length, bad),
                "{fields}"
            );
        };
        check("Content-Length: 11\nContent-Length: 93", Some(11), true);
        check("Content-Length: 7, 7", Some(7), false);
        check("Content-Length: -1", None, true);
        check("Content-Length: 18446744073709551616", None, true);
        check(
            "Content-Length: 18446744073709551615",
            Some(u64::MAX),
            false,
        );
        check("Content-Length: 0x10", None, true);
        check("Content-Length:", None, true);
        check("Content-Len: 1", None, false);
    }

    #[test]
    fn folded_fields_are_put_together() {
        let text = b"GET / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\nA: b\n\tc\n\n";
        assert!(matches!(
            request(text, u8::MAX),
            HeadParseResult::Complete { folded: true, .. }
        ));
        assert_eq!(
            unfold(text),
            b"GET / HTTP/1.1\r\nTransfer-Encoding:  chunked\r\nA: b \tc\n\n"
        );
    }
}
