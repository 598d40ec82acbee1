//! Header fields that a query names: `request_header.x_request_id` reads `X-Request-Id`. Names differ in no more than
//! case and `-` or `_`; the values of several lines with one name are joined by a comma (RFC 9110 section 5.3). Reads a head
//! once more, and only where a query asks for such a field. Trailers are not read.

use memchr::memchr;
use tuple::{Family, FieldId, HASH, TupleWriter};

use super::head;
use crate::Output;

/// Of requests.
pub const OF_REQUEST: Family =
    Family { name: "request_header", doc: "the request's header field", fold: Some(HASH) };
/// Of responses.
pub const OF_RESPONSE: Family =
    Family { name: "response_header", doc: "the response's header field", fold: Some(HASH) };

/// The fields that are asked for.
#[derive(Debug)]
pub struct Named {
    pub request: Names,
    pub response: Names,
}

/// Those of one kind of message: their columns and names, as [`Family::key`] writes them.
pub type Names = Vec<(FieldId, Box<[u8]>)>;

/// What a head says in them.
#[derive(Debug, Default)]
pub struct Values {
    text: Vec<u8>,
    /// A line with one of the names: which, and where its value begins and ends in the text.
    lines: Vec<(u8, [u32; 2])>,
}

impl Named {
    /// What the queries at hand ask for, if they do.
    pub fn of(out: &Output<'_>) -> Option<Box<Named>> {
        let of = |family: Family| -> Names {
            let members = out.members().filter(|(id, name, _)| *name == family.name && out.wants(*id));
            members.map(|(id, _, key)| (id, key.as_bytes().into())).collect()
        };
        let named = Named { request: of(OF_REQUEST), response: of(OF_RESPONSE) };
        (!(named.request.is_empty() && named.response.is_empty())).then(|| Box::new(named))
    }
}

impl Values {
    /// Becomes what `head`, the bytes of a whole head, says in fields called `names`.
    pub fn become_those_of(&mut self, head: &[u8], names: &Names) {
        self.text.clear();
        self.lines.clear();
        if names.is_empty() {
            return;
        }
        // A line that begins with a blank goes on with the field before (obs-fold).
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
            let (name, value) = (line[..colon].trim_ascii_end(), line[colon + 1..].trim_ascii());
            let known = names.iter().position(|(_, wanted)| is_called(name, wanted));
            goes_on = known.is_some();
            if let Some(known) = known {
                let begin = self.text.len() as u32;
                self.text.extend_from_slice(value);
                self.lines.push((known as u8, [begin, self.text.len() as u32]));
            }
        }
    }

    #[cold]
    fn add_fold(&mut self, more: &[u8]) {
        let Some((_, [begin, end])) = self.lines.last_mut() else { return };
        if begin != end {
            self.text.push(b' ');
        }
        self.text.extend_from_slice(more);
        *end = self.text.len() as u32;
    }

    /// Memory that its texts take.
    pub fn text_bytes(&self) -> usize {
        self.text.len() + self.lines.len() * size_of::<(u8, [u32; 2])>()
    }

    /// Sets the columns of those fields that there were.
    pub fn write(&self, names: &Names, w: &mut TupleWriter) {
        for (i, (id, _)) in names.iter().enumerate() {
            let mut values = self.lines.iter().filter(|(name, _)| usize::from(*name) == i).map(|(_, at)| {
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

/// Whether a field is called so; `wanted` is in lower case and has `_` for `-`.
fn is_called(name: &[u8], wanted: &[u8]) -> bool {
    let plain = |b: &u8| if *b == b'-' { b'_' } else { b.to_ascii_lowercase() };
    name.len() == wanted.len() && name.iter().zip(wanted).all(|(b, wanted)| plain(b) == *wanted)
}

#[cfg(test)]
mod tests {
    use tuple::Schema;

    use crate::Direction;
    use crate::dialogue::Dialogue;
    use crate::http::{ALL, PROTOCOL, schema};

    const FIELDS: &[&str] = &[
        "request_header.x_request_id",
        "request_header.traceparent",
        "response_header.x_request_id",
        "response_header.set_cookie",
    ];

    /// What a request and its response say in those fields, in whatever pieces they come.
    fn check(request: &str, response: &str, expected: &str) {
        let mut with_fields: Schema = schema();
        FIELDS.iter().for_each(|field| with_fields.add_member(field));
        for piece in [1, 7, 1 << 20] {
            let mut talk = Dialogue::new(&PROTOCOL, with_fields.clone(), ALL, FIELDS);
            for (direction, said) in
                [(Direction::ClientToServer, request), (Direction::ServerToClient, response)]
            {
                for bytes in said.as_bytes().chunks(piece) {
                    talk.bytes(direction, bytes);
                }
            }
            assert_eq!(talk.rows(), [expected], "{request:?} {response:?} by {piece}");
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
            &head(OK, "Set-Cookie: a=1\r\nVia: x\r\nSet-Cookie: b=2\r\nset-cookie:\r\n"),
            "- a - a=1, b=2, ",
        );
        // Folded fields (RFC 9112 section 5.2), after a field that is asked for and after others.
        check(
            &head(GET, "X-Request-ID: one\r\n  two\r\n\tthree\r\nVia: no\r\n traceparent: no\r\n"),
            &head(OK, ""),
            "one two three - - -",
        );
        check(&head(GET, "X-Request-ID:\r\n seven\r\n"), &head(OK, ""), "seven - - -");
    }

    #[test]
    fn of_a_body_nothing_is_read() {
        check(
            "POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\nX-Request-ID: 7\r\n",
            "HTTP/1.1 100 Continue\r\nX-Request-Id: interim\r\n\r\nHTTP/1.1 204 No Content\r\nX-Request-ID: 9\r\n\r\n",
            "- - 9 -",
        );
    }
}
