//! Columns of a request that two taps have seen, one near its client and one near its server: what each of them measured. A query
//! has them where it names one of them; all of them then, since they are known together.

use crate::facts::Family;
use crate::schema::{DataType, Field, FieldId, Redact, Schema, Unit};

/// The family of these columns: of parsers of requests and responses over TCP.
pub const TAPS: Family =
    Family { name: "tap", doc: "of requests that two taps have seen: what the two measured", fold: None };

const COLUMNS: [(&str, DataType, Unit, &str); 5] = [
    ("request", DataType::U64, Unit::None, "TCP sequence number of the request's first byte"),
    ("seen", DataType::Text, Unit::None, "both; client, where the tap near the server has not seen it"),
    ("client_time_ns", DataType::I64, Unit::Nanoseconds, "response time at the tap near the client"),
    ("server_time_ns", DataType::I64, Unit::Nanoseconds, "response time at the tap near the server"),
    (
        "network_time_ns",
        DataType::I64,
        Unit::Nanoseconds,
        "their difference: the time spent between the taps",
    ),
];

/// At which end of a connection a tap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapEnd {
    /// Nearest to its client, or no other tap is nearer to its server.
    Client,
    /// Nearest to its server.
    Server,
}

impl TapEnd {
    /// What one tap alone says of itself as [`TapColumns::seen`].
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TapEnd::Client => "client",
            TapEnd::Server => "server",
        }
    }
}

/// Where they are in a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapColumns {
    /// What tells a request from others of its connection.
    pub request: FieldId,
    /// Which taps have seen it.
    pub seen: FieldId,
    /// The response time at the client's.
    pub client_time: FieldId,
    /// That at the server's.
    pub server_time: FieldId,
    /// What lies between.
    pub network_time: FieldId,
}

impl TapColumns {
    /// Those of a schema, if it has them.
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

    /// Whether one of them is among `fields`.
    #[must_use]
    pub fn any(self, fields: &[FieldId]) -> bool {
        fields.iter().any(|field| (self.request.0..=self.network_time.0).contains(&field.0))
    }
}

/// The whole key of one, with or without its unit.
pub(crate) fn key(key: &str) -> Option<&'static str> {
    let keys = COLUMNS.iter().map(|(known, ..)| *known);
    keys.into_iter().find(|known| *known == key || known.strip_suffix("_ns") == Some(key))
}

/// All of them.
pub(crate) fn fields() -> impl Iterator<Item = Field> {
    COLUMNS.iter().map(|(key, data_type, unit, doc)| Field {
        name: name(key).into(),
        data_type: *data_type,
        unit: *unit,
        doc: (*doc).into(),
        redact: Redact::Keep,
    })
}

fn name(key: &str) -> String {
    format!("{}.{key}", TAPS.name)
}
