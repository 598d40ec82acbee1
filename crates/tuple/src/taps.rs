//! Columns of a request seen by two taps, one near its client and one near its server: the measurements of each. If a
//! query names one of them, all are present, since they become known together.

use crate::facts::ColumnFamily;
use crate::schema::{DataType, Field, FieldId, RedactionRule, Schema, Unit};

/// The family of these columns, supported by parsers of requests and responses over TCP.
pub const TAPS: ColumnFamily = ColumnFamily {
    name: "tap",
    doc: "measurements of a request at two taps",
    fold: None,
};

const COLUMNS: [(&str, DataType, Unit, &str); 5] = [
    (
        "request",
        DataType::U64,
        Unit::None,
        "TCP sequence number of the request's first byte",
    ),
    (
        "seen",
        DataType::Text,
        Unit::None,
        "taps that captured the request: both, or client if the tap near the server did not",
    ),
    (
        "client_time_ns",
        DataType::I64,
        Unit::Nanoseconds,
        "response time at the tap near the client",
    ),
    (
        "server_time_ns",
        DataType::I64,
        Unit::Nanoseconds,
        "response time at the tap near the server",
    ),
    (
        "network_time_ns",
        DataType::I64,
        Unit::Nanoseconds,
        "difference of the two response times: the time between the taps",
    ),
];

/// The end of a connection that a tap is close to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapEnd {
    /// The client, or no other tap is closer to the server.
    Client,
    /// The server.
    Server,
}

impl TapEnd {
    /// The value of [`TapColumns::seen`] in tuples of a single tap.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TapEnd::Client => "client",
            TapEnd::Server => "server",
        }
    }
}

/// Positions of these columns in a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapColumns {
    /// Identifies a request within its connection.
    pub request: FieldId,
    /// The taps at which the request was captured.
    pub seen: FieldId,
    /// Response time at the client's tap.
    pub client_time: FieldId,
    /// Response time at the server's tap.
    pub server_time: FieldId,
    /// The difference of the two.
    pub network_time: FieldId,
}

impl TapColumns {
    /// The positions in a schema, if it has these columns.
    #[must_use]
    pub fn of(schema: &Schema) -> Option<TapColumns> {
        let first = schema.find(&name(COLUMNS[0].0))?.0;
        let at = |place: u16| FieldId(first + place);
        Some(TapColumns {
            request: at(0),
            seen: at(1),
            client_time: at(2),
            server_time: at(3),
            network_time: at(4),
        })
    }

    /// Whether `fields` contains one of them.
    #[must_use]
    pub fn any(self, fields: &[FieldId]) -> bool {
        fields
            .iter()
            .any(|field| (self.request.0..=self.network_time.0).contains(&field.0))
    }
}

/// The complete key of a column, given with or without its unit.
pub(crate) fn key(key: &str) -> Option<&'static str> {
    let keys = COLUMNS.iter().map(|(known, ..)| *known);
    keys.into_iter()
        .find(|known| *known == key || known.strip_suffix("_ns") == Some(key))
}

/// All columns.
pub(crate) fn fields() -> impl Iterator<Item = Field> {
    COLUMNS.iter().map(|(key, data_type, unit, doc)| Field {
        name: name(key).into(),
        data_type: *data_type,
        unit: *unit,
        doc: (*doc).into(),
        redact: RedactionRule::Keep,
    })
}

fn name(key: &str) -> String {
    format!("{}.{key}", TAPS.name)
}
