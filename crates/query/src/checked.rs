//! A checked query: every name resolved, every literal of its column's type, every default filled in.

use std::net::IpAddr;
use std::sync::Arc;

use tuple::{Field, FieldId, Schema};

pub use crate::ast::CompareOp;

/// A query without errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// As it was written.
    pub text: String,
    /// PARSE, in its order.
    pub inputs: Vec<Input>,
    /// FROM; empty: any client.
    pub from: Vec<Address>,
    /// TO; empty: any server.
    pub to: Vec<Address>,
    /// Every WHERE, joined by and.
    pub filter: Option<Condition>,
    /// LIMIT.
    pub limit: Limit,
    /// SAMPLE.
    pub sample: Sample,
    /// PROCESS; empty: the tuples themselves are the result.
    pub processors: Vec<Processor>,
}

impl Query {
    /// The field of a column.
    ///
    /// # Panics
    /// When the column is of another query.
    #[must_use]
    pub fn field(&self, column: Column) -> &Field {
        self.inputs[usize::from(column.input)].schema.field(column.field)
    }
}

/// One parser's tuples.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Their schema.
    pub schema: Arc<Schema>,
    /// Which of them take part, beyond what WHERE says.
    pub filter: Option<Condition>,
}

/// An address and a port, either of them open; never both: that is an empty list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Network and prefix length, the bits behind the prefix zero.
    pub net: Option<(IpAddr, u8)>,
    /// Port.
    pub port: Option<u16>,
}

/// LIMIT: whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Packets that match.
    pub packets: Option<u64>,
    /// Nanoseconds from the first packet.
    pub nanos: Option<i64>,
}

/// SAMPLE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// `*`, and the default.
    All,
    /// `auto`.
    Auto,
    /// A share of the flows, 0 < p < 1.
    Fraction(f64),
}

/// A column of one of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Place in PARSE.
    pub input: u16,
    /// Its field.
    pub field: FieldId,
}

/// A condition on a tuple.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// All of them.
    And(Vec<Condition>),
    /// Any of them.
    Or(Vec<Condition>),
    /// Not.
    Not(Box<Condition>),
    /// A comparison; a network goes with `Eq` and `Ne` only.
    Compare(Column, CompareOp, Literal),
    /// SQL LIKE.
    Like(Column, String),
    /// Equal to, or inside, one of them.
    In(Column, Vec<Literal>),
    /// Is null.
    IsNull(Column),
}

/// A constant of its column's type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Literal {
    Bool(bool),
    U64(u64),
    I64(i64),
    F64(f64),
    Text(String),
    /// A network; a single address has the full prefix length.
    Net(IpAddr, u8),
}

/// One processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    /// As it was written.
    pub name: String,
    /// `diff`: tuples without a value do not take part.
    pub diff: bool,
    /// What is aggregated; `None` when no aggregate needs a value.
    pub value: Option<Column>,
    /// What is grouped by; empty: one group of everything.
    pub group: Vec<Column>,
    /// One or more.
    pub aggregates: Vec<Aggregate>,
    /// Only the largest groups.
    pub top_k: Option<TopK>,
    /// `None`: the whole run.
    pub window: Option<Window>,
    /// Most groups held exactly; of a profile most keys of each list.
    pub groups_max: usize,
    /// `workload-profile`: no groups and aggregates then.
    pub profile: Option<Profile>,
}

/// What a profile of a workload reads of a tuple; what the parser does not have is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What was done.
    pub operation: Column,
    /// Which operations read.
    pub reads: Condition,
    /// Which write.
    pub writes: Condition,
    /// Which did what they should.
    pub success: Option<Condition>,
    /// How they ended.
    pub status: Option<Column>,
    /// How long they took.
    pub response_time: Option<Column>,
    /// Bytes that a read moved.
    pub read_bytes: Option<Column>,
    /// Bytes that a write moved.
    pub write_bytes: Option<Column>,
    /// Bytes asked for, where that is another column.
    pub size: Option<Column>,
    /// First byte in the file.
    pub offset: Option<Column>,
    /// Which file.
    pub file: Option<Column>,
    /// Whether it is a matter of whole blocks.
    pub aligned: Option<Column>,
    /// Check-sums of blocks.
    pub checksums: Option<Column>,
    /// What is ranked beside clients.
    pub object: Option<Column>,
    /// Who asks.
    pub client: Column,
    /// How many of the hottest are shown.
    pub k: usize,
    /// How many times its own size from the end of the one before an operation may begin and be sequential.
    pub near: u64,
}

/// What is computed for each group.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Aggregate {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    Stddev,
    Rate,
    Distinct(Column),
    Quantile(f64),
    Hist,
    Cdf,
    Success(Condition),
}

/// The `k` largest by the aggregate at place `by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// How many.
    pub k: usize,
    /// Place in the aggregates.
    pub by: usize,
}

/// Windows of event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length.
    pub size_ns: i64,
    /// Distance of starts; the length is a multiple of it.
    pub slide_ns: i64,
    /// How long after its end a window still takes tuples.
    pub lateness_ns: i64,
}
