//! Specification of a monitor: packets, parsers, columns, and limits.

use std::net::IpAddr;
use std::sync::Arc;

use tuple::{FieldId, Schema, TapColumns};

use crate::taps::Taps;

/// A monitor's orders; by default every packet, for no parser.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonitorSpec {
    /// The parsers, in the order of the query; their places are the inputs of the dataflow.
    pub parsers: Vec<ParserUse>,
    /// Client ends that match (FROM); empty means any.
    pub clients: Vec<AddressMatch>,
    /// Server ends that match (TO); empty means any.
    pub servers: Vec<AddressMatch>,
    /// When to stop.
    pub limit: Limit,
    /// When it begins and ends in any case; all monitors of a query have the same.
    pub span: Span,
    /// Which flows to look at.
    pub sample: Sample,
    /// Which of the possible samples; all monitors of a query take the same.
    pub sample_seed: u64,
    /// Which taps tell of a flow that several see.
    pub taps: Taps,
}

/// One parser and the columns that are wanted of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserUse {
    /// The parser's schema; its name is the parser's.
    pub schema: Arc<Schema>,
    /// The columns anybody downstream reads, ascending.
    pub columns: Vec<FieldId>,
}

impl ParserUse {
    /// Every column of a parser.
    #[must_use]
    pub fn all_columns(schema: Arc<Schema>) -> Self {
        ParserUse { columns: schema.ids().collect(), schema }
    }

    /// Whether the query uses the comparison of two taps.
    #[must_use]
    pub fn reads_two_taps(&self) -> bool {
        TapColumns::of(&self.schema).is_some_and(|taps| taps.any(&self.columns))
    }
}

/// An address and a port, either of them open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMatch {
    /// Network and prefix length; `None` matches every address.
    pub net: Option<(IpAddr, u8)>,
    /// `None` matches every port.
    pub port: Option<u16>,
}

/// When a query ends by itself: at whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// After this many packets that match FROM and TO.
    pub packets: Option<u64>,
    /// This long after the first packet, by the packets' clock.
    pub nanos: Option<i64>,
}

/// A stretch of the packets' clock. Where it has a start, a limit of time runs from there and not from each monitor's own first
/// packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Packets from before it are left out; nanoseconds since the epoch.
    pub start_ns: Option<i64>,
    /// The first packet at or after it ends the query.
    pub end_ns: Option<i64>,
}

/// The share of flows that is looked at; a flow is wholly in or wholly out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sample {
    /// Every flow.
    #[default]
    All,
    /// Every flow, fewer under pressure (live input).
    Auto,
    /// This share, 0 < p < 1, chosen by the flow's hash.
    Fraction(f64),
}
