//! HTTP/1 (RFC 9110, 9112): one tuple per request with its response.
//!
//! Parses both byte streams in place: heads line by line, bodies by length. Only a head split across segments
//! is copied; of a head over 64 KiB, only that much and the fields that determine the end of the message are
//! kept. Pairing uses the common queue, which returns halves rather than a wrong pair ([`crate::pairing`]).
//! An interim response does not complete a request. After `101 Switching Protocols` or a successful CONNECT,
//! the connection belongs to another protocol.
//!
//! Body bytes are counted as transferred: compressed, with chunk sizes and trailers. Contents are not
//! decoded, and the behavior of proxies and caches is not reconstructed.

mod body;
mod byte_stream;
mod connection;
pub(crate) mod facts;
pub mod fields;
mod head;
mod head_tail;
pub(crate) mod headers;
mod lines;
mod losses;
mod messages;
mod probe;
pub(crate) mod redact;
mod search;
mod transaction;
pub(crate) mod url;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use search::HttpHeadLocator;

use tuple::Schema;

use self::connection::HttpConnection;
use self::facts::FACTS;
pub use self::fields::{ALL, GET_ONLY, OF_HTTP};
use crate::ProtocolDefinition;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "http",
    ports: &[80, 8000, 8008, 8080, 8081, 8888, 3000, 3128, 5000, 9200],
    tcp: true,
    udp: false,
    probe: probe::probe,
    start: || Box::<HttpConnection>::default(),
};

/// The schema of `http`.
#[must_use]
pub fn schema() -> Schema {
    schema_of(
        "http",
        "HTTP requests with their responses: HTTP/1 and HTTP/2",
    )
}

/// The schema of `http_get`.
#[must_use]
pub fn schema_get() -> Schema {
    schema_of(
        "http_get",
        "HTTP GET requests with their responses: HTTP/1 and HTTP/2",
    )
}

fn schema_of(name: &'static str, doc: &'static str) -> Schema {
    let measure = Some(fields::RESPONSE_TIME_NS);
    let key = Some(fields::URL);
    Schema {
        facts: &FACTS,
        ..Schema::of_parser(name, 1, doc, fields::FIELDS, measure, key)
    }
}
