//! Message definitions of a plan, field by field. Field numbers are never reused after a field is removed. A missing
//! optional field is `None`; missing other fields are zero or empty.

use prost::{Message, Oneof};

/// [`crate::Plan`].
#[derive(Clone, PartialEq, Message)]
pub struct Plan {
    /// The minimum version of this format required of the reader.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Further features required of the reader.
    #[prost(string, repeated, tag = "2")]
    pub needs: Vec<String>,
    #[prost(string, tag = "3")]
    pub query: String,
    #[prost(message, optional, tag = "4")]
    pub monitor: Option<Monitor>,
    #[prost(message, optional, tag = "5")]
    pub dataflow: Option<Dataflow>,
}

/// [`crate::MonitorSpec`].
#[derive(Clone, PartialEq, Message)]
pub struct Monitor {
    #[prost(message, repeated, tag = "1")]
    pub parsers: Vec<ParserUse>,
    #[prost(message, repeated, tag = "2")]
    pub clients: Vec<AddressMatch>,
    #[prost(message, repeated, tag = "3")]
    pub servers: Vec<AddressMatch>,
    #[prost(uint64, optional, tag = "4")]
    pub packets_max: Option<u64>,
    #[prost(sint64, optional, tag = "5")]
    pub nanos_max: Option<i64>,
    #[prost(string, tag = "6")]
    pub sample: String,
    /// For the sample `fraction`.
    #[prost(double, optional, tag = "7")]
    pub fraction: Option<f64>,
    #[prost(fixed64, tag = "8")]
    pub sample_seed: u64,
    #[prost(sfixed64, optional, tag = "9")]
    pub start_ns: Option<i64>,
    #[prost(sfixed64, optional, tag = "10")]
    pub end_ns: Option<i64>,
    /// Empty: `server`.
    #[prost(string, tag = "40")]
    pub taps: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AddressMatch {
    #[prost(message, optional, tag = "1")]
    pub net: Option<Net>,
    #[prost(uint32, optional, tag = "2")]
    pub port: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Net {
    /// 4 or 16 bytes in network order.
    #[prost(bytes = "vec", tag = "1")]
    pub address: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub prefix: u32,
}

/// A parser's schema by name, with the family members added by the query.
#[derive(Clone, PartialEq, Message)]
pub struct Schema {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint32, tag = "2")]
    pub version: u32,
    #[prost(string, repeated, tag = "3")]
    pub members: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ParserUse {
    #[prost(message, optional, tag = "1")]
    pub schema: Option<Schema>,
    #[prost(string, repeated, tag = "2")]
    pub columns: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Dataflow {
    #[prost(message, repeated, tag = "1")]
    pub inputs: Vec<Input>,
    #[prost(message, optional, tag = "2")]
    pub filter: Option<Expression>,
    #[prost(message, repeated, tag = "3")]
    pub pipelines: Vec<Pipeline>,
    #[prost(message, repeated, tag = "4")]
    pub computed: Vec<Computed>,
    #[prost(message, optional, tag = "5")]
    pub select: Option<Columns>,
    #[prost(message, repeated, tag = "6")]
    pub order: Vec<SortKey>,
    #[prost(uint64, optional, tag = "7")]
    pub rows_max: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Input {
    #[prost(message, optional, tag = "1")]
    pub schema: Option<Schema>,
    #[prost(string, repeated, tag = "2")]
    pub columns: Vec<String>,
    #[prost(message, optional, tag = "3")]
    pub filter: Option<Expression>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Columns {
    #[prost(message, repeated, tag = "1")]
    pub list: Vec<Column>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Column {
    #[prost(oneof = "ColumnOf", tags = "1, 2, 3, 4, 5")]
    pub of: Option<ColumnOf>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ColumnOf {
    #[prost(message, tag = "1")]
    Input(InputColumn),
    /// Index of a computed column.
    #[prost(uint32, tag = "2")]
    Computed(u32),
    /// For a result: index of the group column.
    #[prost(uint32, tag = "3")]
    Group(u32),
    /// For a result: index of the aggregate.
    #[prost(uint32, tag = "4")]
    Aggregate(u32),
    /// For a result: another column, by name.
    #[prost(string, tag = "5")]
    Result(String),
}

#[derive(Clone, PartialEq, Message)]
pub struct InputColumn {
    #[prost(uint32, tag = "1")]
    pub input: u32,
    #[prost(string, tag = "2")]
    pub name: String,
}

/// A condition or value in postfix order, without nesting.
#[derive(Clone, PartialEq, Message)]
pub struct Expression {
    #[prost(message, repeated, tag = "1")]
    pub steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Step {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Number of operands on the stack.
    #[prost(uint32, tag = "2")]
    pub operands: u32,
    #[prost(message, optional, tag = "3")]
    pub column: Option<Column>,
    #[prost(message, repeated, tag = "4")]
    pub literals: Vec<Literal>,
    #[prost(sint64, repeated, tag = "5")]
    pub numbers: Vec<i64>,
    #[prost(string, repeated, tag = "6")]
    pub texts: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Literal {
    #[prost(oneof = "LiteralOf", tags = "1, 2, 3, 4, 5, 6")]
    pub of: Option<LiteralOf>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum LiteralOf {
    #[prost(bool, tag = "1")]
    Bool(bool),
    #[prost(uint64, tag = "2")]
    U64(u64),
    #[prost(sint64, tag = "3")]
    I64(i64),
    #[prost(double, tag = "4")]
    F64(f64),
    #[prost(string, tag = "5")]
    Text(String),
    #[prost(message, tag = "6")]
    Net(Net),
}

#[derive(Clone, PartialEq, Message)]
pub struct Computed {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub data_type: String,
    #[prost(string, tag = "3")]
    pub unit: String,
    #[prost(string, tag = "4")]
    pub doc: String,
    /// Redaction: a method of the renamed column, or one known to every program.
    #[prost(string, optional, tag = "5")]
    pub fold: Option<String>,
    #[prost(string, tag = "6")]
    pub text: String,
    #[prost(message, optional, tag = "7")]
    pub value: Option<Expression>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Pipeline {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub values: Vec<Value>,
    #[prost(bool, tag = "3")]
    pub value_required: bool,
    #[prost(message, repeated, tag = "4")]
    pub group: Vec<GroupBy>,
    #[prost(message, repeated, tag = "5")]
    pub aggregates: Vec<Aggregated>,
    #[prost(message, optional, tag = "6")]
    pub top_k: Option<TopK>,
    #[prost(message, optional, tag = "7")]
    pub window: Option<Window>,
    #[prost(uint64, tag = "8")]
    pub groups_max: u64,
    #[prost(message, optional, tag = "9")]
    pub selection: Option<Selection>,
    #[prost(message, optional, boxed, tag = "10")]
    pub profile: Option<Box<Profile>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(message, optional, tag = "1")]
    pub column: Option<Column>,
    #[prost(string, tag = "2")]
    pub unit: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GroupBy {
    #[prost(message, optional, tag = "1")]
    pub column: Option<Column>,
    #[prost(string, tag = "2")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Aggregated {
    #[prost(string, tag = "1")]
    pub aggregate: String,
    /// Index of the value.
    #[prost(uint32, tag = "2")]
    pub value: u32,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// For `distinct`.
    #[prost(message, optional, tag = "4")]
    pub column: Option<Column>,
    /// For `quantile`.
    #[prost(double, optional, tag = "5")]
    pub quantile: Option<f64>,
    /// For `success` and `ratio`.
    #[prost(message, optional, tag = "6")]
    pub condition: Option<Expression>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TopK {
    #[prost(uint64, tag = "1")]
    pub k: u64,
    /// Index of the aggregate.
    #[prost(uint32, tag = "2")]
    pub by: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Window {
    #[prost(sint64, tag = "1")]
    pub size_ns: i64,
    #[prost(sint64, tag = "2")]
    pub slide_ns: i64,
    #[prost(sint64, tag = "3")]
    pub lateness_ns: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Selection {
    #[prost(message, repeated, tag = "1")]
    pub computed: Vec<Computed>,
    #[prost(message, optional, tag = "2")]
    pub having: Option<Expression>,
    #[prost(message, repeated, tag = "3")]
    pub order_by: Vec<SortKey>,
    #[prost(uint64, optional, tag = "4")]
    pub rows_max: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SortKey {
    #[prost(message, optional, tag = "1")]
    pub column: Option<Column>,
    #[prost(string, tag = "2")]
    pub direction: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(message, optional, tag = "1")]
    pub operation: Option<Column>,
    #[prost(message, optional, tag = "2")]
    pub reads: Option<Expression>,
    #[prost(message, optional, tag = "3")]
    pub writes: Option<Expression>,
    #[prost(message, optional, tag = "4")]
    pub success: Option<Expression>,
    #[prost(message, optional, tag = "5")]
    pub status: Option<Column>,
    #[prost(message, optional, tag = "6")]
    pub response_time: Option<Column>,
    #[prost(message, optional, tag = "7")]
    pub read_bytes: Option<Column>,
    #[prost(message, optional, tag = "8")]
    pub write_bytes: Option<Column>,
    #[prost(message, optional, tag = "9")]
    pub size: Option<Column>,
    #[prost(message, optional, tag = "10")]
    pub offset: Option<Column>,
    #[prost(message, optional, tag = "11")]
    pub file: Option<Column>,
    #[prost(message, optional, tag = "12")]
    pub aligned: Option<Column>,
    #[prost(message, optional, tag = "13")]
    pub checksums: Option<Column>,
    #[prost(message, optional, tag = "14")]
    pub object: Option<Column>,
    #[prost(message, optional, tag = "15")]
    pub client: Option<Column>,
    #[prost(uint64, tag = "16")]
    pub k: u64,
    #[prost(uint64, tag = "17")]
    pub near: u64,
}
