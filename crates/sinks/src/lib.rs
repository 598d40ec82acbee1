//! Output of tuples and results: a table, JSON lines, CSV, Parquet. A sink writes [`tuple::Batch`]es to any
//! [`std::io::Write`]; only [`DataSetSink`] opens files, and no sink reads the environment or filters rows.
//!
//! [`JsonlSink`] and [`CsvSink`] are for programs, with exact and stable values; [`TableSink`] is for people, with rounded values
//! and units.

#![forbid(unsafe_code)]

pub mod cells;
pub mod csv;
pub mod jsonl;
pub mod parquet;
pub mod redacted;
pub mod sink;
pub mod table;
pub mod tee;
pub mod units;
pub mod zone;

#[cfg(test)]
mod samples;

pub use crate::csv::CsvSink;
pub use jsonl::JsonlSink;
pub use parquet::{DataSetSink, ParquetSink};
pub use redacted::RedactedSink;
pub use sink::{
    AGENTS_MISSING, DeliveryOutcome, EmptyReason, ResultHead, RunVitals, Sink, distinct_names,
};
pub use table::{TableSink, TableStyle, WindowPace};
pub use tee::TeeSink;
pub use zone::DisplayZone;
