//! Names, types, and units of columns, and the fields common to all parsers.

use std::borrow::Cow;

use crate::facts::SchemaFacts;
use crate::fold::TextFold;

/// The storage type of a column. Text is UTF-8; invalid bytes are written as `\xNN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Arrow Boolean.
    Bool,
    /// Arrow UInt64.
    U64,
    /// Arrow Int64.
    I64,
    /// Arrow Float64.
    F64,
    /// Arrow Utf8.
    Text,
    /// Arrow FixedSizeBinary(16): IPv6 or IPv4-mapped, network order.
    Ip,
    /// Arrow Binary: a list of 64-bit hashes, see [`crate::hashes`].
    Hashes,
    /// Arrow Utf8 that holds one JSON value: the buckets of a distribution as `[[upper_bound, count], …]`.
    Json,
}

/// The unit of a number, which determines its display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A plain number.
    None,
    /// A duration in nanoseconds.
    Nanoseconds,
    /// A time in nanoseconds since the epoch.
    EpochNanoseconds,
    /// Bytes.
    Bytes,
    /// A number per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// A fraction from 0 to 1.
    Fraction,
    /// An identifier, displayed as 16 hexadecimal digits.
    Id,
}

/// A column definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in queries and outputs; names of durations end in `_ns`.
    pub name: Cow<'static, str>,
    /// Storage type.
    pub data_type: DataType,
    /// Unit of the value.
    pub unit: Unit,
    /// Description in one line.
    pub doc: Cow<'static, str>,
    /// Redaction of the value when it is stored or leaves for another machine.
    pub redact: RedactionRule,
}

impl Field {
    /// A field known at compile time.
    #[must_use]
    pub const fn new(
        name: &'static str,
        data_type: DataType,
        unit: Unit,
        doc: &'static str,
    ) -> Field {
        Field::folded(name, data_type, unit, doc, &[])
    }

    /// A field known at compile time, with the redaction of its text if any.
    #[must_use]
    pub const fn folded(
        name: &'static str,
        data_type: DataType,
        unit: Unit,
        doc: &'static str,
        fold: &[TextFold],
    ) -> Field {
        let redact = match fold {
            [] => RedactionRule::Keep,
            [fold, ..] => RedactionRule::Fold(*fold),
        };
        Field {
            name: Cow::Borrowed(name),
            data_type,
            unit,
            doc: Cow::Borrowed(doc),
            redact,
        }
    }
}

/// Redaction of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedactionRule {
    /// None; the column contains no personal data.
    Keep,
    /// Every text is redacted.
    Fold(TextFold),
    /// The text is redacted with the method listed for the value of another text column.
    Where(FieldId, Vec<(String, TextFold)>),
}

/// Position of a column in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub u16);

/// The columns of a parser's tuples, or of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Name of the parser or result.
    pub name: Cow<'static, str>,
    /// Incremented if a field is removed or changes its meaning, but not for new fields at the end.
    pub version: u16,
    /// Description in one line.
    pub doc: Cow<'static, str>,
    /// All columns; those of a parser begin with [`common::FIELDS`].
    pub fields: Vec<Field>,
    /// Default value of aggregates.
    pub measure: Option<FieldId>,
    /// Default group of `group` and `top-k`.
    pub key: Option<FieldId>,
    /// The tables of a recording, linked tuple by tuple; if empty, a single table with the name of the schema.
    pub parts: &'static [TablePart],
    /// Properties of the parser's tuples; empty for a result.
    pub facts: &'static SchemaFacts,
}

/// A table with a part of each tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePart {
    /// Table name.
    pub name: &'static str,
    /// Content of the table.
    pub holds: PartContent,
}

/// Content of a part's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartContent {
    /// The given fields, one row per tuple.
    Fields(&'static [FieldId]),
    /// All fields not contained in another part, one row per tuple.
    Rest,
    /// One row per block, from a text with a list of checksums of blocks.
    Blocks {
        /// The text: per block 16 hexadecimal digits, or `-` if unknown, separated by spaces.
        list: FieldId,
        /// The offset of the data. The first block of the list is the first that begins at or after it.
        start: FieldId,
        /// Block size.
        block_bytes: u64,
    },
}

impl Schema {
    /// The schema of a parser: the common fields and its own.
    #[must_use]
    pub fn of_parser(
        name: &'static str,
        version: u16,
        doc: &'static str,
        own: &[Field],
        measure: Option<FieldId>,
        key: Option<FieldId>,
    ) -> Schema {
        let fields = common::FIELDS.iter().chain(own).cloned().collect();
        Schema {
            name: name.into(),
            version,
            doc: doc.into(),
            fields,
            measure,
            key,
            parts: &[],
            facts: &SchemaFacts::NONE,
        }
    }

    /// The field at `id`.
    ///
    /// # Panics
    /// If `id` belongs to another schema.
    #[must_use]
    pub fn field(&self, id: FieldId) -> &Field {
        &self.fields[usize::from(id.0)]
    }

    /// The position of the field named `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<FieldId> {
        self.fields
            .iter()
            .position(|f| f.name == name)
            .map(|i| FieldId(i as u16))
    }

    /// Whether the field was added to this version of the schema, so that recordings of earlier programs lack it.
    #[must_use]
    pub fn was_added(&self, id: FieldId) -> bool {
        let name = &self.field(id).name;
        let common = common::ADDED
            .iter()
            .any(|added| common::FIELDS[usize::from(added.0)].name == *name);
        common || self.facts.added.iter().any(|added| added == name)
    }

    /// The positions of all fields.
    pub fn ids(&self) -> impl Iterator<Item = FieldId> + use<> {
        (0..self.fields.len() as u16).map(FieldId)
    }
}

/// Declares a parser's own fields: a constant for each, and `FIELDS` in the same order. With `after OTHER_FIELDS;` they follow the fields
/// of another parser. Text that may contain
/// personal data is followed by a [`TextFold`](crate::TextFold), which defines how recordings redact it.
///
/// ```
/// use tuple::redact::HASH;
/// tuple::fields! {
///     STATUS: U64, None, "status", "response status code";
///     USER: Text, None, "user", "user of the login" => HASH;
/// }
/// assert_eq!(STATUS, tuple::FieldId(tuple::common::FIELDS.len() as u16));
/// assert_eq!(FIELDS[1].name, "user");
/// assert_eq!(FIELDS[1].redact, tuple::RedactionRule::Fold(HASH));
/// ```
#[macro_export]
macro_rules! fields {
    (after $before:path; $($id:ident: $data_type:ident, $unit:ident, $name:literal, $doc:literal $(=> $fold:path)?;)*) => {
        $crate::fields!(@count ($crate::common::FIELDS.len() + $before.len()) as u16; $($id, $doc;)*);
        /// This parser's own fields, after the common ones and those of another parser.
        pub const FIELDS: &[$crate::Field] = &[
            $($crate::Field::folded($name, $crate::DataType::$data_type, $crate::Unit::$unit, $doc, &[$($fold)?])),*
        ];
    };
    ($($id:ident: $data_type:ident, $unit:ident, $name:literal, $doc:literal $(=> $fold:path)?;)*) => {
        $crate::fields!(@count $crate::common::FIELDS.len() as u16; $($id, $doc;)*);
        /// This parser's own fields, after the common ones.
        pub const FIELDS: &[$crate::Field] = &[
            $($crate::Field::folded($name, $crate::DataType::$data_type, $crate::Unit::$unit, $doc, &[$($fold)?])),*
        ];
    };
    (@count $n:expr; $id:ident, $doc:literal; $($rest:tt)*) => {
        #[doc = $doc]
        pub const $id: $crate::FieldId = $crate::FieldId($n);
        $crate::fields!(@count $n + 1; $($rest)*);
    };
    (@count $n:expr;) => {};
}

/// The fields at the start of every tuple of every parser.
pub mod common {
    use super::{DataType, Field, FieldId, Unit};

    /// `id`.
    pub const ID: FieldId = FieldId(0);
    /// `ts`.
    pub const TS: FieldId = FieldId(1);
    /// `client_ip`.
    pub const CLIENT_IP: FieldId = FieldId(2);
    /// `client_port`.
    pub const CLIENT_PORT: FieldId = FieldId(3);
    /// `server_ip`.
    pub const SERVER_IP: FieldId = FieldId(4);
    /// `server_port`.
    pub const SERVER_PORT: FieldId = FieldId(5);
    /// `transport`.
    pub const TRANSPORT: FieldId = FieldId(6);
    /// `quality`.
    pub const QUALITY: FieldId = FieldId(7);
    /// `client_guessed`.
    pub const CLIENT_GUESSED: FieldId = FieldId(8);
    /// `ts_end`.
    pub const TS_END: FieldId = FieldId(9);
    /// `community_id`.
    pub const COMMUNITY_ID: FieldId = FieldId(10);
    /// `sample_rate`.
    pub const SAMPLE_RATE: FieldId = FieldId(11);
    /// `tunnel`.
    pub const TUNNEL: FieldId = FieldId(12);
    /// `tunnel_id`.
    pub const TUNNEL_ID: FieldId = FieldId(13);
    /// `tunnel_src`.
    pub const TUNNEL_SRC: FieldId = FieldId(14);
    /// `tunnel_dst`.
    pub const TUNNEL_DST: FieldId = FieldId(15);
    /// `vlan_id`.
    pub const VLAN_ID: FieldId = FieldId(16);
    /// `proxied_client_ip`.
    pub const PROXIED_CLIENT_IP: FieldId = FieldId(17);
    /// `proxied_client_port`.
    pub const PROXIED_CLIENT_PORT: FieldId = FieldId(18);
    /// `proxied_server_ip`.
    pub const PROXIED_SERVER_IP: FieldId = FieldId(19);
    /// `proxied_server_port`.
    pub const PROXIED_SERVER_PORT: FieldId = FieldId(20);
    /// `encrypted`.
    pub const ENCRYPTED: FieldId = FieldId(21);
    /// `tls_sni`.
    pub const TLS_SNI: FieldId = FieldId(22);
    /// `tls_alpn`.
    pub const TLS_ALPN: FieldId = FieldId(23);

    /// The addresses in a PROXY protocol header.
    pub const PROXIED: [FieldId; 4] = [
        PROXIED_CLIENT_IP,
        PROXIED_CLIENT_PORT,
        PROXIED_SERVER_IP,
        PROXIED_SERVER_PORT,
    ];

    /// Facts about a decrypted TLS connection.
    pub const DECRYPTED: [FieldId; 3] = [ENCRYPTED, TLS_SNI, TLS_ALPN];

    /// Fields added to version 1 of the parsers' schemas.
    pub const ADDED: [FieldId; 7] = [
        PROXIED_CLIENT_IP,
        PROXIED_CLIENT_PORT,
        PROXIED_SERVER_IP,
        PROXIED_SERVER_PORT,
        ENCRYPTED,
        TLS_SNI,
        TLS_ALPN,
    ];

    /// Fields with the same value in all tuples of a flow.
    pub const SAME_IN_ALL: [FieldId; 18] = [
        ID,
        CLIENT_IP,
        CLIENT_PORT,
        SERVER_IP,
        SERVER_PORT,
        TRANSPORT,
        CLIENT_GUESSED,
        COMMUNITY_ID,
        SAMPLE_RATE,
        TUNNEL,
        TUNNEL_ID,
        TUNNEL_SRC,
        TUNNEL_DST,
        VLAN_ID,
        PROXIED_CLIENT_IP,
        PROXIED_CLIENT_PORT,
        PROXIED_SERVER_IP,
        PROXIED_SERVER_PORT,
    ];

    /// Positions of the fields.
    pub const IDS: [FieldId; FIELDS.len()] = {
        let mut ids = [ID; FIELDS.len()];
        let mut i = 0;
        while i < ids.len() {
            ids[i] = FieldId(i as u16);
            i += 1;
        }
        ids
    };

    /// All common fields.
    pub const FIELDS: &[Field] = &[
        Field::new(
            "id",
            DataType::U64,
            Unit::Id,
            "flow: hash of the order-free five-tuple and the flow's start",
        ),
        Field::new(
            "ts",
            DataType::I64,
            Unit::EpochNanoseconds,
            "first packet of the tuple's transaction or flow (first byte of the request)",
        ),
        Field::new(
            "client_ip",
            DataType::Ip,
            Unit::None,
            "side that opened the flow or sends the requests",
        ),
        Field::new(
            "client_port",
            DataType::U64,
            Unit::None,
            "the client's port",
        ),
        Field::new("server_ip", DataType::Ip, Unit::None, "side that responds"),
        Field::new(
            "server_port",
            DataType::U64,
            Unit::None,
            "the server's port",
        ),
        Field::new(
            "transport",
            DataType::Text,
            Unit::None,
            "tcp, udp, icmp, icmp6 or the protocol's number",
        ),
        Field::new(
            "quality",
            DataType::Text,
            Unit::None,
            "exact, gap_body, resync, midstream or half",
        ),
        Field::new(
            "client_guessed",
            DataType::Bool,
            Unit::None,
            "true if neither a SYN nor a parser determined the client",
        ),
        Field::new(
            "ts_end",
            DataType::I64,
            Unit::EpochNanoseconds,
            "time at which the tuple was complete, used by windows",
        ),
        Field::new(
            "community_id",
            DataType::Text,
            Unit::None,
            "Community ID v1 of the flow, for joins with other tools",
        ),
        Field::new(
            "sample_rate",
            DataType::F64,
            Unit::Fraction,
            "share of flows that were selected when this flow began; 1 if absent",
        ),
        Field::new(
            "tunnel",
            DataType::Text,
            Unit::None,
            "encapsulation of the flow's first packet, from outside to inside: vxlan, gre/mpls",
        ),
        Field::new(
            "tunnel_id",
            DataType::U64,
            Unit::None,
            "innermost VXLAN or Geneve network, GRE key, ERSPAN or PPPoE session, GTP TEID, or MPLS label",
        ),
        Field::new(
            "tunnel_src",
            DataType::Ip,
            Unit::None,
            "source address of the innermost tunnel",
        ),
        Field::new(
            "tunnel_dst",
            DataType::Ip,
            Unit::None,
            "destination address of that tunnel",
        ),
        Field::new(
            "vlan_id",
            DataType::U64,
            Unit::None,
            "VLAN of the innermost frame, from its last tag",
        ),
        Field::new(
            "proxied_client_ip",
            DataType::Ip,
            Unit::None,
            "client address in the PROXY protocol header at the start of the connection",
        ),
        Field::new(
            "proxied_client_port",
            DataType::U64,
            Unit::None,
            "client port in that header",
        ),
        Field::new(
            "proxied_server_ip",
            DataType::Ip,
            Unit::None,
            "server address in that header",
        ),
        Field::new(
            "proxied_server_port",
            DataType::U64,
            Unit::None,
            "server port in that header",
        ),
        Field::new(
            "encrypted",
            DataType::Bool,
            Unit::None,
            "true if the tuple was inside TLS and decrypted with keys; null otherwise",
        ),
        Field::new(
            "tls_sni",
            DataType::Text,
            Unit::None,
            "server name (SNI) of that TLS connection, in lower case",
        ),
        Field::new(
            "tls_alpn",
            DataType::Text,
            Unit::None,
            "application protocol (ALPN) that its server chose",
        ),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_ids_are_the_places_of_their_names() {
        for (id, name) in [
            (common::ID, "id"),
            (common::TS, "ts"),
            (common::CLIENT_IP, "client_ip"),
            (common::CLIENT_PORT, "client_port"),
            (common::SERVER_IP, "server_ip"),
            (common::SERVER_PORT, "server_port"),
            (common::TRANSPORT, "transport"),
            (common::QUALITY, "quality"),
            (common::CLIENT_GUESSED, "client_guessed"),
            (common::TS_END, "ts_end"),
            (common::COMMUNITY_ID, "community_id"),
            (common::SAMPLE_RATE, "sample_rate"),
            (common::TUNNEL, "tunnel"),
            (common::TUNNEL_ID, "tunnel_id"),
            (common::TUNNEL_SRC, "tunnel_src"),
            (common::TUNNEL_DST, "tunnel_dst"),
            (common::VLAN_ID, "vlan_id"),
            (common::PROXIED_CLIENT_IP, "proxied_client_ip"),
            (common::PROXIED_CLIENT_PORT, "proxied_client_port"),
            (common::PROXIED_SERVER_IP, "proxied_server_ip"),
            (common::PROXIED_SERVER_PORT, "proxied_server_port"),
            (common::ENCRYPTED, "encrypted"),
            (common::TLS_SNI, "tls_sni"),
            (common::TLS_ALPN, "tls_alpn"),
        ] {
            assert_eq!(common::FIELDS[usize::from(id.0)].name, name);
        }
    }
}
