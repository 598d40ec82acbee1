//! Message definitions of a plan, field by field. Field numbers are never reused after a field is removed. A missing
//! optional field is `None`; missing other fields are zero or empty.

use prost::{Message, Oneof};

/// [`crate::Plan`].
#[derive(Clone, PartialEq, Message)]
pub struct PlanProto {
    /// The minimum version of this format required of the reader.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Further features required of the reader.
    #[prost(string, repeated, tag = "2")]
    pub needs: Vec<String>,
    #[prost(string, tag = "3")]
    pub query: String,
    #[prost(message, optional, tag = "4")]
    pub monitor: Option<MonitorSpecProto>,
    #[prost(message, optional, tag = "5")]
    pub dataflow: Option<DataflowProto>,
}

/// [`crate::MonitorSpec`].
#[derive(Clone, PartialEq, Message)]
pub struct MonitorSpecProto {
    #[prost(message, repeated, tag = "1")]
    pub parsers: Vec<ParserUseProto>,
    #[prost(message, repeated, tag = "2")]
    pub clients: Vec<AddressMatchProto>,
    #[prost(message, repeated, tag = "3")]
    pub servers: Vec<AddressMatchProto>,
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
    /// Goal of the sample `auto`.
    #[prost(double, optional, tag = "41")]
    pub error_max: Option<f64>,
    #[prost(double, optional, tag = "42")]
    pub cpu_max: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AddressMatchProto {
    #[prost(message, optional, tag = "1")]
    pub net: Option<NetProto>,
    #[prost(uint32, optional, tag = "2")]
    pub port: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NetProto {
    /// 4 or 16 bytes in network order.
    #[prost(bytes = "vec", tag = "1")]
    pub address: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub prefix: u32,
}

/// A parser's schema by name, with the family members added by the query.
#[derive(Clone, PartialEq, Message)]
pub struct SchemaProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint32, tag = "2")]
    pub version: u32,
    #[prost(string, repeated, tag = "3")]
    pub members: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ParserUseProto {
    #[prost(message, optional, tag = "1")]
    pub schema: Option<SchemaProto>,
    #[prost(string, repeated, tag = "2")]
    pub columns: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DataflowProto {
    #[prost(message, repeated, tag = "1")]
    pub inputs: Vec<InputProto>,
    #[prost(message, optional, tag = "2")]
    pub filter: Option<ExpressionProto>,
    #[prost(message, repeated, tag = "3")]
    pub pipelines: Vec<PipelineProto>,
    #[prost(message, repeated, tag = "4")]
    pub computed: Vec<ComputedProto>,
    #[prost(message, optional, tag = "5")]
    pub select: Option<ColumnsProto>,
    #[prost(message, repeated, tag = "6")]
    pub order: Vec<SortKeyProto>,
    #[prost(uint64, optional, tag = "7")]
    pub rows_max: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct InputProto {
    #[prost(message, optional, tag = "1")]
    pub schema: Option<SchemaProto>,
    #[prost(string, repeated, tag = "2")]
    pub columns: Vec<String>,
    #[prost(message, optional, tag = "3")]
    pub filter: Option<ExpressionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ColumnsProto {
    #[prost(message, repeated, tag = "1")]
    pub list: Vec<ColumnProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ColumnProto {
    #[prost(oneof = "ColumnKindProto", tags = "1, 2, 3, 4, 5")]
    pub of: Option<ColumnKindProto>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ColumnKindProto {
    #[prost(message, tag = "1")]
    Input(InputColumnProto),
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
pub struct InputColumnProto {
    #[prost(uint32, tag = "1")]
    pub input: u32,
    #[prost(string, tag = "2")]
    pub name: String,
}

/// A condition or value in postfix order, without nesting.
#[derive(Clone, PartialEq, Message)]
pub struct ExpressionProto {
    #[prost(message, repeated, tag = "1")]
    pub steps: Vec<StepProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StepProto {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Number of operands on the stack.
    #[prost(uint32, tag = "2")]
    pub operands: u32,
    #[prost(message, optional, tag = "3")]
    pub column: Option<ColumnProto>,
    #[prost(message, repeated, tag = "4")]
    pub literals: Vec<LiteralProto>,
    #[prost(sint64, repeated, tag = "5")]
    pub numbers: Vec<i64>,
    #[prost(string, repeated, tag = "6")]
    pub texts: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LiteralProto {
    #[prost(oneof = "LiteralKindProto", tags = "1, 2, 3, 4, 5, 6")]
    pub of: Option<LiteralKindProto>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum LiteralKindProto {
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
    Net(NetProto),
}

#[derive(Clone, PartialEq, Message)]
pub struct ComputedProto {
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
    pub value: Option<ExpressionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PipelineProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub values: Vec<ValueProto>,
    #[prost(bool, tag = "3")]
    pub value_required: bool,
    #[prost(message, repeated, tag = "4")]
    pub group: Vec<GroupByProto>,
    #[prost(message, repeated, tag = "5")]
    pub aggregates: Vec<AggregateProto>,
    #[prost(message, optional, tag = "6")]
    pub top_k: Option<TopKProto>,
    #[prost(message, optional, tag = "7")]
    pub window: Option<WindowProto>,
    #[prost(uint64, tag = "8")]
    pub groups_max: u64,
    #[prost(message, optional, tag = "9")]
    pub selection: Option<SelectionProto>,
    #[prost(message, optional, boxed, tag = "10")]
    pub profile: Option<Box<ProfileProto>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueProto {
    #[prost(message, optional, tag = "1")]
    pub column: Option<ColumnProto>,
    #[prost(string, tag = "2")]
    pub unit: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GroupByProto {
    #[prost(message, optional, tag = "1")]
    pub column: Option<ColumnProto>,
    #[prost(string, tag = "2")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AggregateProto {
    #[prost(string, tag = "1")]
    pub aggregate: String,
    /// Index of the value.
    #[prost(uint32, tag = "2")]
    pub value: u32,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// For `distinct`.
    #[prost(message, optional, tag = "4")]
    pub column: Option<ColumnProto>,
    /// For `quantile`.
    #[prost(double, optional, tag = "5")]
    pub quantile: Option<f64>,
    /// For `success` and `ratio`.
    #[prost(message, optional, tag = "6")]
    pub condition: Option<ExpressionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TopKProto {
    #[prost(uint64, tag = "1")]
    pub k: u64,
    /// Index of the aggregate.
    #[prost(uint32, tag = "2")]
    pub by: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct WindowProto {
    #[prost(sint64, tag = "1")]
    pub size_ns: i64,
    #[prost(sint64, tag = "2")]
    pub slide_ns: i64,
    #[prost(sint64, tag = "3")]
    pub lateness_ns: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct SelectionProto {
    #[prost(message, repeated, tag = "1")]
    pub computed: Vec<ComputedProto>,
    #[prost(message, optional, tag = "2")]
    pub having: Option<ExpressionProto>,
    #[prost(message, repeated, tag = "3")]
    pub order_by: Vec<SortKeyProto>,
    #[prost(uint64, optional, tag = "4")]
    pub rows_max: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SortKeyProto {
    #[prost(message, optional, tag = "1")]
    pub column: Option<ColumnProto>,
    #[prost(string, tag = "2")]
    pub direction: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProfileProto {
    #[prost(message, optional, tag = "1")]
    pub operation: Option<ColumnProto>,
    #[prost(message, optional, tag = "2")]
    pub reads: Option<ExpressionProto>,
    #[prost(message, optional, tag = "3")]
    pub writes: Option<ExpressionProto>,
    #[prost(message, optional, tag = "4")]
    pub success: Option<ExpressionProto>,
    #[prost(message, optional, tag = "5")]
    pub status: Option<ColumnProto>,
    #[prost(message, optional, tag = "6")]
    pub response_time: Option<ColumnProto>,
    #[prost(message, optional, tag = "7")]
    pub read_bytes: Option<ColumnProto>,
    #[prost(message, optional, tag = "8")]
    pub write_bytes: Option<ColumnProto>,
    #[prost(message, optional, tag = "9")]
    pub size: Option<ColumnProto>,
    #[prost(message, optional, tag = "10")]
    pub offset: Option<ColumnProto>,
    #[prost(message, optional, tag = "11")]
    pub file: Option<ColumnProto>,
    #[prost(message, optional, tag = "12")]
    pub aligned: Option<ColumnProto>,
    #[prost(message, optional, tag = "13")]
    pub checksums: Option<ColumnProto>,
    #[prost(message, optional, tag = "14")]
    pub object: Option<ColumnProto>,
    #[prost(message, optional, tag = "15")]
    pub client: Option<ColumnProto>,
    #[prost(uint64, tag = "16")]
    pub k: u64,
    #[prost(uint64, tag = "17")]
    pub near: u64,
}
