//! The output of monitors: [`Schema`]s, [`Batch`]es of typed columns (Arrow arrays), and the [`TupleWriter`] that
//! parsers fill row by row with the columns required by a plan.
//!
//! Results of the stream engine are batches, too, so that sinks and the [`Redactor`] handle a single type. This crate
//! does not depend on packets, protocols, or formats.

#![forbid(unsafe_code)]

pub mod batch;
mod column_builder;
pub mod facts;
pub mod family;
pub mod fold;
pub mod hashes;
pub mod origin;
pub mod redact;
pub mod schema;
pub mod taps;
pub mod writer;

pub use batch::Batch;
pub use facts::{ColumnFamily, SchemaFacts, WorkloadFacts};
pub use family::{LABELS, MEMBERS_MAX};
pub use fold::{HASH, RedactionSecret, TextFold};
pub use origin::{AGENT, AgentOrigin, OriginColumn};
pub use redact::Redactor;
pub use schema::{
    DataType, Field, FieldId, PartContent, RedactionRule, Schema, TablePart, Unit, common,
};
pub use taps::{TAPS, TapColumns, TapEnd};
pub use writer::TupleWriter;
