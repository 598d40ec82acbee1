//! Names, types and units of columns, and the fields that every parser's tuples begin with.

use std::borrow::Cow;

use crate::facts::Facts;
use crate::fold::Fold;

/// How a column is stored. Text is UTF-8; bytes that are not are written as `\xNN`.
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

/// What a number counts; decides how it is printed for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A plain number.
    None,
    /// A duration.
    Nanoseconds,
    /// A time: nanoseconds since the epoch.
    EpochNanoseconds,
    /// Bytes.
    Bytes,
    /// Something per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// 0 to 1.
    Fraction,
    /// An identifier: printed as 16 hexadecimal digits.
    Id,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in queries and outputs; durations end in `_ns`.
    pub name: Cow<'static, str>,
    /// How it is stored.
    pub data_type: DataType,
    /// What it counts.
    pub unit: Unit,
    /// One line for people.
    pub doc: Cow<'static, str>,
    /// What is kept of it, and may leave for another machine.
    pub redact: Redact,
}

impl Field {
    /// A field known at compile time.
    #[must_use]
    pub const fn new(name: &'static str, data_type: DataType, unit: Unit, doc: &'static str) -> Field {
        Field::folded(name, data_type, unit, doc, &[])
    }

    /// A field known at compile time whose text is redacted with the fold, if there is one.
    #[must_use]
    pub const fn folded(
        name: &'static str,
        data_type: DataType,
        unit: Unit,
        doc: &'static str,
        fold: &[Fold],
    ) -> Field {
        let redact = match fold {
            [] => Redact::Keep,
            [fold, ..] => Redact::Fold(*fold),
        };
        Field { name: Cow::Borrowed(name), data_type, unit, doc: Cow::Borrowed(doc), redact }
    }
}

/// How a column is redacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redact {
    /// It says nothing of a person.
    Keep,
    /// Every text is folded.
    Fold(Fold),
    /// In rows where the text column says one of these, the text is folded so.
    Where(FieldId, Vec<(String, Fold)>),
}

/// A column's place in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub u16);

/// The columns of one parser's tuples, or of one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The parser's or the result's name.
    pub name: Cow<'static, str>,
    /// Grows when a field changes meaning or goes; new fields at the end do not count.
    pub version: u16,
    /// One line for people.
    pub doc: Cow<'static, str>,
    /// All columns; a parser's begin with [`common::FIELDS`].
    pub fields: Vec<Field>,
    /// What aggregates aggregate unless told otherwise.
    pub measure: Option<FieldId>,
    /// What `group` and `top-k` group by unless told otherwise.
    pub key: Option<FieldId>,
    /// The tables that a recording keeps them in, linked tuple by tuple; empty: one, called after the schema.
    pub parts: &'static [Part],
    /// What the parser knows of its tuples; of a result nothing.
    pub facts: &'static Facts,
}

/// A table for a part of each tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The table's name.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
}

/// What a part's table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// These fields: one row for each tuple.
    Fields(&'static [FieldId]),
    /// All fields that no other part holds: one row for each tuple.
    Rest,
    /// A text that lists check-sums of blocks: one row for each block.
    Blocks {
        /// The text: 16 hexadecimal digits for each block, or `-` where it is not known, blanks between.
        list: FieldId,
        /// Where the data begin; the first block of the list is the first that begins there or later.
        start: FieldId,
        /// Length of a block.
        block_bytes: u64,
    },
}

impl Schema {
    /// The schema of a parser: the common fields, then its own.
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
            facts: &Facts::NONE,
        }
    }

    /// The field at `id`.
    ///
    /// # Panics
    /// When `id` is of another schema.
    #[must_use]
    pub fn field(&self, id: FieldId) -> &Field {
        &self.fields[usize::from(id.0)]
    }

    /// The place of the field called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<FieldId> {
        self.fields.iter().position(|f| f.name == name).map(|i| FieldId(i as u16))
    }

    /// Every field's place.
    pub fn ids(&self) -> impl Iterator<Item = FieldId> + use<> {
        (0..self.fields.len() as u16).map(FieldId)
    }
}

/// Declares a parser's own fields: a constant for each, and `FIELDS` in the same order. Text that may say something of
/// a person has a [`Fold`](crate::Fold) behind it: how recordings redact it.
///
/// ```
/// use tuple::redact::HASH;
/// tuple::fields! {
///     STATUS: U64, None, "status", "response status code";
///     USER: Text, None, "user", "who asks" => HASH;
/// }
/// assert_eq!(STATUS, tuple::FieldId(tuple::common::FIELDS.len() as u16));
/// assert_eq!(FIELDS[1].name, "user");
/// assert_eq!(FIELDS[1].redact, tuple::Redact::Fold(HASH));
/// ```
#[macro_export]
macro_rules! fields {
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

/// The fields that every tuple of every parser begins with.
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

    /// The addresses that a PROXY protocol header gives.
    pub const PROXIED: [FieldId; 4] =
        [PROXIED_CLIENT_IP, PROXIED_CLIENT_PORT, PROXIED_SERVER_IP, PROXIED_SERVER_PORT];

    /// Fields that say of a flow what they say of every tuple of it.
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

    /// Their places.
    pub const IDS: [FieldId; FIELDS.len()] = {
        let mut ids = [ID; FIELDS.len()];
        let mut i = 0;
        while i < ids.len() {
            ids[i] = FieldId(i as u16);
            i += 1;
        }
        ids
    };

    /// All of them.
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
            "first packet of what the tuple tells of (the request's first byte)",
        ),
        Field::new("client_ip", DataType::Ip, Unit::None, "who opened the flow, or asks"),
        Field::new("client_port", DataType::U64, Unit::None, "the client's port"),
        Field::new("server_ip", DataType::Ip, Unit::None, "who answers"),
        Field::new("server_port", DataType::U64, Unit::None, "the server's port"),
        Field::new("transport", DataType::Text, Unit::None, "tcp, udp, icmp, icmp6 or the protocol's number"),
        Field::new("quality", DataType::Text, Unit::None, "exact, gap_body, resync, midstream or half"),
        Field::new(
            "client_guessed",
            DataType::Bool,
            Unit::None,
            "true where no SYN and no parser said which end is the client",
        ),
        Field::new(
            "ts_end",
            DataType::I64,
            Unit::EpochNanoseconds,
            "when the tuple was complete; windows go by it",
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
            "the share of flows that was taken when this one was; all when absent",
        ),
        Field::new(
            "tunnel",
            DataType::Text,
            Unit::None,
            "what was taken off the flow's first packet, from the outside in: vxlan, gre/mpls",
        ),
        Field::new(
            "tunnel_id",
            DataType::U64,
            Unit::None,
            "VXLAN or Geneve network, GRE key, ERSPAN or PPPoE session, GTP TEID or MPLS label, of the innermost",
        ),
        Field::new(
            "tunnel_src",
            DataType::Ip,
            Unit::None,
            "sender of the innermost IP header around the packet",
        ),
        Field::new("tunnel_dst", DataType::Ip, Unit::None, "its receiver"),
        Field::new(
            "vlan_id",
            DataType::U64,
            Unit::None,
            "VLAN of the packet; of stacked tags that of the last",
        ),
        Field::new(
            "proxied_client_ip",
            DataType::Ip,
            Unit::None,
            "the client's address in the PROXY protocol header that the connection begins with",
        ),
        Field::new("proxied_client_port", DataType::U64, Unit::None, "the client's port in that header"),
        Field::new(
            "proxied_server_ip",
            DataType::Ip,
            Unit::None,
            "the address in that header that the client connected to",
        ),
        Field::new("proxied_server_port", DataType::U64, Unit::None, "the port that it connected to"),
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
        ] {
            assert_eq!(common::FIELDS[usize::from(id.0)].name, name);
        }
    }
}
