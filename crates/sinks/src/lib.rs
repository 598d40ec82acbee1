//! Output of tuples and results: a table, JSON lines, CSV, Parquet. A sink writes [`tuple::Batch`]es to any
//! [`std::io::Write`]; only [`DataSet`] opens files, and no sink reads the environment or filters rows.
//!
//! [`Jsonl`] and [`Csv`] are for programs, with exact and stable values; [`Table`] is for people, with rounded values
//! and units.

#![forbid(unsafe_code)]

pub mod beside;
pub mod cells;
pub mod csv;
pub mod jsonl;
pub mod parquet;
pub mod redacted;
pub mod sink;
pub mod table;
pub mod units;
pub mod zone;

#[cfg(test)]
mod samples;

pub use crate::csv::Csv;
pub use beside::Beside;
pub use jsonl::Jsonl;
pub use parquet::{DataSet, Parquet};
pub use redacted::Redacted;
pub use sink::{AGENTS_MISSING, Delivered, Empty, ResultHead, Sink, Vitals, distinct_names};
pub use table::{Pace, Style, Table};
pub use zone::Zone;
