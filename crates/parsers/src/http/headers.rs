//! Header fields named by a query: `request_header.x_request_id` is `X-Request-Id`. Names match regardless of
//! case and of `-` or `_`; values of repeated fields are joined by a comma (RFC 9110 section 5.3). Parses a
//! head a second time, only for queries with such a field. Trailers are not read.

use memchr::memchr;
use tuple::{ColumnFamily, FieldId, HASH, TupleWriter};

use super::head;
use crate::ParserOutput;

/// Family of request fields.
pub const OF_REQUEST: ColumnFamily = ColumnFamily {
    name: "request_header",
    doc: "the request's header field",
    fold: Some(HASH),
};
/// Family of response fields.
pub const OF_RESPONSE: ColumnFamily = ColumnFamily {
    name: "response_header",
    doc: "the response's header field",
    fold: Some(HASH),
};

/// Fields named by the queries.
#[derive(Debug, Default)]
pub struct RequestedHeaders {
    pub request: HeaderNames,
    pub response: HeaderNames,
}

/// Fields of one kind of message: columns and names, as written by [`ColumnFamily::key`].
pub type HeaderNames = Vec<(FieldId, Box<[u8]>)>;

/// Values of the named fields in one head.
#[derive(Debug, Default)]
pub struct HeaderValues {
    text: Vec<u8>,
    /// Lines with one of the names: index of the name, start and end of the value in the text.
    lines: Vec<(u8, [u32; 2])>,
}

impl RequestedHeaders {
    /// Whether the queries name none.
    pub fn is_empty(&self) -> bool {
        self.request.is_empty() && self.response.is_empty()
    }

    /// Fields named by the current queries of these variants; `None` if there are none.
    pub fn of(out: &ParserOutput<'_>, variants: [u8; 2]) -> Option<Box<RequestedHeaders>> {
        let of = |family: ColumnFamily| -> HeaderNames {
            let members = out
                .members(variants)
                .filter(|(id, name, _)| *name == family.name && out.wants(*id));
            members
                .map(|(id, _, key)| (id, key.as_bytes().into()))
                .collect()
        };
        let named = RequestedHeaders {
            request: of(OF_REQUEST),
            response: of(OF_RESPONSE),
        };
        (!named.is_empty()).then(|| Box::new(named))
    }
}

impl HeaderValues {
    /// Removes all values.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
    }

    /// Adds a field if it has one of the names. Returns whether it has.
    pub fn add(&mut self, name: &[u8], value: &[u8], names: &HeaderNames) -> bool {
        let known = names.iter().position(|(_, wanted)| is_called(name, wanted));
        if let Some(known) = known {
            let begin = self.text.len() as u32;
            self.text.extend_from_slice(value);
            self.lines
                .push((known as u8, [begin, self.text.len() as u32]));
        }
        known.is_some()
    }

    /// Replaces the values by those of `names` in `head`, the bytes of a complete head.
    pub fn become_those_of(&mut self, head: &[u8], names: &HeaderNames) {
        self.clear();
        if names.is_empty() {
            return;
        }
        // A line that begins with a blank continues the previous field (obs-fold).
        let mut goes_on = false;
        for line in head.split(|b| *b == b'\n').skip(1).map(head::without_cr) {
            if let [b' ' | b'\t', ..] = line {
                if goes_on {
                    self.add_fold(line.trim_ascii());
                }
                continue;
            }
            let Some(colon) = memchr(b':', line) else {
                goes_on = false;
                continue;
            };
            let name = line[..colon].trim_ascii_end();
            let value = line[colon + 1..].trim_ascii();
            goes_on = self.add(name, value, names);
        }
    }

    #[cold]
    fn add_fold(&mut self, more: &[u8]) {
        let Some((_, [begin, end])) = self.lines.last_mut() else {
            return;
        };
        if begin != end {
            self.text.push(b' ');
        }
        self.text.extend_from_slice(more);
        *end = self.text.len() as u32;
    }

    /// Memory of its texts in bytes.
    pub fn text_bytes(&self) -> usize {
        self.text.len() + self.lines.len() * size_of::<(u8, [u32; 2])>()
    }

    /// Writes the columns of the fields that were present.
    pub fn write(&self, names: &HeaderNames, w: &mut TupleWriter) {
        for (i, (id, _)) in names.iter().enumerate() {
            let mut values = self
                .lines
                .iter()
                .filter(|(name, _)| usize::from(*name) == i)
                .map(|(_, at)| {
                    let [begin, end] = at.map(|at| at as usize);
                    &self.text[begin..end]
                });
            let Some(first) = values.next() else { continue };
            match values.next() {
                None => w.text(*id, first),
                Some(second) => {
                    let all: Vec<&[u8]> = [first, second].into_iter().chain(values).collect();
                    w.text(*id, &all.join(&b", "[..]));
                }
            }
        }
    }
}

/// Whether a field has this name; `wanted` is in lower case and has `_` for `-`.
fn is_called(name: &[u8], wanted: &[u8]) -> bool {
    let plain = |b: &u8| {
        if *b == b'-' {
            b'_'
        } else {
            b.to_ascii_lowercase()
        }
    };
    name.len() == wanted.len()
        && name
            .iter()
            .zip(wanted)
            .all(|(b, wanted)| plain(b) == *wanted)
}

#[cfg(test)]
mod tests {
    use tuple::Schema;

    use crate::Direction;
    use crate::dialogue::ParserDialogue;
    use crate::http::{ALL, PROTOCOL, schema};

    const FIELDS: &[&str] = &[
        "request_header.x_request_id",
        "request_header.traceparent",
        "response_header.x_request_id",
        "response_header.set_cookie",
    ];

    /// Checks the values of a request and its response, for several segment sizes.
    fn check(request: &str, response: &str, expected: &str) {
        let mut with_fields: Schema = schema();
        FIELDS
            .iter()
            .for_each(|field| with_fields.add_member(field));
        for piece in [1, 7, 1 << 20] {
            let mut talk = ParserDialogue::new(&PROTOCOL, with_fields.clone(), ALL, FIELDS);
            for (direction, said) in [
                (Direction::ClientToServer, request),
                (Direction::ServerToClient, response),
            ] {
                for bytes in said.as_bytes().chunks(piece) {
                    talk.bytes(direction, bytes);
                }
            }
            assert_eq!(
                talk.rows(),
                [expected],
                "{request:?} {response:?} by {piece}"
            );
        }
    }

    #[test]
    fn fields_by_name() {
        const GET: &str = "GET / HTTP/1.1\r\n";
        const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
        let head = |line: &str, fields: &str| format!("{line}{fields}\r\n");
        check(&head(GET, ""), &head(OK, ""), "- - - -");
        check(
            &head(GET, "X-Request-ID: 7\r\nTraceparent:00-ab\r\n"),
            &head(OK, "x-request-id:\t8 \r\nX_Request_Id: nine\r\n"),
            "7 00-ab 8, nine -",
        );
        check(
            &head(GET, "X-Request: 1\r\nX-Request-ID-2: 2\r\nTraceparent :a\n"),
            &head(
                OK,
                "Set-Cookie: a=1\r\nVia: x\r\nSet-Cookie: b=2\r\nset-cookie:\r\n",
            ),
            "- a - a=1, b=2, ",
        );
        // Folded fields (RFC 9112 section 5.2), after a named field and after others.
        check(
            &head(
                GET,
                "X-Request-ID: one\r\n  two\r\n\tthree\r\nVia: no\r\n traceparent: no\r\n",
            ),
            &head(OK, ""),
            "one two three - - -",
        );
        check(
            &head(GET, "X-Request-ID:\r\n seven\r\n"),
            &head(OK, ""),
            "seven - - -",
        );
    }

    /// Beyond the limit of a head, named fields are not read: a row without them is exact only if none is named.
    #[test]
    fn fields_beyond_the_limit() {
        let mut with_field = schema();
        with_field.add_member("request_header.x_request_id");
        let long = "a".repeat(70_000);
        let request = format!("GET / HTTP/1.1\r\nX: {long}\r\nX-Request-ID: 7\r\n\r\n");
        for (schema, quality) in [(schema(), "exact"), (with_field, "gap_body")] {
            let mut talk = ParserDialogue::new(&PROTOCOL, schema, ALL, &["path", "quality"]);
            talk.client(&request)
                .server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(talk.rows(), [format!("/ {quality}")]);
        }
    }

    #[test]
    fn bodies_are_not_searched_for_headers() {
        check(
            "POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\nX-Request-ID: 7\r\n",
            "HTTP/1.1 100 Continue\r\nX-Request-Id: interim\r\n\r\nHTTP/1.1 204 No Content\r\nX-Request-ID: 9\r\n\r\n",
            "- - 9 -",
        );
    }
}
