//! Specification of a monitor: packets, parsers, columns, and limits.

use std::net::IpAddr;
use std::sync::Arc;

use tuple::{FieldId, Schema, TapColumns};

use crate::taps::TapSelection;

/// The specification of a monitor; by default all packets, without parsers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonitorSpec {
    /// The parsers in the order of the query, which are the inputs of the dataflow.
    pub parsers: Vec<ParserUse>,
    /// Matching client endpoints (FROM); empty matches any.
    pub clients: Vec<AddressMatch>,
    /// Matching server endpoints (TO); empty matches any.
    pub servers: Vec<AddressMatch>,
    /// Conditions for the end.
    pub limit: QueryLimit,
    /// Start and end, the same for all monitors of a query.
    pub span: TimeSpan,
    /// The sampled flows.
    pub sample: SampleMode,
    /// Goal of a sampling rate that is chosen while the query runs.
    pub goal: RateGoal,
    /// Seed of the sample, the same for all monitors of a query.
    pub sample_seed: u64,
    /// The taps that report a flow seen by several taps.
    pub taps: TapSelection,
}

/// A parser with its required columns.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserUse {
    /// The parser's schema, which has the parser's name.
    pub schema: Arc<Schema>,
    /// The columns read by later stages, ascending.
    pub columns: Vec<FieldId>,
}

impl ParserUse {
    /// Every column of a parser.
    #[must_use]
    pub fn all_columns(schema: Arc<Schema>) -> Self {
        ParserUse {
            columns: schema.ids().collect(),
            schema,
        }
    }

    /// Whether the query uses the comparison of two taps.
    #[must_use]
    pub fn reads_two_taps(&self) -> bool {
        TapColumns::of(&self.schema).is_some_and(|taps| taps.any(&self.columns))
    }
}

/// An address and a port, both optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMatch {
    /// Network and prefix length; `None` matches every address.
    pub net: Option<(IpAddr, u8)>,
    /// `None` matches every port.
    pub port: Option<u16>,
}

/// Conditions for the end of a query; the first one reached ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryLimit {
    /// Number of packets that match FROM and TO.
    pub packets: Option<u64>,
    /// Time after the first packet, by packet timestamps.
    pub nanos: Option<i64>,
}

/// A period of packet timestamps. If it has a start, a time limit begins there rather than at each monitor's first
/// packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpan {
    /// Earlier packets are skipped; nanoseconds since the epoch.
    pub start_ns: Option<i64>,
    /// The first packet at or after this time ends the query.
    pub end_ns: Option<i64>,
}

/// Goal of a sampling rate: SAMPLE auto ERROR, and BUDGET cpu. With both, the budget is the upper bound of the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateGoal {
    /// Maximum half width of the 95 % interval, divided by the value.
    pub error: Option<f64>,
    /// Maximum CPU time divided by the elapsed time: of this host's cores, or of one core of the exporters.
    pub cpu: Option<f64>,
}

impl RateGoal {
    /// Whether there is a goal.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.error.is_some() || self.cpu.is_some()
    }
}

/// The sampled share of flows; each flow is included or excluded as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SampleMode {
    /// Every flow.
    #[default]
    All,
    /// All flows, fewer under load (live input).
    Auto,
    /// A share p of the flows, 0 < p < 1, selected by the flow's hash.
    Fraction(f64),
    /// The packets carry export messages (sFlow, NetFlow, IPFIX): tuples are made from their samples and flow records,
    /// which have the sampling rates of their exporters.
    Exported,
}
